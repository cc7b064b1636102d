"""The admin API, below `/_emulator`: health, reset, journal, deliveries, faults, clock, credits.

It needs no key, so it answers only programs on this machine, and no page of a browser.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from fnmatch import fnmatchcase
from typing import Annotated

from pydantic import Field, StrictInt
from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from receiver.core.addresses import is_loopback
from receiver.emulator.account.account import CreditLedger
from receiver.emulator.account.keys import team_of_key
from receiver.emulator.api.calls import Json, read_json, reply, reply_refusal, unknown_error_body, unknown_operation
from receiver.emulator.api.faults import CallFault, InjectedFaults, JobFault, Span, WebhookFault
from receiver.emulator.api.journal import Journal
from receiver.emulator.clock import EmulatorClock, wire_time
from receiver.emulator.failures import CallRefused
from receiver.emulator.ids import IdSource
from receiver.emulator.webhooks.outbox import Outbox
from receiver.emulator.webhooks.table import DeliveryRecord
from receiver.emulator.wire.bodies import RequestPolicy, custom_issue, read_body, refusal, without_nulls
from receiver.events.catalog import EVENT_CLASSES
from receiver.requests.base import Request
from receiver.runtime.log_lines import event_log

log = event_log(__name__)

PREFIX = "/_emulator"
_POLICY = RequestPolicy()
_MOST_ROWS = 1_000
_NO_EVENT = "No event has a type like {!r}. The types are " + ", ".join(EVENT_CLASSES)
_NO_OPERATION = (
    "operation: no call is {!r}; write a rate limit such as 'scrape', a path such as '/v2/crawl/{{id}}', or '*'"
)
_LONGEST_WAIT = 30.0
"""Real seconds for what a moved clock has woken."""

MANUAL: dict[tuple[str, str], tuple[str, Json]] = {
    ("GET", "/_emulator"): ("List the operations of this API.", {}),
    ("GET", "/_emulator/health"): ("Report that the emulator runs, and its time.", {}),
    ("POST", "/_emulator/reset"): (
        "Stop all jobs and forget all but the time: jobs, monitors, pages, webhooks, credits, faults, calls.",
        {},
    ),
    ("GET", "/_emulator/journal"): (
        "List the last calls of the API, newest first.",
        {"query": {"limit": "1 to 1000, by default 100", "before": "a seq", "path": "how the path begins"}},
    ),
    ("GET", "/_emulator/deliveries"): (
        "List webhooks with their attempts, newest first, and count them by state.",
        {"query": {"limit": "1 to 1000, by default 100", "before": "a seq", "job": "the id of a job or check"}},
    ),
    ("GET", "/_emulator/faults"): ("List the faults that are still to come.", {}),
    ("POST", "/_emulator/faults"): (
        "Ask for a fault of the next calls, webhooks or jobs.",
        {
            "bodies": [
                {"operation": "scrape", "status": 429, "times": 2, "retryAfter": 7},
                {"webhook": "crawl.*", "times": 5, "copies": 2, "late": "1m", "shuffle": "30s"},
                {"job": "crawl", "after": 3, "error": "The site went away"},
            ]
        },
    ),
    ("DELETE", "/_emulator/faults"): ("Forget all faults that are still to come.", {}),
    ("GET", "/_emulator/clock"): ("Report the emulator's time, and how fast it passes.", {}),
    ("POST", "/_emulator/clock"): (
        "Move the clock forward; everything that is due on the way happens first.",
        {"bodies": [{"advance": "1h30m"}]},
    ),
    ("POST", "/_emulator/credits"): (
        "Set the credits that a team has left: the one of a key or an id, or without both all of them.",
        {"bodies": [{"credits": 0}, {"credits": 500, "key": "fc-any"}]},
    ),
}
"""By method and path: a sentence, and examples of the query or the body, as `GET /_emulator` lists them."""


class ClockBody(Request):
    """How far to move the clock."""

    advance: Span


class CreditsBody(Request):
    """What a team, or every team, has left."""

    credits: Annotated[StrictInt, Field(ge=0, le=2**53 - 1)]
    team: Annotated[str, Field(max_length=100)] | None = None
    """Id of the team, as in the journal; without it, all teams."""
    key: Annotated[str, Field(max_length=1000)] | None = Field(default=None, repr=False)
    """An API key of the team, in place of its id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminOperations:
    """The operations of the admin API, with what they work on."""

    clock: EmulatorClock
    speed: float
    journal: Journal
    faults: InjectedFaults
    ledger: CreditLedger
    outbox: Outbox
    operations: frozenset[str]
    """What a fault of the API may name: limits and paths."""
    reset: Callable[[], Awaitable[object]]
    """Stops and forgets everything."""
    settled: Callable[[], Awaitable[object]]
    """Returns when everything that runs waits for the clock."""

    def table(self) -> dict[tuple[str, str], Callable[[Json, Mapping[str, str]], Awaitable[Json]]]:
        """Return what to call for each method and path."""
        return {
            ("GET", "/_emulator"): self._manual,
            ("GET", "/_emulator/health"): self._health,
            ("POST", "/_emulator/reset"): self._reset,
            ("GET", "/_emulator/journal"): self._calls,
            ("GET", "/_emulator/deliveries"): self._deliveries,
            ("GET", "/_emulator/faults"): self._list_faults,
            ("POST", "/_emulator/faults"): self._add_fault,
            ("DELETE", "/_emulator/faults"): self._clear_faults,
            ("GET", "/_emulator/clock"): self._show_clock,
            ("POST", "/_emulator/clock"): self._move_clock,
            ("POST", "/_emulator/credits"): self._set_credits,
        }

    async def _manual(self, body: Json, query: Mapping[str, str]) -> Json:
        operations = [
            {"method": method, "path": path, "about": about, **examples}
            for (method, path), (about, examples) in MANUAL.items()
        ]
        return {"success": True, "operations": operations}

    async def _health(self, body: Json, query: Mapping[str, str]) -> Json:
        return {"success": True, "status": "ok", "now": wire_time(self.clock.now())}

    async def _reset(self, body: Json, query: Mapping[str, str]) -> Json:
        await self.reset()
        return {"success": True}

    async def _calls(self, body: Json, query: Mapping[str, str]) -> Json:
        entries = self.journal.entries(before=_number(query, "before"), path=query.get("path"), limit=_limit(query))
        return {"success": True, "requests": [entry.as_json() for entry in entries]}

    async def _deliveries(self, body: Json, query: Mapping[str, str]) -> Json:
        found = await self.outbox.deliveries(
            job_id=query.get("job"), before=_number(query, "before"), limit=_limit(query)
        )
        counts = await self.outbox.counts()
        return {"success": True, "counts": counts, "deliveries": [_delivery(one) for one in found]}

    async def _list_faults(self, body: Json, query: Mapping[str, str]) -> Json:
        return {"success": True, "faults": self.faults.listed()}

    async def _add_fault(self, body: Json, query: Mapping[str, str]) -> Json:
        if "webhook" in body:
            webhook = read_body(WebhookFault, body, _POLICY)
            if not any(fnmatchcase(name, webhook.webhook) for name in EVENT_CLASSES):
                raise refusal([custom_issue(_NO_EVENT.format(webhook.webhook), "webhook")])
            self.faults.webhooks.append(webhook)
        elif "job" in body:
            self.faults.jobs.append(read_body(JobFault, body, _POLICY))
        else:
            call = read_body(CallFault, body, _POLICY)
            if call.operation not in self.operations:
                raise refusal([custom_issue(_NO_OPERATION.format(call.operation), "operation")])
            self.faults.calls.append(call)
        return await self._list_faults(body, query)

    async def _clear_faults(self, body: Json, query: Mapping[str, str]) -> Json:
        self.faults.forget_all()
        return await self._list_faults(body, query)

    async def _show_clock(self, body: Json, query: Mapping[str, str]) -> Json:
        return {"success": True, "now": wire_time(self.clock.now()), "speed": self.speed}

    async def _move_clock(self, body: Json, query: Mapping[str, str]) -> Json:
        duration: timedelta = read_body(ClockBody, body, _POLICY).advance
        await self._settled_soon()
        await self.clock.advance(duration, self._settled_soon)
        return await self._show_clock(body, query)

    async def _settled_soon(self) -> None:
        """Wait for what runs, but not for ever: a page or an endpoint may take long."""
        waiting = asyncio.ensure_future(self.settled())
        try:
            await asyncio.wait([waiting], timeout=_LONGEST_WAIT)
        finally:
            waiting.cancel()

    async def _set_credits(self, body: Json, query: Mapping[str, str]) -> Json:
        read = read_body(CreditsBody, body, _POLICY)
        team = read.team if read.key is None else team_of_key(read.key.encode())
        await self.ledger.set_remaining(team, read.credits)
        return {"success": True, "team": team, "credits": read.credits}


