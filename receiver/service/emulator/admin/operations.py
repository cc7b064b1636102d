"""The admin API, below `/_emulator`: health, reset, journal, deliveries, faults, clock, credits."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from fnmatch import fnmatchcase
from typing import Any, Protocol

from receiver.events.catalog import EVENT_CLASSES
from receiver.service.emulator.account.credits import CreditLedger
from receiver.service.emulator.account.keys import team_of_key
from receiver.service.emulator.admin.bodies import (
    CallFaultBody,
    ClockBody,
    CreditsBody,
    JobFaultBody,
    WebhookFaultBody,
)
from receiver.service.emulator.admin.faults import CallFault, InjectedFaults, JobFault, WebhookFault
from receiver.service.emulator.admin.journal import Journal
from receiver.service.emulator.admin.manual import manual
from receiver.service.emulator.clock import EmulatorClock
from receiver.service.emulator.failures import CallRefused
from receiver.service.emulator.times import wire_time
from receiver.service.emulator.webhooks.table import DeliveryRecord
from receiver.service.emulator.wire.issues import custom_issue, read_body, refusal
from receiver.service.emulator.wire.policy import RequestPolicy

Json = dict[str, Any]
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
