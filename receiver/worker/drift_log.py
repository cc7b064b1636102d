"""Fields and values that our models do not know: each is logged once."""

from receiver.core.deliveries import Delivery
from receiver.core.log_lines import event_log
from receiver.events import Event
from receiver.events.drift import MAX_DRIFTS, Drift, drift_of

log = event_log(__name__)


class DriftLogger:
    """Remembers what a worker has logged since its start; `receiver drift` searches the whole store."""

    def __init__(self) -> None:
        self._logged: set[Drift] = set()

    def log_new(self, event: Event, delivery: Delivery) -> None:
        """Log what has not been logged before."""
        for one in drift_of(event) - self._logged:
            if len(self._logged) >= MAX_DRIFTS:
                return
            self._logged.add(one)
            fields = {"type": one.type, "kind": one.kind.value, "path": one.path, "id": delivery.key}
            log.info("event_drift", extra=fields)
