"""Dead letters in groups."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from receiver.core.types import WorkState
from receiver.core.work import EXAMINED, WorkFilter, grouped
from receiver.web.console.parts import ConsoleParts, get


class DeadLetterPage:
    """Dead letters in groups."""

    def __init__(self, parts: ConsoleParts) -> None:
        self._parts = parts

    def routes(self) -> list[Route]:
        """Return the routes of these pages."""
        return [get("/dead", self._show)]

    async def _show(self, request: Request) -> Response:
        wanted = WorkFilter(state=WorkState.DEAD, limit=EXAMINED)
        async with self._parts.access.reading() as reports:
            items = [one async for one in reports.work_items(wanted)]
        content = {"groups": grouped(items), "is_cut": len(items) == EXAMINED, "examined": EXAMINED}
        return self._parts.pages.page(request, "dead.html", content)
