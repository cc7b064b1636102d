"""The leases of a worker: added, renewed, released, and marked as started in the store."""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from receiver.core.claims import Lease
from receiver.core.clock import Clock
from receiver.core.ports.queue import LeaseQueue
from receiver.core.types import WorkerId
from receiver.errors import StoreError, StoreRefused
from receiver.runtime.log_lines import event_log
from receiver.worker.attempts import Claimed

log = event_log(__name__)

_MARK_EVERY = timedelta(milliseconds=250)
"""Time between two writes of start marks. An attempt that ends sooner needs no write."""

_NEVER = datetime.max.replace(tzinfo=UTC)


@dataclass(slots=True)
class _Leased:
    """The lease of one item. Until `until`, on the steady clock, no other worker can have claimed it."""

    attempt: int
    size: int
    until: datetime


class Leases:
    """The leases of one worker, on every work item that it has claimed and not yet settled."""

    def __init__(self, queue: LeaseQueue, clock: Clock, worker: WorkerId, length: timedelta) -> None:
        self._queue = queue
        self._clock = clock
        self._length = length
        self._leased: dict[int, _Leased] = {}  # by work id
        self._any_leased = asyncio.Event()
        self._bytes = 0
        self._first_end = _NEVER  # the earliest end of a lease
        self._unmarked: set[int] = set()
        self._waiting: set[int] = set()
        """Items recorded as started that still wait for a slot."""
        self._marking = True
        self._renewed_at = clock.steady()
        self.worker = worker

    def __len__(self) -> int:
        return len(self._leased)

    def __contains__(self, work_id: int) -> bool:
        return work_id in self._leased

    @property
    def bytes(self) -> int:
        """The total bytes of the bodies of the leased items."""
        return self._bytes

    def new_lease(self) -> Lease:
        """Return a lease from now on."""
        return Lease(self.worker, self._clock.steady() + self._length)

    def add(self, claimed: Iterable[Claimed], lease: Lease) -> None:
        """Add the leases of these items."""
        if lease.until - self._clock.steady() < self._length * (2 / 3):
            # The event loop has been blocked since the lease was made: renew before the next claim.
            self._renewed_at = self._clock.steady() - self._length
        for one in claimed:
            item = one.item
            if item.id in self._leased:  # an earlier attempt that lost its lease may still run here
                self.drop(item.id)
            size = len(item.source.delivery.body)
            self._leased[item.id] = _Leased(item.attempt, size, lease.until)
            self._bytes += size
        self._first_end = min(self._first_end, lease.until)
        self._any_leased.set()

    def drop(self, work_id: int) -> None:
        """Remove the lease of this item."""
        if (leased := self._leased.pop(work_id, None)) is not None:
            self._bytes -= leased.size
        self._unmarked.discard(work_id)
        self._waiting.discard(work_id)

    def drop_attempt(self, work_id: int, attempt: int) -> None:
        """Remove the lease of this item if it belongs to this attempt and not to a later one."""
        if (leased := self._leased.get(work_id)) is not None and leased.attempt == attempt:
            self.drop(work_id)

    def any_ended(self) -> bool:
        """Return whether a lease may have ended, as after a long time without the store."""
        now = self._clock.steady()
        if now < self._first_end:
            return False
        self._first_end = min((leased.until for leased in self._leased.values()), default=_NEVER)
        return now >= self._first_end

    def ended(self, work_id: int) -> bool:
        """Return whether the lease of this item may have ended. Then another worker may have the item."""
        leased = self._leased.get(work_id)
        return leased is None or leased.until <= self._clock.steady()

    @property
    def marks(self) -> bool:
        """Return whether starts are marked in the store. They no longer are once the worker stops."""
        return self._marking

    def note_start(self, work_id: int) -> None:
        """Mark this item as started with the next write, unless its attempt ends before that."""
        self._unmarked.add(work_id)
        self._waiting.discard(work_id)

    def note_waiting(self, work_ids: Iterable[int]) -> None:
        """Remove the start marks of these items with the next write, unless they start before that."""
        self._waiting.update(work_ids)

    async def mark_batch_started(self, work_ids: Sequence[int]) -> None:
        """Mark those items of a batch that are not marked yet: one of them may end the process."""
        unmarked = [work_id for work_id in work_ids if work_id in self._unmarked]
        self._unmarked.difference_update(unmarked)
        try:
            if self._marking and unmarked:
                await self._queue.mark_started(unmarked, self.worker)
        except (StoreError, StoreRefused) as exc:
            log.error("start_mark_failed", extra={"count": len(unmarked), "reason": str(exc)})

    async def release(self, work_ids: Sequence[int]) -> None:
        """Let other workers claim these items at once."""
        if not work_ids:
            return
        for work_id in work_ids:
            self.drop(work_id)
        try:
            await self._queue.release_leases(work_ids, self.worker, now=self._clock.now())
        except (StoreError, StoreRefused) as exc:
            # The leases end by themselves.
            log.error("leases_not_released", extra={"count": len(work_ids), "reason": str(exc)})

    async def release_all(self) -> None:
        """Let other workers claim everything at once."""
        await self.release(list(self._leased))

    async def clear_started(self) -> None:
        """Remove all start marks: if this worker is killed from now on, its work items are not to blame."""
        self._unmarked.clear()
        self._waiting.clear()
        self._marking = False
        try:
            await self._queue.clear_started(tuple(self._leased), self.worker)
        except (StoreError, StoreRefused) as exc:
            log.error("start_marks_not_cleared", extra={"reason": str(exc)})

    async def run(self) -> None:
        """Renew leases and mark started items until cancelled."""
        while True:
            if not self._leased:
                self._any_leased.clear()
                await self._any_leased.wait()
            await self._clock.sleep(min(_MARK_EVERY, self._length / 3))
            try:
                await self._mark_started()
                await self.renew_if_late()
            except (StoreError, StoreRefused) as exc:
                log.error("leases_not_renewed", extra={"reason": str(exc)})
            except Exception:
                log.exception("leases_not_renewed")  # a bug in this code must not end running handlers

    async def renew_if_late(self) -> None:
        """Renew all leases once a third of their time has passed.

        The worker calls this before every claim too. Otherwise it could claim what it is still running, after a
        handler has blocked the event loop for longer than a lease.
        """
        now, before = self._clock.steady(), self._renewed_at
        if now - before < self._length / 3:
            return
        if renewed := tuple(self._leased):
            lease = self.new_lease()
            await self._queue.renew(renewed, lease)
            after = self._clock.steady()
            for work_id in renewed:
                # A lease that ended before the renewal may belong to another worker by now.
                if (leased := self._leased.get(work_id)) is not None and leased.until > after:
                    leased.until = lease.until
            self._first_end = min((leased.until for leased in self._leased.values()), default=_NEVER)
        if self._renewed_at == before:  # no lease was added in between
            self._renewed_at = now

    async def _mark_started(self) -> None:
        if self._marking and (waiting := tuple(self._waiting)):
            self._waiting.clear()
            await self._queue.clear_started(waiting, self.worker)
        if self._marking and (started := tuple(self._unmarked)):
            self._unmarked.clear()
            await self._queue.mark_started(started, self.worker)
