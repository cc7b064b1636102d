"""The store as the console uses it: connections for reading and deciding, its changes, and its clock."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

from receiver.core.clock import Clock, Timer
from receiver.core.ports.reports import Reports
from receiver.core.ports.store import Controls, Store
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
        """Return an unused connection, or the one with the fewest users when all are in use."""
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
        """Return whether no other database has replaced the one that was opened."""
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


PAUSE = timedelta(seconds=1)
"""Between two changes. A page that renewed itself with each delivery could not be read."""


class StoreChanges:
    """Watches the store while streams wait for a change, and wakes all: a store reports a change only once."""

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
        """Wake all waiting streams for the last time."""
        self._is_over = True
        self._wake(has_changed=False)
        if self._watching is not None:
            self._watching.cancel()

    async def _watch(self) -> None:
        try:
            while self._waiting:
                with suppress(StoreError, StoreRefused):  # the pages say what is wrong
                    async with self._access.reading() as reports:
                        await reports.changed()
                    self._wake(has_changed=True)
                await self._clock.sleep(PAUSE)
        finally:
            self._wake(has_changed=False)  # after a fault: browsers open their streams again

    def _wake(self, *, has_changed: bool) -> None:
        for one in self._waiting:
            if not one.done():
                one.set_result(has_changed)


_PAUSE = timedelta(seconds=5)
"""Between two attempts to open the clock of a store that cannot be used. ConsolePages show why it cannot."""


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
        """Return a moment on a clock that is never set."""
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
