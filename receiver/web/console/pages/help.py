"""How this deployment is set, and the guide. The guide needs no store."""

from collections.abc import Sequence

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from typing_extensions import override

from receiver.core.guide import TOPICS, topics
from receiver.web.console.gate import scope_root
from receiver.web.console.parts import CheckedPart, ConsolePages, get, post
from receiver.web.console.rendering import topic_html


class SettingsPage(ConsolePages):
    """Settings: what is set, and from where."""

    @override
    def routes(self) -> list[Route]:
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


class GuidePages(ConsolePages):
    """The pages of the guide."""

    @override
    def routes(self) -> list[Route]:
        return [get("/guide", self._list), get("/guide/{topic}", self._show)]

    async def _list(self, request: Request) -> Response:
        return self._parts.pages.page(request, "guide.html", {"topics": topics(), "topic": None, "text": ""})

    async def _show(self, request: Request) -> Response:
        name = request.path_params["topic"]
        if name not in TOPICS:
            raise HTTPException(404)
        text = await self._parts.slow.run(topic_html, name, scope_root(request.scope))
        found = next(one for one in topics() if one.name == name)
        return self._parts.pages.page(request, "guide.html", {"topics": topics(), "topic": found, "text": text})
