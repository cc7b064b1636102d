"""The admin API, below `/_emulator`: health, reset, journal, deliveries, faults, clock, credits."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal, Protocol

from pydantic import BeforeValidator, Field, StrictInt

from receiver.core.units import WRONG_DURATION, parse_duration
from receiver.emulator.account.account import CreditLedger
from receiver.emulator.account.keys import team_of_key
from receiver.emulator.admin.faults import CallFault, InjectedFaults, JobFault, WebhookFault
from receiver.emulator.admin.journal import Journal
from receiver.emulator.clock import EmulatorClock, wire_time
from receiver.emulator.failures import CallRefused
from receiver.emulator.webhooks.table import DeliveryRecord
from receiver.emulator.wire.bodies import RequestPolicy, custom_issue, read_body, refusal
from receiver.events.catalog import EVENT_CLASSES
from receiver.requests.base import Request

# FOLDED: What each operation of the admin API does, as `GET /_emulator` tells it.
Json = dict[str, Any]

MANUAL: dict[tuple[str, str], tuple[str, Json]] = {
    ("GET", "/_emulator"): ("List the operations of this API.", {}),
    ("GET", "/_emulator/health"): ("Tell that the emulator runs, and its time.", {}),
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
    ("GET", "/_emulator/clock"): ("Tell the emulator's time, and how fast it passes.", {}),
    ("POST", "/_emulator/clock"): (
        "Move the clock forward; all that is due on the way happens first.",
        {"bodies": [{"advance": "1h30m"}]},
    ),
    ("POST", "/_emulator/credits"): (
        "Set the credits that a team has left: the one of a key or an id, or without both all of them.",
        {"bodies": [{"credits": 0}, {"credits": 500, "key": "fc-any"}]},
    ),
}
"""By method and path: a sentence, and examples of the query or the body."""


def manual() -> Json:
    """Return the answer to `GET /_emulator`."""
    operations = [
        {"method": method, "path": path, "about": about, **examples}
        for (method, path), (about, examples) in MANUAL.items()
    ]
    return {"success": True, "operations": operations}


# FOLDED: The bodies of the admin API.
MAX_TIMES = 1_000_000


def _duration(value: object) -> timedelta:
    """Read `90s`, `1h30m`, or a number of seconds."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        if not 0 <= value <= timedelta(days=3660).total_seconds():
            raise ValueError(WRONG_DURATION)
        return timedelta(seconds=value)
    return parse_duration(value)


Span = Annotated[timedelta, BeforeValidator(_duration)]
_Times = Annotated[StrictInt, Field(ge=1, le=MAX_TIMES)]


class CallFaultBody(Request):
    """A fault of the API to ask for."""

    operation: Annotated[str, Field(min_length=1, max_length=200)]
    """A rate limit's name such as `scrape`, a path such as `/v2/crawl/{id}`, or `*` for every call."""
    status: Annotated[StrictInt, Field(ge=400, le=599)]
    """The HTTP status of the answers."""
    times: _Times = 1
    """How many calls it meets."""
    method: Annotated[str, Field(pattern="^(GET|POST|PUT|PATCH|DELETE)$")] | None = None
    """Only calls with this HTTP method."""
    code: Annotated[str, Field(max_length=100)] | None = None
    """The code in the answers."""
    error: Annotated[str, Field(max_length=2000)] | None = None
    """The text in the answers; a usual one of the status without it."""
    retry_after: Annotated[StrictInt, Field(ge=0, le=86_400)] | None = None
    """Seconds, for the header Retry-After."""


class WebhookFaultBody(Request):
    """A fault on the way of webhooks to ask for."""

    webhook: Annotated[str, Field(min_length=1, max_length=200)]
    """An event type such as `crawl.page`, in which `*` stands for any characters."""
    times: _Times = 1
    """How many deliveries it meets."""
    copies: Annotated[StrictInt, Field(ge=0, le=100)] = 1
    """How often each arrives; 0 loses it."""
    late: Span = timedelta(0)
    """How long each is held back, on the emulator's clock: seconds, or a text such as `5m`."""
    shuffle: Span = timedelta(0)
    """The most that each is held back besides, by chance, so that they change places."""


class JobFaultBody(Request):
    """Jobs that are to fail."""

    job: Literal["crawl", "batch_scrape", "*"]
    """The kind of the jobs."""
    times: _Times = 1
    """How many jobs it meets."""
    after: Annotated[StrictInt, Field(ge=0, le=MAX_TIMES)] = 0
    """How many pages of a job end before."""
    error: Annotated[str, Field(max_length=2000)] | None = None
    """Why the job fails; a usual text without it."""


class ClockBody(Request):
    """How far to move the clock."""

    advance: Span
    """Seconds, or a text such as `1h30m`."""


class CreditsBody(Request):
    """What a team, or every team, has left."""

    credits: Annotated[StrictInt, Field(ge=0, le=2**53 - 1)]
    """Credits that are left."""
    team: Annotated[str, Field(max_length=100)] | None = None
    """Id of the team, as the journal tells it; without it, all teams."""
    key: Annotated[str, Field(max_length=1000)] | None = Field(default=None, repr=False)
    """An API key of the team, in place of its id."""


Handle = Callable[[Json, Mapping[str, str]], Awaitable[Json]]

