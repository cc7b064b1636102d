"""One line for each change of the store, so that open pages renew themselves (Server-Sent Events)."""

from collections.abc import AsyncIterator

from sse_starlette import EventSourceResponse
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from receiver.web.console.parts import ConsoleParts, get

MAX_STREAMS = 100
"""Pages that renew themselves at one time. Each holds a connection."""
_RETRY_SECONDS = 30


class ChangeStream:
    """The stream that an open page listens to."""

    def __init__(self, parts: ConsoleParts) -> None:
        self._parts = parts
        self._open = 0

    def routes(self) -> list[Route]:
        """Return the route of the stream."""
        return [get("/changes", self.stream)]

    async def stream(self, request: Request) -> Response:
        """Return an answer that ends with the console, or when the page is left."""
        if request.method == "HEAD":
            return Response(media_type="text/event-stream")
        if self._open >= MAX_STREAMS:
            headers = {"retry-after": str(_RETRY_SECONDS)}
            return PlainTextResponse("Too many pages listen already. This one can be reloaded.", 503, headers)
        return EventSourceResponse(self._lines())

    async def _lines(self) -> AsyncIterator[dict[str, str]]:
        self._open += 1
        try:
            yield {"event": "ready", "data": ""}
            while await self._parts.changes.next():
                yield {"event": "changed", "data": ""}
        finally:
            self._open -= 1
