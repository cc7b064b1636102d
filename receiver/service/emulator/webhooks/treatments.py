"""InjectedFaults on the way of webhooks: deliveries that are lost, late, shuffled, or arrive twice."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Treatment:
    """What happens to one delivery."""

    copies: int = 1
    """How often it arrives, with the same id each time; 0 loses it."""
    late: timedelta = timedelta(0)
    """How long it is held back on the emulator's clock. Different times shuffle deliveries."""


AS_USUAL = Treatment()


class WebhookTreatments(Protocol):
    """Decides what happens to each delivery on its way. The admin API can set one."""

    def choose(self, event_type: str) -> Treatment:
        """Return what happens to the next delivery of this type."""


class NoTreatments:
    """Every delivery takes its usual way."""

    def choose(self, event_type: str) -> Treatment:
        """Return the usual way."""
        return AS_USUAL
