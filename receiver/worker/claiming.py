"""What a worker asks the store for, whose turn it is, and when it asks again."""

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
"""The pause after a check that emptied the queue. Without it a worker that gets a delivery per millisecond checks
once for each and uses twice the processor time."""


class Checked(Enum):
    """What a check of the store found."""

    NOTHING = auto()
    """Nothing new; a claim may have taken all that was due."""
    SOME = auto()
    """New deliveries, apparently all there were."""
    MORE = auto()
    """There may be more now."""


def claims_for(handlers: Iterable[Handler], hand: WorkInHand) -> Sequence[HandlerClaim]:
    """Return what more work can be claimed for, in the order of these handlers.

    A handler whose limit over all workers is used up by this one is included, with no items: the store skips its
    items if it is disabled.
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
    """Return the claims by whether their items may start at once: those of a batch start when it is full.

    The group of the first claim comes first. Without claims there is one empty group.
    """
    groups: dict[bool, list[HandlerClaim]] = {}
    for one in claims:
        groups.setdefault(router[one.handler].batch is None, []).append(one)
    return groups or {True: []}


def queues_of(claims: Iterable[HandlerClaim], ready: ReadyQueues) -> Collection[ReadyQueue]:
    """Return the queues of these handlers, each once."""
    return {ready[one.handler] for one in claims}


def limits_of(claims: Iterable[HandlerClaim], hand: WorkInHand, *, start: bool) -> ClaimLimits:
    """Return how much may be claimed now. With `start` the claim marks what has a slot as started."""
    queues = queues_of(claims, hand.ready)
    starting = min((hand.ready.startable, *(queue.startable for queue in queues))) if start else 0
    return ClaimLimits(sum(queue.claimable for queue in queues), hand.bytes_left, starting)


def from_claim(items: Sequence[WorkItem], router: Router, limits: ClaimLimits) -> ClaimedWork:
    """Return what a claim with these limits has brought."""
    claimed: list[Claimed] = []
    followers: dict[int, list[Claimed]] = {}
    for item in items:
        handler = router[item.handler]
        claimed.append(Claimed(item, handler, refusal=refusal(item, handler.schedule, suspect=limits.suspects)))
        if item.followers:
            followers[item.id] = [Claimed(one, handler) for one in item.followers]
    return ClaimedWork(claimed, followers, frozenset([item.id for item in items[: limits.starting]]))


def wait_for_due(due: datetime, now: datetime, check: timedelta, *, is_new: bool) -> timedelta:
    """Return how long to wait for what is due at a moment; `check` is the time until the next regular check.

    What is due already became due after the claim, if it `is_new`. Otherwise it is left to the regular check.
    """
    if due > now:
        return due - now
    return PAUSE if is_new else check


def claims_at_checks(claims: Iterable[HandlerClaim], due: datetime | None) -> bool:
    """Return whether to claim again at the next regular check, though nothing may be due then.

    A slot may become free without a result: work is withdrawn, or a worker dies that had slots of a limit over all
    workers.
    """
    return any(one.most == 0 or (due is not None and one.concurrency is not None) for one in claims)


class NextCheck:
    """Decides whether recorded results are a reason to check the store again."""

    def __init__(self, handlers: Iterable[Handler]) -> None:
        limited = [one for one in handlers if (one.lane, one.concurrency, one.rate) != (None, None, None)]
        self._in_turn = frozenset([one.name for one in limited])
        """Handlers whose items may wait in the store for the end of others."""
        self.left = True
        """The last check may have left work that the worker can take once it has recorded results."""
        self.waits_for_results = False

    def begin(self) -> None:
        """Note that a check begins."""
        self.left, self.waits_for_results = True, False

    @property
    def follow_results(self) -> bool:
        """Return whether new work most often follows from results, as in a lane."""
        return self.left or bool(self._in_turn)

    def may_find_after(self, counts: Collection[HandlerName], *, more: bool) -> bool:
        """Return whether a check may find something after results of these handlers, which may have made `more`."""
        return more or self.left or self.waits_for_results or not self._in_turn.isdisjoint(counts)


def _claimable(handler: Handler, ready: ReadyQueues) -> int:
    """Return how many items may be claimed. With a rate they must start at once, since a claim uses it up."""
    queue = ready[handler.name]
    return queue.claimable if handler.rate is None else min(queue.claimable, queue.startable)


class NewClaims:
    """Decides which new items of one routed batch the worker claims as it makes them, and which start at once.

    Items are claimed while their queue has capacity, unless the store has to check a limit over all workers first.
    What starts at once is marked as started by the transaction that makes it.
    """

    def __init__(self, ready: ReadyQueues, coming: Iterable[HandlerName]) -> None:
        """`coming` names the handler of each item that will run."""
        self._ready = ready
        self._coming = Counter(coming)
        self._claimable = {queue: queue.claimable for queue in ready}
        self._slots = {one: one.startable for queue in ready for one in queue.with_parents()}
        """How many more calls may start in each queue, and in all that share its slots."""
        self._startable_in_all = ready.startable
        self._in_batches: Counter[HandlerName] = Counter()
        """How many of a handler's next items complete batches that start at once."""

    def next(self, handler: Handler, *, refused: bool) -> tuple[bool, bool]:
        """Return whether the next item, which is of this handler, is claimed, and whether it starts at once."""
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
        """Return whether the next claimed item of a handler belongs to a batch that starts at once."""
        if handler.name not in self._in_batches:
            queue, waiting = self._ready[handler.name], self._ready.incomplete(handler.name)
            coming = min(self._coming[handler.name], self._claimable[queue] + 1)
            calls = min((waiting + coming) // batch.size, self._startable(queue))
            self._in_batches[handler.name] = max(0, calls * batch.size - waiting)
            self._take_slots(queue, calls)
        self._in_batches[handler.name] -= 1
        return self._in_batches[handler.name] >= 0


class SuspectTurns:
    """Decides in one worker whether it is the turn of suspects, or of all other work.

    A suspect may have killed its worker: it runs alone, and must not stop everything for ever. When one is due,
    nothing else starts. It starts when everything that runs has ended, or after the time of one turn even beside
    that. Other suspects follow for half a turn. Then all other work has a turn, however many suspects are left. All
    moments are of the steady clock.
    """

    def __init__(self, turn: timedelta) -> None:
        self._turn = turn
        self._since: datetime | None = None
        """When the suspects' turn began, later when its first suspect started; None in the turn of others."""
        self._started = False
        self._others_since: datetime | None = None

    @property
    def have_turn(self) -> bool:
        """Return whether it is their turn."""
        return self._since is not None

    def block_others(self, now: datetime) -> bool:
        """Return whether only a suspect may start."""
        return self._since is not None and self._within_turn(self._since, now)

    def check(self, now: datetime, *, due: bool) -> None:
        """Start the suspects' turn if a suspect is due, unless they have just had one."""
        if not due:
            self._since = None
        elif self._since is None and (self._others_since is None or not self._within_turn(self._others_since, now)):
            self._since, self._started = now, False

    def may_start(self, now: datetime, *, idle: bool) -> bool:
        """Return whether a suspect may start now, with `idle` if nothing runs. This may end their turn."""
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
        """End the turn: another worker has the suspect, or a limit of its handler is used up."""
        self._since, self._others_since = None, now

    def _within_turn(self, since: datetime, now: datetime) -> bool:
        return now - since < self._turn
