"""The store as the console uses it: one connection for reading, and one for each decision."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from receiver.core.ports.controls import Controls
from receiver.core.ports.reports import Reports
from receiver.core.ports.store import Store
from receiver.errors import StoreError, StoreRefused


@dataclass(slots=True, eq=False)
class _Connection:
    """An open connection for reading, and how many pages use it now."""

    reports: Reports
    stack: AsyncExitStack
    users: int = 0


class StoreAccess:
    """Opens the store when a page needs it for the first time, and again when it failed or was replaced."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.openings = 0
        """How often the store was opened: what was counted before the last time may be of another database."""
        self._opening = asyncio.Lock()
        self._connection: _Connection | None = None

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[Reports]:
        """Give the reports. Raises StoreError or StoreRefused when there is no database that can be read."""
        async with self._using() as connection:
            try:
                yield connection.reports
            except (StoreError, StoreRefused):
                if self._connection is connection:
                    self._connection = None
                raise

    @asynccontextmanager
    async def deciding(self) -> AsyncIterator[tuple[Reports, Controls]]:
        """Give the reports and a connection for decisions, as long as the block lasts."""
        async with self.store.controls() as controls, self._using() as connection:
            yield connection.reports, controls

    async def aclose(self) -> None:
        """Close the connection for reading, also to those who still read."""
        async with self._opening:
            connection, self._connection = self._connection, None
            if connection is not None:
                await connection.stack.aclose()

    @asynccontextmanager
    async def _using(self) -> AsyncIterator[_Connection]:
        connection = await self._opened()
        connection.users += 1
        try:
            yield connection
        finally:
            connection.users -= 1
            await self._close_unused(connection)

    async def _opened(self) -> _Connection:
        async with self._opening:
            if self._connection is not None and not await self._is_there(self._connection):
                replaced, self._connection = self._connection, None
                await self._close_unused(replaced)
            if self._connection is None:
                self._connection = await self._open()
            return self._connection

    async def _is_there(self, connection: _Connection) -> bool:
        """Tell whether no other database has replaced the one that was opened."""
        try:
            await connection.reports.require_present()
        except StoreError:
            return False
        return True

    async def _open(self) -> _Connection:
        if not await asyncio.to_thread(self.store.exists):
            raise StoreError("there is no database yet; `receiver serve` creates it")
        async with AsyncExitStack() as stack:
            reports = await stack.enter_async_context(self.store.reports())
            self.openings += 1
            return _Connection(reports, stack.pop_all())

    async def _close_unused(self, connection: _Connection) -> None:
        """Close a connection that was given up, as soon as the last page has let it go."""
        if connection is not self._connection and not connection.users:
            await connection.stack.aclose()
