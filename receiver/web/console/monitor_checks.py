"""The newest checks of monitors. Finding them takes long in a large store: no index finds a type."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from receiver.core.deliveries import Delivery, DeliveryFilter
from receiver.core.ports.reports import Reports
from receiver.errors import Malformed
from receiver.events import parse_event
from receiver.events.documents.monitors import MonitorCheck
from receiver.events.monitor import MonitorCheckCompleted
from receiver.web.console.slow_work import SlowWork

SHOWN = 200
"""Checks on the page, the newest."""
MAX_CHECK_BODY = 1024 * 1024
"""Bytes of a delivery that is read: a check has counts, and no pages."""


@dataclass(frozen=True, slots=True)
class ShownCheck:
    """A check of a monitor. The body that told of it is not kept."""

    received_at: datetime
    """When the delivery of its end arrived."""
    job_id: str | None
    """What links its deliveries."""
    check: MonitorCheck
    """What it says."""


async def read_checks(reports: Reports, slow: SlowWork) -> Sequence[ShownCheck]:
    """Return the checks that ended last, the newest first."""
    wanted = DeliveryFilter(type=MonitorCheckCompleted.type_name, limit=SHOWN)
    found = [
        await slow.run(_shown, stored.delivery)
        async for stored in reports.iter_deliveries(wanted)
        if len(stored.delivery.body) <= MAX_CHECK_BODY
    ]
    return [one for one in reversed(found) if one is not None]


def _shown(delivery: Delivery) -> ShownCheck | None:
    try:
        event = parse_event(delivery.body)
    except (Malformed, ValueError, RecursionError):
        return None
    if not isinstance(event, MonitorCheckCompleted):
        return None
    return ShownCheck(delivery.received_at, delivery.job_id, event.check)