def _limit(query: Mapping[str, str]) -> int:
    return min(_number(query, "limit") or 100, _MOST_ROWS)


def _number(query: Mapping[str, str], name: str) -> int | None:
    text = query.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 15):
        raise CallRefused(400, f"{name}: a number", code="BAD_REQUEST")
    return int(text)


def _delivery(one: DeliveryRecord) -> Json:
    return {
        "seq": one.seq,
        "id": one.id,
        "url": one.url,
        "type": one.type,
        "jobId": one.job_id,
        "state": one.state,
        "attempts": one.attempts,
        "createdAt": wire_time(one.created_at),
        "nextAttemptAt": None if one.next_attempt_at is None else wire_time(one.next_attempt_at),
    }


class AdminEndpoint:
    """An ASGI app for the admin API."""

    def __init__(self, operations: AdminOperations, ids: IdSource) -> None:
        self._table = operations.table()
        self._ids = ids

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        response = await self._respond(HttpRequest(scope, receive))
        await response(scope, receive, send)

    async def _respond(self, request: HttpRequest) -> Response:
        path, method = str(request.scope["path"]).rstrip("/"), request.method
        try:
            _require_local(request)
            handle = self._table.get(("GET" if method == "HEAD" else method, path))
            if handle is None:
                raise unknown_operation(method, path, [known for known, place in self._table if place == path])
            body = without_nulls(await read_json(request)) if method == "POST" else {}
            return await reply(await handle(body, dict(request.query_params)))
        except CallRefused as exc:
            return await reply_refusal(exc)
        except Exception as exc:
            identity = self._ids.new()
            log.error("emulated_call_failed", extra={"id": identity, "path": path}, exc_info=exc)
            return await reply(unknown_error_body(identity), 500)


def _require_local(request: HttpRequest) -> None:
    client = request.client
    if client is None or not is_loopback(client.host):
        raise CallRefused(403, "The admin API answers programs on this machine only")
    host = request.headers.get("host", "")
    name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0].lower()
    # A page of a browser on this machine, also one whose name leads to 127.0.0.1, must not reach it.
    if "origin" in request.headers or not is_loopback(name):
        raise CallRefused(403, "The admin API answers no browser: call it by http://127.0.0.1 or http://localhost")
