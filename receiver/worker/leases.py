"""What a worker has claimed, and keeping it the worker's own."""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from receiver.core.claims import Lease
from receiver.core.clock import Clock
from receiver.core.ports.queue import LeaseQueue
from receiver.core.types import WorkerId
from receiver.errors import StoreError
from receiver.worker.runner import Claimed

log = logging.getLogger(__name__)

_MARK = timedelta(milliseconds=250)
"""How often to note what has begun. What ends sooner leaves no mark, and costs no write."""

_NEVER = datetime.max.replace(tzinfo=UTC)


@dataclass(slots=True)
class _Held:
    """A claimed work item: which attempt this is, and until when no other worker can have claimed the item."""

    attempt: int
    size: int
    until: datetime


class Leases:
    """The leases of one worker: on everything it has claimed and not yet settled."""

    def __init__(self, queue: LeaseQueue, clock: Clock, worker: WorkerId, length: timedelta) -> None:
        self._queue = queue
        self._clock = clock
        self._length = length
        self._held: dict[int, _Held] = {}  # by work id
        self._bytes = 0
        self._first_end = _NEVER  # no lease ends earlier
        self._unmarked: set[int] = set()
        self._marking = True
        self._renewed_at = clock.now()
        self.worker = worker

    def __len__(self) -> int:
        return len(self._held)

    def __contains__(self, work_id: int) -> bool:
        return work_id in self._held

    @property
    def bytes(self) -> int:
        """How many bytes of bodies are held."""
        return self._bytes

    def new(self, now: datetime) -> Lease:
        """Return a lease that begins now."""
        return Lease(self.worker, now + self._length)

    def take(self, claimed: Iterable[Claimed], lease: Lease) -> None:
        """Hold these from now on."""
        if lease.until - self._clock.now() < self._length * (2 / 3):
            # The event loop was blocked since the lease was made: renew before the next claim.
            self._renewed_at = self._clock.now() - self._length
        for one in claimed:
            self.drop(one.item.id)  # an earlier attempt that was lost, and still runs here
            size = len(one.item.source.delivery.body)
            self._held[one.item.id] = _Held(one.item.attempt, size, lease.until)
            self._bytes += size
        self._first_end = min(self._first_end, lease.until)

    def drop(self, work_id: int) -> None:
        """Hold this no longer."""
        if (held := self._held.pop(work_id, None)) is not None:
            self._bytes -= held.size
        self._unmarked.discard(work_id)

    def over(self, work_id: int, attempt: int) -> None:
        """Hold this no longer, unless a later attempt of it has been claimed since."""
        if (held := self._held.get(work_id)) is not None and held.attempt == attempt:
            self.drop(work_id)

    def any_ended(self) -> bool:
        """Tell whether a lease may have ended: this process was stopped, say, or the store was away."""
        now = self._clock.now()
        if now < self._first_end:
            return False
        self._first_end = min((held.until for held in self._held.values()), default=_NEVER)
        return now >= self._first_end

    def ended(self, work_id: int) -> bool:
        """Tell whether the lease on this may have ended, so that another worker may have the item."""
        held = self._held.get(work_id)
        return held is None or held.until <= self._clock.now()

    def begins(self, work_id: int) -> None:
        """Have it noted in the store, if it takes long enough, that this has begun."""
        self._unmarked.add(work_id)

    async def begin_together(self, work_ids: Sequence[int]) -> None:
        """Note in the store that these begin now: one of them may be the end of all."""
        self._unmarked.difference_update(work_ids)
        try:
            if self._marking:
                await self._queue.mark_started(work_ids, self.worker)
        except StoreError as exc:
            log.error("start_mark_failed", extra={"count": len(work_ids), "reason": str(exc)})

    async def release_leases(self, work_ids: Sequence[int]) -> None:
        """Let any worker have these at once."""
        if not work_ids:
            return
        for work_id in work_ids:
            self.drop(work_id)
        try:
            await self._queue.release_leases(work_ids, self.worker, now=self._clock.now())
        except StoreError as exc:
            # Their leases end by themselves.
            log.error("work_not_given_back", extra={"count": len(work_ids), "reason": str(exc)})

    async def give_all_back(self) -> None:
        """Let any worker have everything at once."""
        await self.release_leases(list(self._held))

    async def clear_started(self) -> None:
        """Take back the note that what is held has begun: whoever ends this worker now, it is not their doing."""
        self._unmarked.clear()
        self._marking = False
        try:
            await self._queue.clear_started(tuple(self._held), self.worker)
        except StoreError as exc:
            log.error("work_not_absolved", extra={"reason": str(exc)})

    async def keep(self) -> None:
        """Renew leases and note what has begun, until cancelled."""
        while True:
            await self._clock.sleep(min(_MARK, self._length / 3))
            try:
                await self._mark_begun()
                await self.renew_if_late()
            except StoreError as exc:
                log.error("leases_not_renewed", extra={"reason": str(exc)})
            except Exception:
                log.exception("leases_not_renewed")  # a fault of ours, and no reason to lose what runs

    async def renew_if_late(self) -> None:
        """Renew every lease once a third of its time has gone.

        Asked before every claim too: after a handler has blocked the event loop for longer than a lease, this
        worker would else claim again what it is still running.
        """
        now, before = self._clock.now(), self._renewed_at
        if not timedelta(0) <= now - before < self._length / 3:
            if self._held:
                await self._renew(self.new(now))
            if self._renewed_at == before:  # nothing was taken in between
                self._renewed_at = now

    async def _renew(self, lease: Lease) -> None:
        renewed = tuple(self._held)
        await self._queue.renew(renewed, lease)
        now = self._clock.now()
        for work_id in renewed:
            # One that ended before may be another worker's by now, and was not renewed then.
            if (held := self._held.get(work_id)) is not None and held.until > now:
                held.until = lease.until
        self._first_end = min((held.until for held in self._held.values()), default=_NEVER)

    async def _mark_begun(self) -> None:
        if self._marking and (begun := tuple(self._unmarked)):
            self._unmarked.clear()
            await self._queue.mark_started(begun, self.worker)
