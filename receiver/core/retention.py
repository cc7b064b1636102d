"""Pruning: what a rule removes, and what one step of it did."""

from dataclasses import dataclass
from datetime import datetime

from receiver.core.deliveries import DeliveryFilter
from receiver.core.types import DeliveryState


@dataclass(frozen=True, slots=True)
class PruneRule:
    """What has been kept long enough: what arrived before a moment, or with `bodies` only the bodies of that.

    `type` is a glob. DEAD deliveries are removed only if `state` names them, and what is still to be worked on
    never: a ValueError.
    """

    before: datetime
    bodies: bool = False
    type: str | None = None
    state: DeliveryState | None = None

    def __post_init__(self) -> None:
        if self.state not in (None, DeliveryState.DONE, DeliveryState.DEAD):
            raise ValueError(f"deliveries in the state {self.state} are never pruned")

    def chosen(self) -> DeliveryFilter:
        """Return the deliveries whose time it is."""
        return DeliveryFilter(type=self.type, until=self.before, state=self.state or DeliveryState.DONE)


@dataclass(frozen=True, slots=True)
class Step:
    """What one step of a long walk over the deliveries did: to how many, how many bytes, and where it goes on.

    `after` is None at the end.
    """

    count: int
    size: int
    after: int | None
