"""Says once for each thing that our models do not know that it has arrived."""

import logging

from receiver.core.deliveries import Delivery
from receiver.events import Event
from receiver.events.drift import MAX_DRIFTS, Drift, drift_of

log = logging.getLogger(__name__)


class DriftLogger:
    """What a worker has seen since its start; `receiver drift` finds all that is stored."""

    def __init__(self) -> None:
        self._told: set[Drift] = set()

    def look(self, event: Event, delivery: Delivery) -> None:
        """Log what is seen for the first time."""
        for one in drift_of(event) - self._told:
            if len(self._told) >= MAX_DRIFTS:
                return
            self._told.add(one)
            fields = {"type": one.type, "kind": one.kind.value, "path": one.path, "key": delivery.key}
            log.info("event_drift", extra=fields)
