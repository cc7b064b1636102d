"""What one worker has claimed and not settled: its ready queues, its leases and its followers under one owner."""

from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import chain, islice
from typing import NamedTuple

from receiver.core.claims import FollowerClaim, Lease
from receiver.core.clock import Clock, Timer
from receiver.core.ports.queue import WorkQueue
from receiver.core.types import HandlerName, WorkerId
from receiver.routing import Handler, Router
from receiver.routing.policies import Batch, RunsIn
from receiver.worker.attempts import Claimed, Ended, HandlerCall, LaneRun
from receiver.worker.events import claim_on_memory
from receiver.worker.leases import LaneRuns, Leases

MAX_BYTES = 64 * 1024 * 1024
_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)

_CLAIMED_PER_SLOT = 4
_MIN_CLAIMED = 64
"""A queue may claim this many work items per slot, and at least this many, so that one transaction fetches many."""
_QUICK = timedelta(milliseconds=100)
"""A queue that settles as many work items as it may claim within this time may claim twice as many, up to its
share of what the store allows: this halves a busy worker's transaction time per item on SQLite, and lets two
PostgreSQL workers handle two thirds more. A queue that takes four times as long may claim half as many, and leaves
more to other workers."""
_READ_AHEAD = 32
"""Calls whose events are read together. The events of everything claimed would take more memory, and would no
longer be in the processor's cache when their handlers are called."""
MAX_BATCHES = 8
_BLOCKING_QUARTERS = 3
"""Quarters of all slots that threads and processes may take together: calls there cannot be cancelled."""


