"""The clock of the console: that of the store, as soon as the store can be asked for it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime, timedelta

from receiver.core.clock import Clock, Timer
from receiver.core.ports.store import Store
from receiver.errors import StoreError, StoreRefused

_PAUSE = timedelta(seconds=5)
"""Between two attempts to open the clock of a store that cannot be used. Pages show why it cannot."""


class StoreClock:
    """A Clock. Kept moments are those of the store's clock, which may not be that of this machine.

    While the store cannot be used, it is that of the machine.
    """

    def __init__(self, store: Store, machine: Clock) -> None:
        self._store = store
        self._machine = machine
        self._shown = machine

    def now(self) -> datetime:
        """Return the present moment."""
        return self._shown.now()

    def steady(self) -> datetime:
        """Return a moment on a clock that nobody sets."""
        return self._shown.steady()

    def call_later(self, duration: timedelta, callback: Callable[[], None]) -> Timer:
        """Call `callback` when `duration` has passed."""
        return self._machine.call_later(duration, callback)

    async def sleep(self, duration: timedelta) -> None:
        """Return when `duration` has passed."""
        await self._machine.sleep(duration)

    @asynccontextmanager
    async def following(self) -> AsyncIterator[None]:
        """Show the time of the store for as long as the block lasts."""
        task = asyncio.create_task(self._follow())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])

    async def _follow(self) -> None:
        while True:
            try:
                async with self._store.clock(self._machine) as self._shown:
                    await asyncio.Event().wait()
            except (StoreError, StoreRefused):
                await self._machine.sleep(_PAUSE)
