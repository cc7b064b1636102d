"""What runs now: so that a test can let time pass only when nothing is left to do."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager


class Activity:
    """Counts the work that goes on without waiting for the emulator's clock."""

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

    @contextmanager
    def resting(self) -> Iterator[None]:
        """Count one less for as long as the block lasts: it waits for the emulator's clock."""
        self.end()
        try:
            yield
        finally:
            self.begin()

    async def over(self) -> None:
        """Return when nothing runs, and what is left waits for the emulator's clock or for a call."""
        while self._running:
            await self._idle.wait()
