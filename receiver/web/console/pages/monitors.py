"""Monitors: their checks over time, and how many pages each found changed."""

from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from receiver.core.deliveries import DeliveryFilter, StoredDelivery
from receiver.errors import Malformed
from receiver.events import parse_event
from receiver.events.documents.monitors import MonitorCheck
from receiver.events.monitor import MonitorCheckCompleted
from receiver.web.console.parts import ConsoleParts, get

SHOWN = 200
"""Checks on the page, the newest."""


@dataclass(frozen=True, slots=True)
class ShownCheck:
    """A check of a monitor, and the delivery that told its end."""

    stored: StoredDelivery
    """The delivery."""
    check: MonitorCheck
    """What it says."""


class MonitorPages:
    """The page of monitors."""

    def __init__(self, parts: ConsoleParts) -> None:
        self._parts = parts

    def routes(self) -> list[Route]:
        """Return the route of this page."""
        return [get("/monitors", self._show)]

    async def _show(self, request: Request) -> Response:
        query = self._parts.query(request)
        wanted = DeliveryFilter(
            type=MonitorCheckCompleted.type_name,
            since=query.moment("since", self._parts.clock.now()),
            limit=SHOWN,
        )
        monitors: dict[str, list[ShownCheck]] = {}
        async with self._parts.access.reading() as reports:
            async for stored in reports.iter_deliveries(wanted):
                if (shown := _shown(stored)) is not None:
                    monitors.setdefault(shown.check.monitor_id or "unknown", []).insert(0, shown)
        content = {"monitors": monitors, "given": query.given, "shown": SHOWN}
        return self._parts.pages.page(request, "monitors.html", content)


def _shown(stored: StoredDelivery) -> ShownCheck | None:
    try:
        event = parse_event(stored.delivery.body)
        return ShownCheck(stored, event.check) if isinstance(event, MonitorCheckCompleted) else None
    except (Malformed, ValueError, RecursionError):
        return None
