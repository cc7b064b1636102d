"""Reports that take long on a large store, read in the background: a page shows the last result."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from receiver.core.ports.reports import Reports
from receiver.web.console.access import StoreAccess

T = TypeVar("T")

PATIENCE_SECONDS = 0.1
"""How long a page waits for a report before it shows the last one."""


class BackgroundReport(Generic[T]):
    """One report. Each page asks for a new one, and at most one is being read at a time."""

    def __init__(self, access: StoreAccess, read: Callable[[Reports], Awaitable[T]]) -> None:
        self._access = access
        self._read = read
        self._last: T | None = None
        self._reading: asyncio.Task[T] | None = None

    async def get(self) -> T | None:
        """Return the newest result that can be had soon; None if there is none. Raises StoreError."""
        if self._reading is not None and self._reading.done():
            self._take(self._reading)  # it may be old: nobody has asked since
        if self._reading is None:
            self._reading = asyncio.create_task(self._report())
        reading = self._reading
        await asyncio.wait([reading], timeout=PATIENCE_SECONDS)
        if reading.done():
            self._take(reading)
            reading.result()
        return self._last

    def _take(self, reading: "asyncio.Task[T]") -> None:
        if self._reading is reading:
            self._reading = None
            if not reading.cancelled() and reading.exception() is None:
                self._last = reading.result()

    async def aclose(self) -> None:
        """Stop reading."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait([self._reading])

    async def _report(self) -> T:
        async with self._access.reading() as reports:
            return await self._read(reports)
