"""What a worker asks the store for, and what one look at it found."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum, auto

from receiver.core.claims import ClaimLimits, HandlerClaim
from receiver.core.deliveries import StoredDelivery
from receiver.core.types import HandlerName, Origin
from receiver.errors import CostlyBody, UnreadableBody
from receiver.events import Event
from receiver.routing import Handler, Router
from receiver.routing.policies import Batch, RunsIn
from receiver.worker.attempts import Claimed
from receiver.worker.events import DriftLogger, read_event
from receiver.worker.followers import LaneRuns
from receiver.worker.memory_budget import claim_on_memory
from receiver.worker.ready import HandlerCall, ReadyQueue, ReadyQueues

PAUSE = timedelta(milliseconds=20)
"""Behind a look that routed all there was. Without it a worker that got a delivery each millisecond looked for each
alone, and needed more than twice the processor time."""


class Found(Enum):
    """What a look at the store found."""

    NOTHING = auto()
    """Nothing new. A claim may have taken all that was due."""
    SOME = auto()
    """Deliveries, and they were all, as far as one sees."""
    MORE = auto()
    """There may be more at once."""


def claims_for(handlers: Iterable[Handler], ready: ReadyQueues, lanes: LaneRuns) -> Sequence[HandlerClaim]:
    """Return what more work can be claimed for, in the order of these handlers.

    Those whose limit over all workers this one takes alone are among them, to be skipped if they are disabled.
    """
    return [
        HandlerClaim(
            handler.name,
            None if handler.batch is not None else handler.concurrency,
            None if handler.rate is None else handler.rate.interval,
            0 if ready.takes_whole_limit(handler) else claimable,
            lanes.allows(handler),
        )
        for handler in handlers
        if (claimable := _claimable(handler, ready)) > 0
    ]


def by_start(claims: Sequence[HandlerClaim], router: Router) -> Mapping[bool, Sequence[HandlerClaim]]:
    """Return the claims by whether their items may start at once: in a batch they start when it is full.

    The group of the first one comes first, and without any there is one empty group.
    """
    groups: dict[bool, list[HandlerClaim]] = {}
    for one in claims:
        groups.setdefault(router[one.handler].batch is None, []).append(one)
    return groups or {True: []}


def queues_of(claims: Iterable[HandlerClaim], ready: ReadyQueues) -> Collection[ReadyQueue]:
    """Return the queues of these handlers, each once."""
    return {id(queue): queue for queue in (ready[one.handler] for one in claims)}.values()


def limits_of(claims: Iterable[HandlerClaim], ready: ReadyQueues, max_bytes: int, *, start: bool) -> ClaimLimits:
    """Return how much may be claimed now. With `start` the claim notes that what has a slot has started."""
    queues = queues_of(claims, ready)
    starting = min((ready.startable, *(queue.startable for queue in queues))) if start else 0
    return ClaimLimits(sum(queue.claimable for queue in queues), max_bytes, starting)


def wait_for_due(due: datetime, now: datetime, check: timedelta, *, is_new: bool) -> timedelta:
    """Return how long to wait for what is due at a moment; `check` is the time until the next check.

    What is due already became due after the claim, if it `is_new`, or it is for the next check.
    """
    if due > now:
        return due - now
    return PAUSE if is_new else check


def looks_at_checks(claims: Iterable[HandlerClaim], due: datetime | None) -> bool:
    """Tell whether to look at the next check, though nothing may be due then.

    A slot may become free without a result, as when work is taken away, or when a worker dies that has slots of a
    limit over all workers.
    """
    return any(one.most == 0 or (due is not None and one.concurrency is not None) for one in claims)


class Looks:
    """Tells whether results that were recorded are a reason to look at the store again."""

    def __init__(self, handlers: Iterable[Handler]) -> None:
        limited = [one for one in handlers if (one.lane, one.concurrency, one.rate) != (None, None, None)]
        self._in_turn = frozenset([one.name for one in limited])
        """Handlers whose items may have to wait in the store for the end of others."""
        self.left = True
        """The last look may have left work that the worker can take once it has recorded results."""
        self.waits_for_results = False

    def begin(self) -> None:
        """Note that a look begins."""
        self.left, self.waits_for_results = True, False

    @property
    def follow_results(self) -> bool:
        """Whether the next work most often follows from results, as in a lane."""
        return self.left or bool(self._in_turn)

    def may_find_after(self, counts: Collection[HandlerName], *, more: bool) -> bool:
        """Tell whether a look may find something after results of these handlers; `more`: they made more work."""
        return more or self.left or self.waits_for_results or not self._in_turn.isdisjoint(counts)


def _claimable(handler: Handler, ready: ReadyQueues) -> int:
    """Return how many items may be claimed. A claim uses up the rate, so its items have to start at once."""
    queue = ready[handler.name]
    return queue.claimable if handler.rate is None else min(queue.claimable, queue.startable)


# FOLDED: How much one worker does at one time.
MAX_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerLimits:
    """How much one worker does at one time.

    At most `concurrency` calls run at one time, of all kinds together. A work item is leased for `lease` and
    renewed while it runs. The worker claims until it has bodies of `max_bytes`, so it may have one body more. It
    waits no longer than `longest_wait`, or a lease without it: somebody may move the wall clock, and a machine may
    sleep.
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


