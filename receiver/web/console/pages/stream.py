"""One line for each change of the store, so that open pages renew themselves (Server-Sent Events)."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

from sse_starlette import EventSourceResponse
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from receiver.errors import StoreError, StoreRefused
from receiver.web.console.parts import ConsoleParts, get

_PAUSE = timedelta(seconds=1)
"""Between two lines. A page that renewed itself with each delivery could not be read."""


class ChangeStream:
    """One line for each change of the store, so that open pages renew themselves (Server-Sent Events)."""

    def __init__(self, parts: ConsoleParts) -> None:
        self._parts = parts

    def routes(self) -> list[Route]:
        """Return the routes of these pages."""
        return [get("/changes", self.stream)]

    async def changes(self) -> AsyncIterator[dict[str, str]]:
        yield {"event": "ready", "data": ""}
        while True:
            try:
                async with self._parts.access.reading() as reports:
                    await reports.changed()
            except (StoreError, StoreRefused):
                await asyncio.sleep(_PAUSE.total_seconds())
                continue
            yield {"event": "changed", "data": ""}
            await self._parts.clock.sleep(_PAUSE)

    async def stream(self, request: Request) -> Response:
        return EventSourceResponse(self.changes())
