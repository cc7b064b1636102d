"""What a worker asks the store for, and what one look at it found."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from enum import Enum, auto

from receiver.core.claims import ClaimLimits, HandlerClaim, WorkItem
from receiver.core.rules import refusal
from receiver.core.types import HandlerName
from receiver.routing import Handler, Router
from receiver.routing.policies import Batch
from receiver.worker.attempts import Claimed
from receiver.worker.work_in_hand import ClaimedWork, ReadyQueue, ReadyQueues, WorkInHand

PAUSE = timedelta(milliseconds=20)
"""Behind a look that routed all there was. Without it a worker that got a delivery each millisecond looked for each
alone, and needed more than twice the processor time."""


class Checked(Enum):
    """What a look at the store found."""

    NOTHING = auto()
    """Nothing new. A claim may have taken all that was due."""
    SOME = auto()
    """Deliveries, and they were all, as far as one sees."""
    MORE = auto()
    """There may be more at once."""


def claims_for(handlers: Iterable[Handler], hand: WorkInHand) -> Sequence[HandlerClaim]:
    """Return what more work can be claimed for, in the order of these handlers.

    Those whose limit over all workers this one takes alone are among them, to be skipped if they are disabled.
    """
    return [
        HandlerClaim(
            handler.name,
            None if handler.batch is not None else handler.concurrency,
            None if handler.rate is None else handler.rate.interval,
            0 if hand.ready.takes_whole_limit(handler) else claimable,
            hand.lanes.allows(handler),
        )
        for handler in handlers
        if (claimable := _claimable(handler, hand.ready)) > 0
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
    return {ready[one.handler] for one in claims}


def limits_of(claims: Iterable[HandlerClaim], hand: WorkInHand, *, start: bool) -> ClaimLimits:
    """Return how much may be claimed now. With `start` the claim notes that what has a slot has started."""
    queues = queues_of(claims, hand.ready)
    starting = min((hand.ready.startable, *(queue.startable for queue in queues))) if start else 0
    return ClaimLimits(sum(queue.claimable for queue in queues), hand.bytes_left, starting)


def from_claim(items: Sequence[WorkItem], router: Router, limits: ClaimLimits) -> ClaimedWork:
    """Return what a claim with these limits brought."""
    claimed: list[Claimed] = []
    followers: dict[int, list[Claimed]] = {}
    for item in items:
        handler = router[item.handler]
        claimed.append(Claimed(item, handler, refusal=refusal(item, handler.schedule, suspect=limits.suspects)))
        if item.followers:
            followers[item.id] = [Claimed(one, handler) for one in item.followers]
    return ClaimedWork(claimed, followers, frozenset([item.id for item in items[: limits.starting]]))


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


class NextCheck:
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
        self._claimable = {queue: queue.claimable for queue in ready}
        self._slots = {one: one.startable for queue in ready for one in queue.with_parents()}
        """How many more calls may start in a queue, or in those that share its slots."""
        self._startable_in_all = ready.startable
        self._in_batches: Counter[HandlerName] = Counter()
        """How many of the next items of a handler complete batches that start at once."""

    def next(self, handler: Handler, *, refused: bool) -> tuple[bool, bool]:
        """Tell whether the next item, of this handler, is claimed, and whether it starts at once."""
        queue = self._ready[handler.name]
        unlimited = handler.rate is None and (handler.concurrency is None or handler.batch is not None)
        claim = refused or (unlimited and self._claimable[queue] > 0)
        self._claimable[queue] -= claim
        if handler.batch is not None:
            starts = claim and not refused and self._completes_batch(handler, handler.batch)
        else:
            starts = claim and self._startable_in_all > 0 and self._startable(queue) > 0
            if starts:
                self._take_slots(queue, 1)
        return claim, starts

    def _startable(self, queue: ReadyQueue) -> int:
        return min(self._startable_in_all, *[self._slots[one] for one in queue.with_parents()])

    def _take_slots(self, queue: ReadyQueue, calls: int) -> None:
        self._startable_in_all -= calls
        for one in queue.with_parents():
            self._slots[one] -= calls

    def _completes_batch(self, handler: Handler, batch: Batch) -> bool:
        """Tell whether the next item of a handler, which is claimed, is one of a batch that starts at once."""
        if handler.name not in self._in_batches:
            queue, waiting = self._ready[handler.name], self._ready.incomplete(handler.name)
            coming = min(self._coming[handler.name], self._claimable[queue] + 1)
            calls = min((waiting + coming) // batch.size, self._startable(queue))
            self._in_batches[handler.name] = max(0, calls * batch.size - waiting)
            self._take_slots(queue, calls)
        self._in_batches[handler.name] -= 1
        return self._in_batches[handler.name] >= 0


# FOLDED: The turns of suspects, which run alone, and of all other work.
class SuspectTurns:
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
    def have_turn(self) -> bool:
        """Tell whether it is the turn of suspects."""
        return self._since is not None

    def block_others(self, now: datetime) -> bool:
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
        if not idle and self.block_others(now):
            return False
        self._since, self._others_since = None, now
        return not self._started

    def found_none(self, now: datetime) -> None:
        """End the turn: another worker has the suspect, or the limits of its handler forbid it now."""
        self._since, self._others_since = None, now

    def _within_turn(self, since: datetime, now: datetime) -> bool:
        return now - since < self._turn
