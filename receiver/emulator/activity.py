"""What runs now, for those who let time pass only when nothing is left to do."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from receiver.core.clock import Clock


class Activity:
    """Counts the work that does not wait for the emulator's clock."""

    def __init__(self) -> None:
        self._running = 0
        self._idle = asyncio.Event()
        self._idle.set()

    def begin(self) -> None:
        """Count one more. `end` has to follow."""
        self._running += 1
        self._idle.clear()

    def end(self) -> None:
        """Count one less."""
        self._running -= 1
        if not self._running:
            self._idle.set()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Count one more for as long as the block lasts."""
        self.begin()
        try:
            yield
        finally:
            self.end()

    async def over(self) -> None:
        """Return when nothing runs, and what is left waits for the emulator's clock or for a call."""
        while self._running:
            await self._idle.wait()


class Rest:
    """A pause of counted work on the emulator's clock. While it lasts, the work does not count as running."""

    def __init__(self, activity: Activity) -> None:
        self._activity = activity
        self._over = asyncio.Event()
        self._waits = False

    async def wait(self, clock: Clock, duration: timedelta) -> None:
        """Return when `duration` has passed on the clock, or `end` was called."""
        if self._over.is_set():
            return
        self._activity.end()
        self._waits = True
        timer = clock.call_later(duration, self.end)
        try:
            await self._over.wait()
        finally:
            timer.cancel()
            self.end()

    def end(self) -> None:
        """End the pause now. The work counts as running from here on, before its task continues."""
        self._over.set()
        if self._waits:
            self._waits = False
            self._activity.begin()
