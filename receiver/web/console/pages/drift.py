"""Drift: types and fields that arrived and that this version does not know."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from receiver.web.console.parts import ConsoleParts, get


class DriftPage:
    """The page of drift."""

    def __init__(self, parts: ConsoleParts) -> None:
        self._parts = parts

    def routes(self) -> list[Route]:
        """Return the route of this page."""
        return [get("/drift", self._show)]

    async def _show(self, request: Request) -> Response:
        return self._parts.pages.page(request, "drift.html", {"found": await self._parts.drift.get()})
