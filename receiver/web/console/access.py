"""The store as the console uses it: a few connections for reading, and one for each decision."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from receiver.core.ports.controls import Controls
from receiver.core.ports.reports import Reports
from receiver.core.ports.store import Store
from receiver.errors import StoreError, StoreRefused


@dataclass(slots=True, eq=False)
class _ReadingConnection:
    """An open connection for reading, and how many pages use it now."""

    reports: Reports
    stack: AsyncExitStack
    users: int = 0


MAX_CONNECTIONS = 4
"""Open connections for reading. A slow page, such as a search by words, holds up no other until all are in use."""


class StoreAccess:
    """Opens the store when a page needs it for the first time, and again when it failed or was replaced."""

    def __init__(self, store: Store, *, most: int = MAX_CONNECTIONS) -> None:
        self.store = store
        self._most = most
        self.losses = 0
        """How often a connection was given up: what was counted before may be of another database."""
        self._opening = asyncio.Lock()
        self._connections: list[_ReadingConnection] = []

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[Reports]:
        """Give the reports. Raises StoreError or StoreRefused when there is no database that can be read."""
        async with self._using() as connection:
            try:
                yield connection.reports
            except (StoreError, StoreRefused):
                self._give_up(connection)
                raise

    @asynccontextmanager
    async def deciding(self) -> AsyncIterator[tuple[Reports, Controls]]:
        """Give the reports and a connection for decisions, as long as the block lasts."""
        async with self.store.controls() as controls, self._using() as connection:
            yield connection.reports, controls

    async def aclose(self) -> None:
        """Close the connections for reading, also to those who still read."""
        async with self._opening:
            while self._connections:
                await self._connections.pop().stack.aclose()

    @asynccontextmanager
    async def _using(self) -> AsyncIterator[_ReadingConnection]:
        connection = await self._lent()
        try:
            yield connection
        finally:
            connection.users -= 1
            await self._close_unused(connection)

    async def _lent(self) -> _ReadingConnection:
        """Return a connection that nobody uses, or the one with the fewest users when all are in use."""
        while True:
            async with self._opening:
                connection = min(self._connections, key=lambda one: one.users, default=None)
                is_new = connection is None or bool(connection.users and len(self._connections) < self._most)
                if connection is None or is_new:
                    connection = await self._open()
                    self._connections.append(connection)
                connection.users += 1
            try:
                if is_new or await self._is_there(connection):
                    return connection
            except BaseException:
                connection.users -= 1
                raise
            connection.users -= 1
            self._give_up(connection)
            await self._close_unused(connection)

    def _give_up(self, connection: _ReadingConnection) -> None:
        """Lend it no more."""
        if connection in self._connections:
            self._connections.remove(connection)
            self.losses += 1

    async def _is_there(self, connection: _ReadingConnection) -> bool:
        """Tell whether no other database has replaced the one that was opened."""
        try:
            await connection.reports.require_present()
        except StoreError:
            return False
        return True

    async def _open(self) -> _ReadingConnection:
        if not await asyncio.to_thread(self.store.exists):
            raise StoreError("there is no database yet; `receiver serve` creates it")
        async with AsyncExitStack() as stack:
            reports = await stack.enter_async_context(self.store.reports())
            return _ReadingConnection(reports, stack.pop_all())

    async def _close_unused(self, connection: _ReadingConnection) -> None:
        """Close a connection that was given up, as soon as the last page has let it go."""
        if connection not in self._connections and not connection.users:
            await connection.stack.aclose()
