"""The waiting pages of one job, some of them at a time."""

import asyncio
from collections import deque

from receiver.service.emulator.jobs import table
from receiver.service.emulator.jobs.records import WaitingPage
from receiver.service.emulator.state.database import StateDatabase

_AHEAD = 64
"""How many pages are read at one time."""


class PageQueue:
    """Hands out each waiting page once, in the order in which the pages were found."""

    def __init__(self, database: StateDatabase, seq: int) -> None:
        self._database = database
        self._seq = seq
        self._ready: deque[WaitingPage] = deque()
        self._last = 0
        self._reading = asyncio.Lock()
        self._news = asyncio.Event()
        self._closed = False
        self.busy = 0
        """How many pages were taken and are not done."""

    async def take(self) -> WaitingPage | None:
        """Return a page, for which `done` has to be called; None when no page is left and none can be found."""
        while not self._closed:
            news = self._news
            is_last = not self._ready and await self._is_exhausted()
            if self._closed:
                break
            if self._ready:
                self.busy += 1
                return self._ready.popleft()
            if is_last:
                break
            await news.wait()
        return None

    def done(self) -> None:
        """Note that a page which was taken has ended, with all that was found on it."""
        self.busy -= 1
        self.notify()

    def notify(self) -> None:
        """Look again: there may be new pages."""
        self._news.set()
        self._news = asyncio.Event()

    def close(self) -> None:
        """Hand out no more pages."""
        self._closed = True
        self.notify()

    async def _is_exhausted(self) -> bool:
        """Read pages, and tell whether there are none and nobody was busy who could find some."""
        async with self._reading:
            if self._ready:
                return False
            busy = self.busy
            pages = await self._database.run(lambda c: table.waiting_pages(c, self._seq, self._last, _AHEAD))
            if pages:
                self._last = pages[-1].number
                self._ready.extend(pages)
                self.notify()
            return not busy and not pages
