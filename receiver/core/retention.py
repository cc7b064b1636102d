"""Pruning: what a rule removes, and what one step has done."""

from dataclasses import dataclass
from datetime import datetime

from receiver.core.deliveries import DeliveryFilter
from receiver.core.types import DeliveryState


@dataclass(frozen=True, slots=True)
class PruneRule:
    """What to remove: deliveries that arrived before a moment, or with `bodies` only their bodies.

    `type` is a glob. DEAD deliveries are removed only if `state` names them, and not while one of their work items
    stops its lane: what is queued there waits for the decision about it. Raises ValueError for a state in which
    there is still work to do.
    """

    before: datetime
    bodies: bool = False
    type: str | None = None
    state: DeliveryState | None = None

    def __post_init__(self) -> None:
        if self.state not in (None, DeliveryState.DONE, DeliveryState.DEAD):
            raise ValueError(f"deliveries in the state {self.state} are never pruned")

    def chosen(self) -> DeliveryFilter:
        """Return the filter for the deliveries to remove."""
        return DeliveryFilter(
            type=self.type, until=self.before, state=self.state or DeliveryState.DONE, with_runs=True
        )


@dataclass(frozen=True, slots=True)
class Step:
    """What one step of a long action has done: how many deliveries, how many bytes, and where to continue.

    `after` is None at the end.
    """

    count: int
    size: int
    after: int | None
