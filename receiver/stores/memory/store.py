"""The store in memory: deliveries, quarantine and reports beside the work items."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from typing import TypeVar

from receiver.errors import UnknownDelivery, UnknownWork
from receiver.records import (
    Backlog,
    Delivery,
    DeliveryDetail,
    DeliveryFilter,
    DeliverySummary,
    HandlerReport,
    Quarantined,
    Receipt,
    StoredDelivery,
    WorkDetail,
    WorkFilter,
    WorkSummary,
)
from receiver.stores.candidates import candidates
from receiver.stores.memory.work import MemoryQueue, Work
from receiver.types import (
    OPEN_STATES,
    DeliveryKey,
    DeliveryState,
    HandlerName,
    HandlerSwitch,
    Outcome,
    WorkState,
)

T = TypeVar("T")


class MemoryStore(MemoryQueue):
    """A Store and all its faces in one. Everything is gone with the process."""

    def __init__(self) -> None:
        super().__init__()
        self.quarantined: list[Quarantined] = []
        self._by_key: dict[DeliveryKey, int] = {}

    def exists(self) -> bool:
        """Return True."""
        return True

    @asynccontextmanager
    async def log(self) -> AsyncIterator["MemoryStore"]:
        """Return this store."""
        yield self

    queue = log
    controls = log
    reports = log

    # --- DeliveryLog

    def append(self, delivery: Delivery) -> asyncio.Future[Receipt]:
        """Store a delivery unless its key is stored."""
        position = self._by_key.get(delivery.key)
        if position is None:
            self._by_key[delivery.key] = len(self._deliveries)
            self._deliveries.append(StoredDelivery(len(self._deliveries) + 1, 0, delivery))
            self._changes.set()
            return _done(Receipt(delivery.key, Outcome.ACCEPTED))
        stored = self._deliveries[position]
        self._deliveries[position] = replace(stored, duplicates=stored.duplicates + 1)
        if stored.delivery.body == delivery.body:
            return _done(Receipt(delivery.key, Outcome.DUPLICATE))
        detail = "a delivery with this key and another body was stored before"
        self.quarantine(
            Quarantined(delivery.received_at, "conflict", detail, delivery.key, delivery.headers, delivery.body)
        )
        return _done(Receipt(delivery.key, Outcome.CONFLICT))

    def quarantine(self, request: Quarantined) -> asyncio.Future[None]:
        """Keep a refused request in `quarantined`."""
        self.quarantined.append(request)
        return _done(None)

    def probe(self, now: datetime) -> asyncio.Future[None]:
        """Succeed."""
        return _done(None)

    # --- Reports

    async def deliveries(self, wanted: DeliveryFilter) -> AsyncIterator[DeliverySummary]:
        """Yield the wanted deliveries, the newest first."""
        found = (self._summary(stored) for stored in reversed(self._deliveries))
        for number, summary in enumerate(one for one in found if _wanted(one, wanted)):
            if number == wanted.limit:
                return
            yield summary

    async def resolve(self, prefix: str) -> DeliveryKey:
        """Return the one key that begins so."""
        keys = [key for key in self._by_key if key.startswith(prefix)]
        if len(keys) == 1 or prefix in keys:
            return DeliveryKey(prefix) if prefix in keys else keys[0]
        raise UnknownDelivery(candidates(prefix, keys))

    async def detail(self, key: DeliveryKey) -> DeliveryDetail:
        """Return all that is known of a delivery."""
        if key not in self._by_key:
            raise UnknownDelivery(f"there is no delivery {key}")
        stored = self._deliveries[self._by_key[key]]
        work = tuple(self._summary_of(one) for one in self._work if one.source == stored.seq)
        return DeliveryDetail(self._summary(stored), stored.delivery.headers, stored.delivery.body, work)

    async def unfinished(self) -> int:
        """Return how many deliveries are NEW or WORKING."""
        states = (self._summary(stored).state for stored in self._deliveries)
        return sum(state in (DeliveryState.NEW, DeliveryState.WORKING) for state in states)

    async def work_items(self, wanted: WorkFilter) -> AsyncIterator[WorkSummary]:
        """Yield the wanted work items, the newest first."""
        found = (self._summary_of(work) for work in reversed(self._work))
        for number, summary in enumerate(one for one in found if _wanted_work(one, wanted)):
            if number == wanted.limit:
                return
            yield summary

    async def work_item(self, work_id: int) -> WorkDetail:
        """Return a work item with its attempts."""
        for one in self._chosen([work_id]):
            return WorkDetail(self._summary_of(one), tuple(one.history))
        raise UnknownWork(f"there is no work item {work_id}")

    async def handlers(self) -> Sequence[HandlerReport]:
        """Return every handler that has work items or a switch."""
        names = {one.handler for one in self._work} | self._switches.keys()
        return [self._report(name) for name in sorted(names)]

    async def waiting(self) -> Mapping[HandlerName, int]:
        """Return how many work items of each handler wait, are queued or held."""
        states = OPEN_STATES - {WorkState.RUNNING}
        return Counter(one.handler for one in self._work if one.state in states)

    async def backlog(self, now: datetime) -> Backlog:
        """Return what is still to be done."""
        states = [one.state for one in self._work if one.state in OPEN_STATES]
        running = states.count(WorkState.RUNNING)
        since = [one.due_at for one in self._work if one.state is WorkState.WAITING]
        since += [one.delivery.received_at for one in self._deliveries[self._routed :][:1]]
        oldest = min(since, default=None)
        return Backlog(
            new=len(self._deliveries) - self._routed,
            waiting=len(states) - running,
            running=running,
            oldest_waiting=None if oldest is None else max(timedelta(0), now - oldest),
            paused=tuple(sorted(name for name, to in self._switches.items() if to is HandlerSwitch.PAUSED)),
        )

    # --- inside

    def _summary(self, stored: StoredDelivery) -> DeliverySummary:
        one = stored.delivery
        return DeliverySummary(
            seq=stored.seq,
            key=one.key,
            type=one.type,
            job_id=one.job_id,
            webhook_id=one.webhook_id,
            success=one.success,
            received_at=one.received_at,
            size=len(one.body),
            duplicates=stored.duplicates,
            state=self._state(stored.seq),
        )

    def _state(self, seq: int) -> DeliveryState:
        if seq > self._routed:
            return DeliveryState.NEW
        states = {one.state for one in self._work if one.source == seq}
        if states & OPEN_STATES:
            return DeliveryState.WORKING
        return DeliveryState.DEAD if WorkState.DEAD in states else DeliveryState.DONE

    def _summary_of(self, work: Work) -> WorkSummary:
        delivery = self._source(work).delivery
        return WorkSummary(
            id=work.id,
            key=delivery.key,
            type=delivery.type,
            job_id=delivery.job_id,
            received_at=delivery.received_at,
            handler=work.handler,
            state=work.state,
            attempts=work.attempts,
            lane=work.lane,
            due_at=work.due_at if work.state in (WorkState.WAITING, WorkState.HELD) else None,
            last_error=work.last_error,
            note=work.note,
            holds_lane=work.heads_lane and work.state is WorkState.DEAD,
        )

    def _report(self, name: HandlerName) -> HandlerReport:
        mine = [one for one in self._work if one.handler == name]
        ended = [one for one in mine if one.state in (WorkState.DONE, WorkState.DEAD)]
        times = sorted(
            attempt.ended_at - attempt.started_at
            for one in ended[-100:]
            for attempt in one.history
            if attempt.started_at is not None
        )
        states = [one.state for one in mine]
        return HandlerReport(
            name=name,
            switch=self._switches.get(name, HandlerSwitch.ON),
            counts={state: states.count(state) for state in set(states)},
            last_error=next((one.last_error for one in reversed(mine) if one.last_error is not None), None),
            latency=times[len(times) // 2] if times else None,
        )


def _done(result: T) -> asyncio.Future[T]:
    future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
    future.set_result(result)
    return future


def _wanted(summary: DeliverySummary, wanted: DeliveryFilter) -> bool:
    return _fits(summary, wanted) and (wanted.state is None or summary.state == wanted.state)


def _wanted_work(summary: WorkSummary, wanted: WorkFilter) -> bool:
    return (
        _fits(summary, wanted)
        and (wanted.handler is None or fnmatchcase(summary.handler, wanted.handler))
        and (wanted.state is None or summary.state == wanted.state)
    )


def _fits(summary: DeliverySummary | WorkSummary, wanted: DeliveryFilter | WorkFilter) -> bool:
    return (
        (wanted.type is None or fnmatchcase(summary.type, wanted.type))
        and (wanted.job_id is None or summary.job_id == wanted.job_id)
        and (wanted.since is None or summary.received_at >= wanted.since)
        and (wanted.until is None or summary.received_at < wanted.until)
    )
