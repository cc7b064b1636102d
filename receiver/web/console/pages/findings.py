"""What the newest deliveries show: drift, and the checks of monitors."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from typing_extensions import override

from receiver.web.console.parts import ConsolePages, get
from receiver.web.console.reports import SHOWN, ShownCheck


class DriftPage(ConsolePages):
    """The page of drift."""

    @override
    def routes(self) -> list[Route]:
        return [get("/drift", self._show)]

    async def _show(self, request: Request) -> Response:
        return self._parts.pages.page(request, "drift.html", {"found": await self._parts.drift.wait()})


class MonitorPages(ConsolePages):
    """The page of monitors."""

    @override
    def routes(self) -> list[Route]:
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
