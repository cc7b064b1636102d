"""Settings: what is set, and from where."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from receiver.web.console.parts import ConsoleParts, get


class SettingsPage:
    """Settings: what is set, and from where."""

    def __init__(self, parts: ConsoleParts) -> None:
        self._parts = parts

    def routes(self) -> list[Route]:
        """Return the routes of these pages."""
        return [get("/settings", self._show)]

    async def _show(self, request: Request) -> Response:
        notes = await self._parts.access.store.health_notes()
        return self._parts.pages.page(
            request, "settings.html", {"rows": self._parts.options.settings, "notes": notes}
        )
