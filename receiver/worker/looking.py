"""What a worker asks the store for, and what one look at it found."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from enum import Enum, auto

from receiver.core.claims import ClaimLimits, HandlerClaim
from receiver.core.types import HandlerName
from receiver.routing import Handler, Router
from receiver.worker.lane_runs import LaneRuns
from receiver.worker.slots import ReadyQueue, ReadyQueues

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