# FOLDED: Which new work items their worker claims as it makes them, and which of those start at once.
class NewClaims:
    """Decides this for the items of one routed batch, in their order.

    Items are claimed while their queue has capacity, unless a limit over all workers has to be checked first. What
    starts at once is noted as started by the transaction that makes it.
    """

    def __init__(self, ready: ReadyQueues, coming: Iterable[HandlerName]) -> None:
        """`coming` has the name of the handler of each item that will run."""
        self._ready = ready
        self._coming = Counter(coming)
        self._claimable = {id(queue): queue.claimable for queue in ready}
        self._slots = {id(one): one.startable for queue in ready for one in queue.with_parents()}
        """How many more calls may start in a queue, or in those that share its slots."""
        self._startable_in_all = ready.startable
        self._in_batches: Counter[HandlerName] = Counter()
        """How many of the next items of a handler complete batches that start at once."""

    def next(self, handler: Handler, *, refused: bool) -> tuple[bool, bool]:
        """Tell whether the next item, of this handler, is claimed, and whether it starts at once."""
        queue = id(self._ready[handler.name])
        unlimited = handler.rate is None and (handler.concurrency is None or handler.batch is not None)
        claim = refused or (unlimited and self._claimable[queue] > 0)
        self._claimable[queue] -= claim
        if handler.batch is not None:
            starts = claim and not refused and self._completes_batch(handler, handler.batch)
        else:
            starts = claim and self._startable_in_all > 0 and self._startable(self._ready[handler.name]) > 0
            if starts:
                self._take_slots(self._ready[handler.name], 1)
        return claim, starts

    def _startable(self, queue: ReadyQueue) -> int:
        return min(self._startable_in_all, *[self._slots[id(one)] for one in queue.with_parents()])

    def _take_slots(self, queue: ReadyQueue, calls: int) -> None:
        self._startable_in_all -= calls
        for one in queue.with_parents():
            self._slots[id(one)] -= calls

    def _completes_batch(self, handler: Handler, batch: Batch) -> bool:
        """Tell whether the next item of a handler, which is claimed, is one of a batch that starts at once."""
        if handler.name not in self._in_batches:
            queue, waiting = self._ready[handler.name], self._ready.incomplete(handler.name)
            coming = min(self._coming[handler.name], self._claimable[id(queue)] + 1)
            calls = min((waiting + coming) // batch.size, self._startable(queue))
            self._in_batches[handler.name] = max(0, calls * batch.size - waiting)
            self._take_slots(queue, calls)
        self._in_batches[handler.name] -= 1
        return self._in_batches[handler.name] >= 0


# FOLDED: The turns of suspects, which run alone, and of all other work.
class Isolation:
    """Decides in one worker whose turn it is: that of suspects, or that of all other work.

    A suspect may have killed its worker, so nothing else may run beside it, and it must not stop everything for
    ever. When one is due, nothing else starts. The suspect starts when everything that runs has ended, or beside
    it after the time of one turn. Other suspects follow for half a turn. Then all other work has a turn, however
    many suspects are left. All moments are of the steady clock.
    """

    def __init__(self, turn: timedelta) -> None:
        self._turn = turn
        self._since: datetime | None = None
        """The start of the suspects' turn, or later the start of its first suspect; None in the turn of others."""
        self._started = False
        self._others_since: datetime | None = None

    @property
    def active(self) -> bool:
        """Tell whether it is the turn of suspects."""
        return self._since is not None

    def blocks_others(self, now: datetime) -> bool:
        """Tell whether nothing but a suspect may start."""
        return self._since is not None and self._within_turn(self._since, now)

    def check(self, now: datetime, *, due: bool) -> None:
        """Start the suspects' turn if a suspect is due, unless they have just had one."""
        if not due:
            self._since = None
        elif self._since is None and (self._others_since is None or not self._within_turn(self._others_since, now)):
            self._since, self._started = now, False

    def may_start(self, now: datetime, *, idle: bool) -> bool:
        """Return whether a suspect may start now; `idle` says that nothing runs. It may end their turn."""
        if self._since is None:
            return False
        if idle and not self._started:
            self._since, self._started = now, True
            return True
        if idle and now - self._since < self._turn / 2:
            return True
        if not idle and self.blocks_others(now):
            return False
        self._since, self._others_since = None, now
        return not self._started

    def found_none(self, now: datetime) -> None:
        """End the turn: another worker has the suspect, or the limits of its handler forbid it now."""
        self._since, self._others_since = None, now

    def _within_turn(self, since: datetime, now: datetime) -> bool:
        return now - since < self._turn


# FOLDED: Reads the events of claimed work items.
class EventReader:
    """Gives work items their events when their calls are near, so that few events are in memory at one time.

    An item has none if its event takes much memory or cannot be read, is a scheduled run, or is not one that its
    handler is for: then its attempt reads it, and decides.
    """

    def __init__(self, drift: DriftLogger) -> None:
        self._drift = drift

    def read_singles(self, calls: Sequence[HandlerCall]) -> Sequence[HandlerCall]:
        """Return calls that are next in a queue, those of one item with its event.

        To read many in one go takes two thirds of the time of reading each between two calls of handlers. An event
        that several of them want is read once.
        """
        events: dict[int, Event | None] = {}
        return [
            call if len(call) > 1 or _is_costly(call[0]) else (self._with_event(call[0], events),) for call in calls
        ]

    def read_batch(self, call: HandlerCall) -> HandlerCall:
        """Return a call that is about to run, one of a batch with its events. None of those takes much memory.

        So the processor has them in its cache. With the events of all that waits, a worker took a tenth longer.
        """
        events: dict[int, Event | None] = {}
        return call if len(call) == 1 else tuple([self._with_event(one, events) for one in call])

    def _with_event(self, claimed: Claimed, events: dict[int, Event | None]) -> Claimed:
        if claimed.event or claimed.refusal:
            return claimed
        stored = claimed.item.source
        if stored.seq not in events:
            events[stored.seq] = self._event(stored)
        event = events[stored.seq]
        if event is None or not claimed.handler.is_for(event):
            return claimed
        return Claimed(claimed.item, claimed.handler, event, claimed.refusal, claimed.run)

    def _event(self, stored: StoredDelivery) -> Event | None:
        if stored.delivery.origin is Origin.SCHEDULE:
            return None
        try:
            event = read_event(stored)
        except (CostlyBody, UnreadableBody):
            return None
        self._drift.log_new(event, stored.delivery)
        return event


def _is_costly(claimed: Claimed) -> bool:
    return claim_on_memory(claimed.item.source.delivery.body) > 0
