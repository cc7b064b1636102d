"""Tells all open streams when the store has changed: a store tells it only once, to whoever asks."""

import asyncio
from contextlib import suppress
from datetime import timedelta

from receiver.core.clock import Clock
from receiver.errors import StoreError, StoreRefused
from receiver.web.console.access import StoreAccess

PAUSE = timedelta(seconds=1)
"""Between two changes. A page that renewed itself with each delivery could not be read."""


class StoreChanges:
    """Watches the store as long as somebody waits for a change."""

    def __init__(self, access: StoreAccess, clock: Clock) -> None:
        self._access = access
        self._clock = clock
        self._waiting: set[asyncio.Future[bool]] = set()
        self._watching: asyncio.Task[None] | None = None
        self._is_over = False

    async def next(self) -> bool:
        """Return True when the store has changed, at most once in a second; False when the console stops."""
        if self._is_over:
            return False
        if self._watching is None or self._watching.done():
            self._watching = asyncio.create_task(self._watch())
        waiting: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting.add(waiting)
        try:
            return await waiting
        finally:
            self._waiting.discard(waiting)

    def end(self) -> None:
        """Wake everybody who waits, for the last time."""
        self._is_over = True
        self._tell(has_changed=False)
        if self._watching is not None:
            self._watching.cancel()

    async def _watch(self) -> None:
        try:
            while self._waiting:
                with suppress(StoreError, StoreRefused):  # the pages say what is wrong
                    async with self._access.reading() as reports:
                        await reports.changed()
                    self._tell(has_changed=True)
                await self._clock.sleep(PAUSE)
        finally:
            self._tell(has_changed=False)  # after a fault: browsers open their streams again

    def _tell(self, *, has_changed: bool) -> None:
        for one in self._waiting:
            if not one.done():
                one.set_result(has_changed)
