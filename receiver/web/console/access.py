"""The store as the console uses it: one connection for reading, and one for each decision."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from receiver.core.ports.controls import Controls
from receiver.core.ports.reports import Reports
from receiver.core.ports.store import Store
from receiver.errors import StoreError, StoreRefused


class StoreAccess:
    """Opens the store when a page needs it for the first time, and again after it failed."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._opening = asyncio.Lock()
        self._stack = AsyncExitStack()
        self._reports: Reports | None = None

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[Reports]:
        """Give the reports. Raises StoreError or StoreRefused when there is no database that can be read."""
        reports = await self._opened()
        try:
            yield reports
        except (StoreError, StoreRefused):
            await self.aclose()
            raise

    @asynccontextmanager
    async def deciding(self) -> AsyncIterator[tuple[Reports, Controls]]:
        """Give the reports and a connection for decisions, as long as the block lasts."""
        async with self.store.controls() as controls, self.reading() as reports:
            yield reports, controls

    async def aclose(self) -> None:
        """Close the connection for reading. The next page opens it again."""
        async with self._opening:
            stack, self._stack, self._reports = self._stack, AsyncExitStack(), None
            await stack.aclose()

    async def _opened(self) -> Reports:
        async with self._opening:
            if self._reports is None:
                if not await asyncio.to_thread(self.store.exists):
                    raise StoreError("there is no database yet; `receiver serve` creates it")
                self._reports = await self._stack.enter_async_context(self.store.reports())
            return self._reports
