"""One line for each change of the store, so that open pages renew themselves (Server-Sent Events)."""

from collections.abc import AsyncIterator

from sse_starlette import EventSourceResponse
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from receiver.web.console.parts import ConsoleParts, get


class ChangeStream:
    """The stream that an open page listens to."""

    def __init__(self, parts: ConsoleParts) -> None:
        self._parts = parts

    def routes(self) -> list[Route]:
        """Return the route of the stream."""
        return [get("/changes", self.stream)]

    async def stream(self, request: Request) -> Response:
        """Return an answer that ends with the console, or when the page is left."""
        return EventSourceResponse(self._lines())

    async def _lines(self) -> AsyncIterator[dict[str, str]]:
        yield {"event": "ready", "data": ""}
        while await self._parts.changes.next():
            yield {"event": "changed", "data": ""}
