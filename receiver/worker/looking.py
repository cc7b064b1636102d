"""What a worker asks the store for, and what one look at it found."""

from collections.abc import Iterable, Sequence
from enum import Enum, auto

from receiver.core.claims import HandlerClaim
from receiver.routing import Handler
from receiver.worker.lane_runs import LaneRuns
from receiver.worker.slots import ReadyQueues


class Found(Enum):
    """What a look at the store found."""

    NOTHING = auto()
    """Nothing new. A claim may have taken all that was due."""
    SOME = auto()
    """Deliveries, and they were all, as far as one sees."""
    MORE = auto()
    """There may be more at once."""


def claims_for(handlers: Iterable[Handler], ready: ReadyQueues, lanes: LaneRuns) -> Sequence[HandlerClaim]:
    """Return what more work can be claimed for, in the order of these handlers."""
    return [
        HandlerClaim(
            handler.name,
            None if handler.batch is not None else handler.concurrency,
            None if handler.rate is None else handler.rate.interval,
            claimable,
            lanes.allows(handler),
        )
        for handler in handlers
        if (claimable := _claimable(handler, ready)) > 0
    ]


def waits_for_others(handler: Handler) -> bool:
    """Tell whether items of a handler may have to wait in the store for the end of others."""
    return not (handler.lane is None and handler.concurrency is None and handler.rate is None)


def _claimable(handler: Handler, ready: ReadyQueues) -> int:
    """Return how many items may be claimed. A claim uses up the rate, so its items have to start at once."""
    queue = ready[handler.name]
    return queue.claimable if handler.rate is None else min(queue.claimable, queue.startable)
