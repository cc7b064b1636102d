"""The guide: the list of its topics, and each topic. It needs no store."""

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from receiver.core.guide import TOPICS, topics
from receiver.web.console.gate import scope_root
from receiver.web.console.parts import ConsoleParts, get
from receiver.web.console.rendering import topic_html


class GuidePages:
    """The pages of the guide."""

    def __init__(self, parts: ConsoleParts) -> None:
        self._parts = parts

    def routes(self) -> list[Route]:
        """Return the routes of these pages."""
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
