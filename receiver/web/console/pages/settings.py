"""Settings: what is set, and from where."""

from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from receiver.web.console.parts import CheckedPart, ConsoleParts, get, post


class SettingsPage:
    """Settings: what is set, and from where."""

    def __init__(self, parts: ConsoleParts) -> None:
        self._parts = parts

    def routes(self) -> list[Route]:
        """Return the routes of this page."""
        return [get("/settings", self._show), post("/settings/check", self._check)]

    async def _show(self, request: Request) -> Response:
        return await self._page(request, ())

    async def _check(self, request: Request) -> Response:
        check = self._parts.options.check
        return await self._page(request, () if check is None else await check())

    async def _page(self, request: Request, checked: Sequence[CheckedPart]) -> Response:
        content = {
            "rows": self._parts.options.settings,
            "notes": await self._parts.access.store.health_notes(),
            "checked": checked,
            "can_check": self._parts.options.check is not None,
        }
        return self._parts.pages.page(request, "settings.html", content)
