"""The newest checks of monitors. Finding them takes long in a large store: no index finds a type."""

from collections.abc import Sequence
from dataclasses import dataclass

from receiver.core.deliveries import DeliveryFilter, StoredDelivery
from receiver.core.ports.reports import Reports
from receiver.errors import Malformed
from receiver.events import parse_event
from receiver.events.documents.monitors import MonitorCheck
from receiver.events.monitor import MonitorCheckCompleted

SHOWN = 200
"""Checks on the page, the newest."""


@dataclass(frozen=True, slots=True)
class ShownCheck:
    """A check of a monitor, and the delivery that told its end."""

    stored: StoredDelivery
    """The delivery."""
    check: MonitorCheck
    """What it says."""


async def read_checks(reports: Reports) -> Sequence[ShownCheck]:
    """Return the checks that ended last, the newest first."""
    wanted = DeliveryFilter(type=MonitorCheckCompleted.type_name, limit=SHOWN)
    found = [_shown(stored) async for stored in reports.iter_deliveries(wanted)]
    return [one for one in reversed(found) if one is not None]


def _shown(stored: StoredDelivery) -> ShownCheck | None:
    try:
        event = parse_event(stored.delivery.body)
        return ShownCheck(stored, event.check) if isinstance(event, MonitorCheckCompleted) else None
    except (Malformed, ValueError, RecursionError):
        return None
