"""Leases of a worker, and followers: items of one lane that it runs one after the other.

A follower does not wait until the result of the item before it is recorded. Followers are for one single lane at
12,000 items a second: without them each item of a lane costs a claim and a transaction of its own. In interleaved
rounds of `tests.benchmarks.dispatch` they let a worker handle 5 times as many items of one lane, for a fifth of the
processor time of each.
"""

import asyncio
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from receiver.core.claims import FollowerClaim, Lease, Settlement
from receiver.core.clock import Clock
from receiver.core.ports.queue import LeaseQueue
from receiver.core.rules import Succeeded
from receiver.core.types import HandlerName, WorkerId
from receiver.errors import StoreError, StoreRefused
from receiver.routing import Handler
from receiver.runtime.log_lines import event_log
from receiver.worker.attempts import Claimed, Ended, LaneRun

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


_QUICK = timedelta(milliseconds=100)
"""After a slower attempt its handler has no followers: they would wait long, and be read again after `stop_all`."""
_ENOUGH = 256
"""At most so many followers wait. More would only take memory."""
_ONE_BY_ONE = timedelta(minutes=1)
"""For so long after a death there are no followers. A follower may have killed its worker before the store knew
that it ran, and then its head has the blame. Without followers the next death has the right cause."""
_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
_NO_ITEM = 0
"""The head of a run whose results no longer count: the store refuses whatever is behind it."""


class LaneRuns:
    """The followers of one worker. All are leased here; in the store the lease of their head keeps the lane."""

    def __init__(self, leases: Leases, clock: Clock) -> None:
        self._leases = leases
        self._clock = clock
        self._died_at = _LONG_AGO
        self._quick: set[HandlerName] = set()
        self._off: Collection[HandlerName] = ()
        self._runs: set[LaneRun] = set()
        """The runs whose followers wait."""
        self._by_head: dict[int, LaneRun] = {}

    def note_death(self) -> None:
        """Allow no followers for a while."""
        self._died_at = self._clock.steady()

    def allows(self, handler: Handler) -> bool:
        """Return whether an item of this handler may have followers. Its last attempt has to have been quick."""
        if handler.name not in self._quick or self._clock.steady() - self._died_at < _ONE_BY_ONE:
            return False
        one_by_one = handler.lane is None or handler.batch is not None or handler.rate is not None
        return not one_by_one and sum([len(run.waiting) for run in self._runs]) < _ENOUGH

    def begin(self, head: Claimed, followers: Iterable[Claimed]) -> Claimed:
        """Return a claimed item that these will follow."""
        run = self._by_head[head.item.id] = LaneRun(head.item.id, followers)
        self._runs.add(run)
        return head._replace(run=run)

    def ended(self, one: Claimed, ended: Ended) -> Claimed | None:
        """Return the item that runs next in the lane, None if there is none or this attempt did not succeed."""
        if one.handler.lane is None:
            return None
        name = one.handler.name
        if ended.attempt.took > _QUICK:
            self._quick.discard(name)
        else:
            self._quick.add(name)
        if (run := one.run) is None:
            return None
        if not isinstance(ended.result, Succeeded) or name in self._off or self._leases.ended(one.item.id):
            self.stop(run)
            return None
        following = run.begin_next()
        if not run.waiting:
            self._runs.discard(run)
        return following

    def stop(self, run: LaneRun) -> None:
        """Let nothing more follow in this run."""
        for one in run.waiting:
            self._leases.drop(one.item.id)
        run.waiting.clear()
        self._runs.discard(run)

    def stop_all(self, *, off: Collection[HandlerName] = ()) -> None:
        """Drop followers that have not begun, and accept no more for handlers in `off`.

        What operators and other workers have decided about the followers since they were read takes effect by this.
        """
        self._off = off
        for run in list(self._runs):
            self.stop(run)

    def lost(self, work_ids: Iterable[int]) -> None:
        """Discount the results of the runs whose heads these are, now that they are claimed anew."""
        self.stop_all(off=self._off)
        for work_id in work_ids:
            if (run := self._by_head.pop(work_id, None)) is not None:
                run.head = _NO_ITEM

    def withdrawn(self, items: Iterable[Claimed]) -> None:
        """Stop the runs of items that were ready and will not start."""
        for one in items:
            if one.run is not None:
                one.run.begun.pop()  # only the last one can be ready
                self.stop(one.run)
                if not one.run.begun:
                    self._by_head.pop(one.run.head, None)

    def to_record(
        self, results: Sequence[tuple[Settlement, LaneRun | None]]
    ) -> tuple[list[Settlement], dict[FollowerClaim, LaneRun]]:
        """Return what to record of these results, in order, and the followers to claim with it.

        The results are the oldest of their runs.
        """
        settlements: list[Settlement] = []
        heads: dict[int, LaneRun] = {}
        for settlement, run in results:
            if run is None:
                settlements.append(settlement)
                continue
            heads[run.head] = run
            if run.begun and run.begun[0] == settlement.work_id:
                run.begun.popleft()
            is_head = settlement.work_id == run.head
            settlements.append(settlement if is_head else settlement._replace(behind=run.head))
        claims: dict[FollowerClaim, LaneRun] = {}
        for head, run in heads.items():
            self._by_head.pop(head, None)
            if head != _NO_ITEM and run.begun and (following := run.begun[0]) in self._leases:
                started = following == run.started and self._leases.marks
                claims[FollowerClaim(following, head, self._leases.new_lease(), started)] = run
        return settlements, claims

    def move_head(self, run: LaneRun, work_id: int) -> None:
        """Note that the store was asked to claim this follower, whose lease then keeps the lane."""
        run.head = work_id
        if run.begun:
            self._by_head[run.head] = run