_POLICY = RequestPolicy()
_MOST_ROWS = 1_000
_NO_EVENT = "No event has a type like {!r}. The types are " + ", ".join(EVENT_CLASSES)
_NO_OPERATION = (
    "operation: no call is {!r}; write a rate limit such as 'scrape', a path such as '/v2/crawl/{{id}}', or '*'"
)
_LONGEST_WAIT = 30.0
"""Real seconds for what a moved clock has woken."""


class DeliveryList(Protocol):
    """Knows the webhooks. The outbox does."""

    async def deliveries(
        self, *, job_id: str | None = None, before: int | None = None, limit: int = 100
    ) -> list[DeliveryRecord]:
        """Return deliveries, newest first."""

    async def counts(self) -> dict[str, int]:
        """Return how many deliveries are in each state."""


async def _nothing_runs() -> None:
    """Return at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminOperations:
    """What the admin API works on."""

    clock: EmulatorClock
    """The emulator's clock."""
    speed: float
    """How fast it runs."""
    journal: Journal
    """The calls."""
    faults: InjectedFaults
    """What goes wrong on purpose."""
    ledger: CreditLedger
    """The credits."""
    outbox: DeliveryList
    """The webhooks."""
    operations: frozenset[str]
    """What a fault of the API may name: limits and paths."""
    resets: Sequence[Callable[[], Awaitable[object]]] = field(default_factory=tuple)
    """Forget everything, each in its part."""
    settled: Callable[[], Awaitable[object]] = _nothing_runs
    """Returns when nothing runs that does not wait for the clock."""

    def table(self) -> dict[tuple[str, str], Handle]:
        """Return what to call for each method and path."""
        return {
            ("GET", "/_emulator"): self._manual,
            ("GET", "/_emulator/health"): self._health,
            ("POST", "/_emulator/reset"): self._reset,
            ("GET", "/_emulator/journal"): self._requests,
            ("GET", "/_emulator/deliveries"): self._deliveries,
            ("GET", "/_emulator/faults"): self._list_faults,
            ("POST", "/_emulator/faults"): self._add_fault,
            ("DELETE", "/_emulator/faults"): self._clear_faults,
            ("GET", "/_emulator/clock"): self._tell_clock,
            ("POST", "/_emulator/clock"): self._move_clock,
            ("POST", "/_emulator/credits"): self._set_credits,
        }

    async def _manual(self, body: Json, query: Mapping[str, str]) -> Json:
        return manual()

    async def _health(self, body: Json, query: Mapping[str, str]) -> Json:
        return {"success": True, "status": "ok", "now": wire_time(self.clock.now())}

    async def _reset(self, body: Json, query: Mapping[str, str]) -> Json:
        for reset in self.resets:
            await reset()
        self.faults.forget_all()
        self.journal.forget_all()
        return {"success": True}

    async def _requests(self, body: Json, query: Mapping[str, str]) -> Json:
        entries = self.journal.entries(before=_number(query, "before"), path=query.get("path"), limit=_limit(query))
        return {"success": True, "requests": [entry.as_json() for entry in entries]}

    async def _deliveries(self, body: Json, query: Mapping[str, str]) -> Json:
        found = await self.outbox.deliveries(
            job_id=query.get("job"), before=_number(query, "before"), limit=_limit(query)
        )
        return {
            "success": True,
            "counts": await self.outbox.counts(),
            "deliveries": [_delivery(one) for one in found],
        }

    async def _list_faults(self, body: Json, query: Mapping[str, str]) -> Json:
        faults = [one.as_json() for one in self.faults.calls]
        faults += [one.as_json() for one in self.faults.webhooks]
        faults += [one.as_json() for one in self.faults.jobs]
        return {"success": True, "faults": faults}

    async def _add_fault(self, body: Json, query: Mapping[str, str]) -> Json:
        if "webhook" in body:
            webhook = read_body(WebhookFaultBody, body, _POLICY)
            if not any(fnmatchcase(name, webhook.webhook) for name in EVENT_CLASSES):
                raise refusal([custom_issue(_NO_EVENT.format(webhook.webhook), "webhook")])
            self.faults.webhooks.append(
                WebhookFault(
                    webhook=webhook.webhook,
                    times=webhook.times,
                    copies=webhook.copies,
                    late=webhook.late,
                    shuffle=webhook.shuffle,
                )
            )
        elif "job" in body:
            self.faults.jobs.append(JobFault(**read_body(JobFaultBody, body, _POLICY).model_dump()))
        else:
            call = read_body(CallFaultBody, body, _POLICY)
            if call.operation not in self.operations:
                raise refusal([custom_issue(_NO_OPERATION.format(call.operation), "operation")])
            self.faults.calls.append(CallFault(**call.model_dump()))
        return await self._list_faults(body, query)

    async def _clear_faults(self, body: Json, query: Mapping[str, str]) -> Json:
        self.faults.forget_all()
        return await self._list_faults(body, query)

    async def _tell_clock(self, body: Json, query: Mapping[str, str]) -> Json:
        return {"success": True, "now": wire_time(self.clock.now()), "speed": self.speed}

    async def _move_clock(self, body: Json, query: Mapping[str, str]) -> Json:
        duration: timedelta = read_body(ClockBody, body, _POLICY).advance
        await self._settled_soon()
        await self.clock.advance(duration, self._settled_soon)
        return await self._tell_clock(body, query)

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
