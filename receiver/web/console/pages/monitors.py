"""Monitors: their checks over time, and how many pages each found changed."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from receiver.web.console.parts import ConsoleParts, get
from receiver.web.console.reports import SHOWN, ShownCheck


class MonitorPages:
    """The page of monitors."""

    def __init__(self, parts: ConsoleParts) -> None:
        self._parts = parts

    def routes(self) -> list[Route]:
        """Return the route of this page."""
        return [get("/monitors", self._show)]

    async def _show(self, request: Request) -> Response:
        query = self._parts.query(request)
        since = query.moment("since", self._parts.clock.now())
        checks = await self._parts.checks.wait()
        monitors: dict[str, list[ShownCheck]] = {}
        for one in checks or ():
            if since is None or one.received_at >= since:
                monitors.setdefault(one.check.monitor_id or "unknown", []).append(one)
        content = {"monitors": monitors, "given": query.given, "shown": SHOWN}
        return self._parts.pages.page(request, "monitors.html", content)
