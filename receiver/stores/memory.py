"""A store in memory, with the same rules as the others: for tests, and for trying things out."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from fnmatch import fnmatchcase
from typing import TypeVar

from receiver.errors import UnknownDelivery
from receiver.records import (
    LOST,
    Attempt,
    Delivery,
    DeliveryDetail,
    DeliveryFilter,
    DeliverySummary,
    Lease,
    NewWork,
    Quarantined,
    Receipt,
    Settlement,
    StoredDelivery,
    Unrouted,
    Wanted,
    WorkItem,
    WorkSummary,
)
from receiver.stores.candidates import candidates
from receiver.types import DeliveryKey, DeliveryState, HandlerName, Outcome, Trigger, WorkerId, WorkState

T = TypeVar("T")
_OPEN = (WorkState.WAITING, WorkState.RUNNING)


@dataclass(slots=True)
class _Work:
    """A work item as it changes."""

    id: int
    source: int
    handler: HandlerName
    state: WorkState
    due_at: datetime
    worker: WorkerId | None
    attempts: int = 1
    lost: int = 0
    last_error: str | None = None
    history: list[Attempt] = field(default_factory=list)

    @property
    def lost_by_now(self) -> int:
        """How often it was lost if it is claimed now: what is running then has lost its worker."""
        return self.lost + (self.state is WorkState.RUNNING)

    def held_by(self, worker: WorkerId) -> bool:
        return self.state is WorkState.RUNNING and self.worker == worker


class MemoryStore:
    """A Store, DeliveryLog, WorkQueue and Reports in one. Everything is gone with the process."""

    def __init__(self) -> None:
        self.quarantined: list[Quarantined] = []
        self._deliveries: list[StoredDelivery] = []
        self._by_key: dict[DeliveryKey, int] = {}
        self._routed = 0
        self._work: list[_Work] = []
        self._changes = asyncio.Event()

    def exists(self) -> bool:
        """Return True."""
        return True

    @asynccontextmanager
    async def log(self) -> AsyncIterator["MemoryStore"]:
        """Return this store."""
        yield self

    queue = log
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

    # --- WorkQueue

    async def unrouted(self, *, limit: int, max_bytes: int) -> Unrouted:
        """Return the oldest deliveries that no worker has routed."""
        found = self._deliveries[self._routed : self._routed + limit]
        return Unrouted(self._routed, tuple(_fitting(found, max_bytes, lambda one: len(one.delivery.body))))

    async def route(self, batch: Unrouted, work: Sequence[NewWork], *, lease: Lease) -> Sequence[int] | None:
        """Make claimed work items and mark the batch as routed, unless another worker was first."""
        if batch.after != self._routed:
            return None
        self._routed = batch.deliveries[-1].seq
        first = len(self._work)
        self._work += [
            _Work(first + n, one.seq, one.handler, WorkState.RUNNING, lease.until, lease.worker)
            for n, one in enumerate(work)
        ]
        return range(first, len(self._work))

    async def claim(
        self, handlers: Sequence[HandlerName], wanted: Wanted, *, lease: Lease, now: datetime
    ) -> Sequence[WorkItem]:
        """Claim what is due or has lost its worker."""
        due = [
            one
            for one in self._work
            if one.state in _OPEN
            and one.due_at <= now
            and one.handler in handlers
            and one.lost_by_now in wanted.lost
        ]
        due.sort(key=lambda one: (handlers.index(one.handler), one.due_at))
        fitting = _fitting(due[: wanted.limit], wanted.max_bytes, lambda one: len(self._source(one).delivery.body))
        return [self._claimed(one, lease) for one in fitting]

    async def renew(self, work_ids: Sequence[int], lease: Lease) -> None:
        """Move the end of the lease."""
        for one in self._held(work_ids, lease.worker):
            one.due_at = lease.until

    async def settle(self, settlements: Sequence[Settlement]) -> Sequence[bool]:
        """Record attempts and move their work items where the worker still holds them."""
        return [self._settle(one) for one in settlements]

    async def give_back(self, work_ids: Sequence[int], worker: WorkerId, *, now: datetime) -> None:
        """Make items due at once and uncount the attempt."""
        for one in self._held(work_ids, worker):
            one.state, one.worker, one.due_at = WorkState.WAITING, None, now
            one.attempts -= 1

    async def take_over(self, worker: WorkerId, *, now: datetime) -> int:
        """End all leases of a dead worker."""
        held = [one for one in self._work if one.held_by(worker)]
        for one in held:
            one.due_at = now
        return len(held)

    async def next_due(self, handlers: Sequence[HandlerName], *, lost: range) -> datetime | None:
        """Return when the next item becomes due or loses its lease."""
        due = (
            one.due_at
            for one in self._work
            if one.state in _OPEN and one.handler in handlers and one.lost_by_now in lost
        )
        return min(due, default=None)

    async def changed(self) -> None:
        """Return when something was appended since the last call."""
        await self._changes.wait()
        self._changes.clear()

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
        work = tuple(_summary_of(one) for one in self._work if one.source == stored.seq)
        return DeliveryDetail(self._summary(stored), stored.delivery.headers, stored.delivery.body, work)

    async def unfinished(self) -> int:
        """Return how many deliveries are NEW or WORKING."""
        states = (self._summary(stored).state for stored in self._deliveries)
        return sum(state in (DeliveryState.NEW, DeliveryState.WORKING) for state in states)

    # --- inside

    def _source(self, work: _Work) -> StoredDelivery:
        return self._deliveries[work.source - 1]

    def _held(self, work_ids: Sequence[int], worker: WorkerId) -> list[_Work]:
        return [one for one in self._work if one.id in work_ids and one.held_by(worker)]

    def _claimed(self, work: _Work, lease: Lease) -> WorkItem:
        if work.state is WorkState.RUNNING:
            work.lost += 1
            work.last_error = LOST
        work.state, work.worker, work.due_at = WorkState.RUNNING, lease.worker, lease.until
        work.attempts += 1
        trigger = Trigger.DELIVERY if work.attempts == 1 else Trigger.RETRY
        return WorkItem(work.id, work.handler, work.attempts, work.lost, trigger, self._source(work))

    def _settle(self, settlement: Settlement) -> bool:
        work = self._work[settlement.work_id]
        if not work.held_by(settlement.worker) or work.attempts != settlement.attempt.number:
            return False
        work.state, work.due_at, work.worker = settlement.state, settlement.due_at, None
        work.last_error = settlement.attempt.error
        work.history.append(settlement.attempt)
        return True

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
        if states & set(_OPEN):
            return DeliveryState.WORKING
        return DeliveryState.DEAD if WorkState.DEAD in states else DeliveryState.DONE


def _done(result: T) -> asyncio.Future[T]:
    future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
    future.set_result(result)
    return future


def _fitting(found: Sequence[T], max_bytes: int, size: Callable[[T], int]) -> list[T]:
    """Return the first ones that fit together, but always one."""
    fitting: list[T] = []
    for one in found:
        max_bytes -= size(one)
        if fitting and max_bytes < 0:
            break
        fitting.append(one)
    return fitting


def _wanted(summary: DeliverySummary, wanted: DeliveryFilter) -> bool:
    return (
        (wanted.type is None or fnmatchcase(summary.type, wanted.type))
        and (wanted.job_id is None or summary.job_id == wanted.job_id)
        and (wanted.since is None or summary.received_at >= wanted.since)
        and (wanted.until is None or summary.received_at < wanted.until)
        and (wanted.state is None or summary.state == wanted.state)
    )


def _summary_of(work: _Work) -> WorkSummary:
    due_at = work.due_at if work.state is WorkState.WAITING else None
    return WorkSummary(work.handler, work.state, work.attempts, work.last_error, due_at)