@dataclass(slots=True, eq=False)
class ReadyQueue:
    """Calls that wait for the same kind of slot.

    Each kind has its own queue: plain functions that hang fill up the threads and nothing else.
    """

    slots: int
    capacity: int
    follows_speed: bool = False
    """The capacity follows the speed, and nothing is claimed until half of it is free."""
    parent: "ReadyQueue | None" = None
    """A queue whose slots this one uses too: it counts all calls of several queues."""
    calls: deque[HandlerCall] = field(default_factory=deque)
    ahead: deque[HandlerCall] = field(default_factory=deque)
    """The first of `calls` with the events that they are given."""
    running: int = 0
    claimed: int = 0
    """Work items of this queue that are claimed and not settled."""
    moved: bool = False
    """A call has started or ended since `moved_at`."""
    moved_at: datetime = _LONG_AGO
    """When a call last started or ended here, or in a queue that shares these slots."""
    settled: int = 0
    settled_since: datetime = _LONG_AGO
    """Since when `settled` counts."""
    base: int = field(init=False, default=0)
    most: int = field(init=False, default=0)
    """The least and the greatest capacity."""
    stuck: bool = False
    """No slot has become free for too long. Nothing is claimed for this queue until a call ends."""

    def __post_init__(self) -> None:
        """Begin with the least capacity."""
        self.base = self.most = self.capacity

    def with_parents(self) -> "Iterator[ReadyQueue]":
        """Yield this queue, and those whose slots it uses too."""
        queue: ReadyQueue | None = self
        while queue is not None:
            yield queue
            queue = queue.parent

    @property
    def has_slot(self) -> bool:
        """Return whether another call may start."""
        queue: ReadyQueue | None = self  # for each call: a generator would take three times as long
        while queue is not None:
            if queue.running >= queue.slots:
                return False
            queue = queue.parent
        return True

    def is_full_since(self, moment: datetime) -> bool:
        """Return whether no slot has become free since then. Slots of the parent that others take count too."""
        if self.running >= self.slots > 0 and self.moved_at <= moment:
            return True
        return self.parent is not None and self.parent.is_full_since(moment)

    def count_running(self, change: int) -> None:
        """Add to the number of running calls; a negative number stands for calls that have ended."""
        queue: ReadyQueue | None = self
        while queue is not None:
            queue.running += change
            queue.moved, queue.stuck = True, False
            queue = queue.parent

    @property
    def claimable(self) -> int:
        """How many more work items may be claimed for this queue."""
        free = self.capacity - self.claimed
        # A queue that is more than half full has work for its slots, and few large transactions cost less.
        least = self.capacity // 2 if self.follows_speed else 1
        return 0 if self.stuck or free < least else max(0, free)

    def count_settled(self, count: int, now: datetime) -> None:
        """Subtract settled work items from the claimed ones, and adapt the capacity to the speed."""
        self.claimed -= count
        self.settled += count
        if not self.follows_speed or self.settled < self.capacity:
            return
        took = now - self.settled_since
        if took < _QUICK:
            self.capacity = min(self.capacity * 2, self.most)
        elif took > _QUICK * 4:
            self.capacity = max(self.capacity // 2, self.base)
        self.settled, self.settled_since = 0, now

    def slow_down(self, now: datetime) -> int:
        """Return to the first capacity if it was not quick lately. Return how many items it has beyond that."""
        if not self.follows_speed or self.capacity == self.base or now - self.settled_since <= _QUICK * 4:
            return 0
        self.capacity, self.settled, self.settled_since = self.base, 0, now
        return max(0, self.claimed - self.base)

    @property
    def startable(self) -> int:
        """How many more calls would start at once if they were ready now."""
        startable = max(0, self.slots - self.running - len(self.calls))
        return startable if self.parent is None else min(startable, self.parent.startable)


@dataclass(slots=True)
class _IncompleteBatch:
    items: list[Claimed]
    timer: Timer


class ReadyQueues:
    """All queues of a worker: one for each kind of slot, and one for each handler with `batch`.

    Only `WorkInHand` withdraws: what leaves a queue still has a lease, and followers.
    """

    def __init__(
        self,
        handlers: Iterable[Handler],
        slots: Mapping[RunsIn, int],
        clock: Clock,
        *,
        concurrency: int,
        most_claimed: int,
        read: Callable[[Sequence[HandlerCall]], Sequence[HandlerCall]],
        wake: Callable[[], None],
    ) -> None:
        """`concurrency` limits all calls together, and `most_claimed` is that of the store.

        `read` returns calls with their events. `wake` is called when a batch is ready after its linger time.
        """
        self._clock = clock
        self._read = read
        self._wake = wake
        self._batches: dict[HandlerName, _IncompleteBatch] = {}
        self._all = ReadyQueue(concurrency, 0)
        blocking = ReadyQueue(max(1, concurrency * _BLOCKING_QUARTERS // 4), 0, parent=self._all)
        kinds = {
            kind: ReadyQueue(
                count,
                max(count * _CLAIMED_PER_SLOT, _MIN_CLAIMED),
                follows_speed=True,
                parent=self._all if kind is RunsIn.LOOP else blocking,
            )
            for kind, count in slots.items()
        }
        self._by_handler: dict[HandlerName, ReadyQueue] = {}
        self._claimed: Counter[HandlerName] = Counter()
        for handler in handlers:
            queue = kinds[handler.runs_in]
            if handler.batch is not None:
                queue = _batch_queue(handler, handler.batch, queue)
            self._by_handler[handler.name] = queue
        self._queues = deque(dict.fromkeys(self._by_handler.values()))
        self._singles = [queue for queue in kinds.values() if queue in self._queues]
        self._most_claimed = most_claimed
        _share_claims(self._singles, most_claimed)
        self._moving = tuple(dict.fromkeys((self._all, blocking, *kinds.values(), *self._queues)))

    def __getitem__(self, handler: HandlerName) -> ReadyQueue:
        return self._by_handler[handler]

    def __iter__(self) -> Iterator[ReadyQueue]:
        return iter(self._queues)

    def claim_at_most(self, most: int) -> None:
        """Limit what quick queues claim together; each may claim as much as at first."""
        if most < self._most_claimed:
            self._most_claimed = most
            _share_claims(self._singles, most)

    @property
    def startable(self) -> int:
        """How many more calls would start at once, in any queue, if they were ready now."""
        return max(0, self._all.startable - sum(len(queue.calls) for queue in self._queues))

    def takes_whole_limit(self, handler: Handler) -> bool:
        """Return whether this worker has certainly claimed as many items of a handler as all workers may run."""
        # In the store, followers in a lane are not claimed.
        if handler.concurrency is None or handler.batch is not None or handler.lane is not None:
            return False
        return self._claimed[handler.name] >= handler.concurrency

    def add(self, claimed: Claimed) -> None:
        """Let a work item wait for a slot, or for the other items of its batch."""
        handler = claimed.handler
        queue = self._by_handler[handler.name]
        queue.claimed += 1
        self._claimed[handler.name] += 1
        if handler.batch is not None and claimed.item.attempt == 1 and not _runs_alone(claimed):
            self._add_to_batch(claimed, handler.batch)
        else:
            queue.calls.append((claimed,))

    def incomplete(self, handler: HandlerName) -> int:
        """How many items of a handler with `batch` wait for the others of their batch."""
        batch = self._batches.get(handler)
        return 0 if batch is None else len(batch.items)

    def in_incomplete_batches(self, work_ids: Set[int]) -> Sequence[int]:
        """Return those of these items that wait for the others of their batch."""
        return [one.item.id for batch in self._batches.values() for one in batch.items if one.item.id in work_ids]

    def start_next(self) -> tuple[HandlerCall, HandlerCall] | None:
        """Take the next call that has a slot, from each queue in its turn. Return None if there is none.

        It is returned twice: without the events that were read for it, and with them.
        """
        for _ in range(len(self._queues)):
            queue = self._queues[0]
            self._queues.rotate(-1)
            if queue.calls and queue.has_slot:
                queue.count_running(1)
                if not queue.ahead:
                    queue.ahead.extend(self._read(list(islice(queue.calls, _READ_AHEAD))))
                return queue.calls.popleft(), queue.ahead.popleft()
        return None

    def ended(self, call: HandlerCall) -> None:
        """Free the slot of a call."""
        self._by_handler[call[0].handler.name].count_running(-1)

    def note_moves(self) -> None:
        """Note now as the time at which calls have started or ended since the last note."""
        now = self._clock.steady()
        for queue in self._moving:
            if queue.moved:
                queue.moved, queue.moved_at = False, now

    @property
    def any_waits(self) -> bool:
        """Return whether a call waits for a slot."""
        return any(queue.calls for queue in self._queues)

    def settled(self, counts: Mapping[HandlerName, int]) -> None:
        """Subtract settled work items of each handler from the claimed ones."""
        now = self._clock.steady()
        for handler, count in counts.items():
            self._by_handler[handler].count_settled(count, now)
            self._claimed[handler] -= count

    def _withdraw(self, unwanted: Callable[[Claimed], bool]) -> list[Claimed]:
        """Take out and return the unwanted work items that have not started."""
        withdrawn: list[Claimed] = []
        for queue in self._queues:
            waiting = list(queue.calls)
            queue.calls.clear()
            queue.ahead.clear()
            for call in waiting:
                if kept := _kept(call, unwanted, withdrawn):
                    queue.calls.append(tuple(kept))
        for name, batch in list(self._batches.items()):
            batch.items = _kept(batch.items, unwanted, withdrawn)
            if not batch.items:
                batch.timer.cancel()
                del self._batches[name]
        for one in withdrawn:
            self._by_handler[one.handler.name].claimed -= 1
            self._claimed[one.handler.name] -= 1
        return withdrawn

    def _withdraw_stuck(self, patience: timedelta) -> list[Claimed]:
        """Take out and return the work items of queues in which no slot has become free for so long."""
        before = self._clock.steady() - patience
        self.note_moves()
        for queue in self._queues:
            queue.stuck = queue.is_full_since(before)
        return self._withdraw(lambda one: self._by_handler[one.handler.name].stuck)

    def _withdraw_excess(self) -> list[Claimed]:
        """Take out and return what queues that have become slow had claimed beyond their present capacity."""
        now = self._clock.steady()
        last: set[int] = set()
        for queue in self._queues:
            if excess := queue.slow_down(now):
                last |= {one.item.id for call in islice(reversed(queue.calls), excess) for one in call}
        return self._withdraw(lambda one: one.item.id in last) if last else []

    def complete_batches(self) -> None:
        """Make every incomplete batch ready with the items that it has."""
        for name in list(self._batches):
            self._complete(name)

    def _add_to_batch(self, claimed: Claimed, batch: Batch) -> None:
        name = claimed.handler.name
        incomplete = self._batches.get(name)
        if incomplete is None:
            timer = self._clock.call_later(batch.linger, lambda: self._linger_over(name))
            incomplete = self._batches[name] = _IncompleteBatch([], timer)
        incomplete.items.append(claimed)
        if len(incomplete.items) == batch.size:
            self._complete(name)

    def _linger_over(self, name: HandlerName) -> None:
        self._complete(name)
        self._wake()

    def _complete(self, name: HandlerName) -> None:
        batch = self._batches.pop(name)
        batch.timer.cancel()
        self._by_handler[name].calls.append(tuple(batch.items))


def _kept(items: Iterable[Claimed], unwanted: Callable[[Claimed], bool], withdrawn: list[Claimed]) -> list[Claimed]:
    """Return the wanted items, and add the others to `withdrawn`.

    `unwanted` is called once for each: its answer may change with time, and an item must be on one of the lists.
    """
    kept: list[Claimed] = []
    for one in items:
        (withdrawn if unwanted(one) else kept).append(one)
    return kept


def _share_claims(sharing: Sequence[ReadyQueue], most: int) -> None:
    """Share what quick queues may claim together; each may claim as much as at first."""
    spare = max(0, most - sum(queue.base for queue in sharing))
    for queue in sharing:
        queue.most = queue.base + spare // len(sharing)
        queue.capacity = min(queue.capacity, queue.most)


def _batch_queue(handler: Handler, batch: Batch, kind: ReadyQueue) -> ReadyQueue:
    # It has no least claim: a batch that waited for its last items would start incomplete.
    slots = kind.slots if handler.concurrency is None else min(handler.concurrency, kind.slots)
    return ReadyQueue(slots, min(slots * 2, MAX_BATCHES) * batch.size, parent=kind)


def _runs_alone(claimed: Claimed) -> bool:
    """Return whether it is refused, or takes so much memory that a batch of such events may be too much."""
    if claimed.event is not None:  # only events that take little memory are kept from routing
        return claimed.refusal is not None
    return claimed.refusal is not None or claim_on_memory(claimed.item.source.delivery.body) > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerLimits:
    """How much one worker does at one time.

    `concurrency` limits the calls of all kinds together. A work item is leased for `lease`, which is renewed while
    it runs. The worker claims until it has bodies of `max_bytes`, and may have one body more. It waits no longer
    than `longest_wait`, or a lease: the wall clock may be set, and the machine may sleep.
    """

    concurrency: int
    threads: int
    processes: int
    lease: timedelta
    max_bytes: int = MAX_BYTES
    longest_wait: timedelta | None = None

    @property
    def slots(self) -> Mapping[RunsIn, int]:
        """How many calls of each kind run at one time."""
        return {RunsIn.LOOP: self.concurrency, RunsIn.THREAD: self.threads, RunsIn.PROCESS: self.processes}


class ClaimedWork(NamedTuple):
    """Claimed items, their followers by the ids of those, and the ids of the items whose start is noted already."""

    items: Sequence[Claimed]
    followers: Mapping[int, Sequence[Claimed]]
    marked: frozenset[int]


class WorkInHand:
    """Everything that one worker has claimed and not settled.

    An item waits in `ready`, follows another one in `lanes`, runs, or waits for its record; all this time it is in
    `leases`. What will not start leaves all three together, by one of the methods here.
    """

    def __init__(
        self,
        queue: WorkQueue,
        router: Router,
        clock: Clock,
        worker: WorkerId,
        limits: WorkerLimits,
        *,
        read: Callable[[Sequence[HandlerCall]], Sequence[HandlerCall]],
        wake: Callable[[], None],
    ) -> None:
        """`read` and `wake` are those of `ReadyQueues`."""
        self._limits = limits
        self._dropped: list[int] = []
        self.leases = Leases(queue, clock, worker, limits.lease)
        self.lanes = LaneRuns(self.leases, clock)
        self.ready = ReadyQueues(
            router,
            limits.slots,
            clock,
            concurrency=limits.concurrency,
            most_claimed=queue.most_claimed,
            read=read,
            wake=wake,
        )

    @property
    def bytes_left(self) -> int:
        """The bytes of bodies that may still be claimed. It is negative after a claim with one body too many."""
        return self._limits.max_bytes - self.leases.bytes

    def take(self, work: ClaimedWork, lease: Lease) -> None:
        """Take what was claimed under this lease. If it is here already, others had it meanwhile: that is over."""
        together = [*work.items, *chain.from_iterable(work.followers.values())]
        if again := {one.item.id for one in together if one.item.id in self.leases}:
            self.lanes.lost(again)
            self._stopped(self.ready._withdraw(lambda one: one.item.id in again))
        self.leases.add(together, lease)
        for one in work.items:
            behind = work.followers.get(one.item.id)
            self.ready.add(self.lanes.begin(one, behind) if behind else one)

    def start_next(self, marked: Set[int]) -> tuple[HandlerCall, HandlerCall] | None:
        """Take the next call that has a slot, like `ReadyQueues`. The store has items in `marked` as started."""
        if (started := self.ready.start_next()) is None:
            return None
        for one in started[0]:
            if one.run is not None:
                one.run.started = one.item.id
            if one.item.id not in marked:
                self.leases.note_start(one.item.id)
        return started

    def attempted(self, one: Claimed, ended: Ended) -> None:
        """Make the next item of its lane ready, if this attempt lets it follow."""
        if (following := self.lanes.ended(one, ended)) is not None:
            self.ready.add(following)

    async def give_back(self, unwanted: Callable[[Claimed], bool]) -> None:
        """Let other workers claim at once what is unwanted and has not started."""
        await self.leases.release(self._stopped(self.ready._withdraw(unwanted)))

    async def give_back_unneeded(self, off: Collection[HandlerName]) -> None:
        """Give back what this worker will not run soon. Other workers may have free slots.

        That is what belongs to the handlers in `off`, to queues in which no slot has become free for the length of
        a lease, and what queues have claimed while they were quick.
        """
        self.lanes.stop_all(off=off)
        unneeded = self.ready._withdraw(lambda one: one.item.handler in off)
        unneeded += self.ready._withdraw_stuck(self._limits.lease) + self.ready._withdraw_excess()
        await self.leases.release(self._stopped(unneeded))

    def drop_ended(self) -> bool:
        """Drop what has not started and whose lease may have ended. Return whether there was anything.

        Another worker may have run it since, and more items of its lane. `release_dropped` has to follow.
        """
        if not self.leases.any_ended():
            return False
        dropped = self._stopped(self.ready._withdraw(lambda one: self.leases.ended(one.item.id)))
        for work_id in dropped:
            self.leases.drop(work_id)
        self._dropped += dropped
        return bool(dropped)

    async def release_dropped(self) -> None:
        """Let other workers claim what was dropped, unless it has been claimed here since."""
        dropped, self._dropped = self._dropped, []
        await self.leases.release([work_id for work_id in dropped if work_id not in self.leases])

    async def follow_up(self, claims: Iterable[tuple[FollowerClaim, LaneRun, bool]]) -> None:
        """Note which followers the store has claimed. Release what will not run after all.

        One that was refused may be ours nevertheless: the store may have lost its answer to an earlier try.
        """
        unwanted: list[int] = []
        refused: set[LaneRun] = set()
        for claim, run, is_claimed in claims:
            self.lanes.move_head(run, claim.work_id)
            if not is_claimed:
                self.lanes.stop(run)
                refused.add(run)
            elif run.head not in self.leases:  # it was withdrawn meanwhile
                unwanted.append(run.head)
            elif run.started == run.head and not claim.started:
                self.leases.note_start(run.head)  # the store could not note it before it was claimed
        if refused:
            unwanted += self._stopped(self.ready._withdraw(lambda one: one.run in refused))
        await self.leases.release(unwanted)

    def _stopped(self, withdrawn: Sequence[Claimed]) -> list[int]:
        """Stop the runs of items that have just been withdrawn. Return their ids: their leases are still here."""
        self.lanes.withdrawn(withdrawn)
        return [one.item.id for one in withdrawn]
