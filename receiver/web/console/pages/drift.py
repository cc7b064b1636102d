"""Drift: types and fields that arrived and that this version does not know."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from receiver.core.deliveries import DeliveryFilter, StoredDelivery
from receiver.errors import Malformed
from receiver.events import parse_event
from receiver.events.drift import DriftCounter
from receiver.web.console.parts import ConsoleParts, get

EXAMINED = 500
"""Deliveries that the page reads, the newest; `receiver drift` reads all."""
_READ_AT_ONCE = 20


class DriftPage:
    """The page of drift."""

    def __init__(self, parts: ConsoleParts) -> None:
        self._parts = parts

    def routes(self) -> list[Route]:
        """Return the route of this page."""
        return [get("/drift", self._show)]

    async def _show(self, request: Request) -> Response:
        counter = DriftCounter()
        part: list[StoredDelivery] = []
        seen = 0
        async with self._parts.access.reading() as reports:
            async for stored in reports.iter_deliveries(DeliveryFilter(limit=EXAMINED)):
                seen += 1
                part.append(stored)
                if len(part) == _READ_AT_ONCE:
                    await asyncio.to_thread(_count, counter, part)
                    part = []
        await asyncio.to_thread(_count, counter, part)
        return self._parts.pages.page(request, "drift.html", {"rows": counter.counts(), "seen": seen})


def _count(counter: DriftCounter, part: Sequence[StoredDelivery]) -> None:
    for stored in part:
        with suppress(Malformed, ValueError, RecursionError):  # quarantine and the delivery's own page tell it
            counter.add(parse_event(stored.delivery.body), stored.delivery)
