"""A store in one SQLite file, for any number of processes on one machine."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta

from receiver.core.ports.controls import Controls
from receiver.core.ports.log import DeliveryLog
from receiver.core.ports.maintenance import Maintenance
from receiver.core.ports.queue import WorkQueue
from receiver.core.ports.reports import Reports
from receiver.core.ports.search import SearchIndex
from receiver.stores.sqlite.checkpoints import Checkpointer
from receiver.stores.sqlite.controls import SqliteControls
from receiver.stores.sqlite.database import LOCK_PATIENCE, Database, database_path, exists, opened, prepare
from receiver.stores.sqlite.log import SqliteLog
from receiver.stores.sqlite.maintenance import SqliteMaintenance
from receiver.stores.sqlite.queue import SqliteQueue
from receiver.stores.sqlite.reports import SqliteReports
from receiver.stores.sqlite.search import SqliteSearch

_ANY = "PRAGMA cache_size = -16000;"
# Sorting a million rows takes as much memory as they need unless it may go to a file.
_READS = "PRAGMA busy_timeout = 5000; PRAGMA temp_store = DEFAULT;"
# macOS writes through the drive's own cache only when asked (SQLite manual, PRAGMA fullfsync); a checkpoint must,
# whoever makes it, as it takes from the log what was acknowledged.
_WRITES = """
PRAGMA busy_timeout = 0; PRAGMA wal_autocheckpoint = 0; PRAGMA journal_size_limit = 268435456;
PRAGMA temp_store = MEMORY;
PRAGMA checkpoint_fullfsync = ON;
"""
_SYNCED = "PRAGMA synchronous = FULL; PRAGMA fullfsync = ON;"
_UNSYNCED = "PRAGMA synchronous = NORMAL;"


class SqliteStore:
    """A Store. `patience` is how long a transaction waits for another process that holds the write lock."""

    def __init__(self, url: str, *, patience: timedelta = LOCK_PATIENCE) -> None:
        self._path = database_path(url)
        self._patience = patience

    def exists(self) -> bool:
        """Tell whether the file is there."""
        return exists(self._path)

    @asynccontextmanager
    async def log(self) -> AsyncIterator[DeliveryLog]:
        """Open for appending; creates the file if there is none."""
        await asyncio.to_thread(prepare, self._path, create=True)
        async with AsyncExitStack() as stack:
            database = await self._connection(stack, _WRITES + _SYNCED)
            log = SqliteLog(database, self._path, await self._checkpointer(stack))
            stack.push_async_callback(log.aclose)
            yield log

    @asynccontextmanager
    async def queue(self) -> AsyncIterator[WorkQueue]:
        """Open for working; creates the file if there is none."""
        await asyncio.to_thread(prepare, self._path, create=True)
        async with AsyncExitStack() as stack:
            database = await self._connection(stack, _WRITES + _UNSYNCED)
            yield SqliteQueue(database, await self._checkpointer(stack))

    @asynccontextmanager
    async def search(self) -> AsyncIterator[SearchIndex]:
        """Open for indexing; creates the file if there is none."""
        await asyncio.to_thread(prepare, self._path, create=True)
        async with AsyncExitStack() as stack:
            database = await self._connection(stack, _WRITES + _UNSYNCED)
            index = SqliteSearch(database, await self._checkpointer(stack))
            await index.make()
            yield index

    @asynccontextmanager
    async def controls(self) -> AsyncIterator[Controls]:
        """Open for deciding."""
        await asyncio.to_thread(prepare, self._path, create=False)
        async with AsyncExitStack() as stack:
            database = await self._connection(stack, _WRITES + _SYNCED)
            yield SqliteControls(database, await self._checkpointer(stack))

    @asynccontextmanager
    async def reports(self) -> AsyncIterator[Reports]:
        """Open for reading."""
        await asyncio.to_thread(prepare, self._path, create=False)
        async with AsyncExitStack() as stack:
            yield SqliteReports(await self._connection(stack, _READS, read_only=True), self._path)

    @asynccontextmanager
    async def maintenance(self) -> AsyncIterator[Maintenance]:
        """Open for pruning and shrinking."""
        await asyncio.to_thread(prepare, self._path, create=False)
        async with AsyncExitStack() as stack:
            database = await self._connection(stack, _WRITES + _UNSYNCED)
            yield SqliteMaintenance(database, await self._checkpointer(stack))

    async def _connection(self, stack: AsyncExitStack, setup: str, *, read_only: bool = False) -> Database:
        database = await opened(
            Database(self._path, setup=_ANY + setup, read_only=read_only, patience=self._patience)
        )
        stack.push_async_callback(database.close)
        return database

    async def _checkpointer(self, stack: AsyncExitStack) -> Checkpointer:
        # A checkpoint syncs what the worker's own commits left unsynced.
        checkpointer = Checkpointer(await self._connection(stack, _WRITES + _SYNCED))
        task = asyncio.create_task(checkpointer.run())
        stack.push_async_callback(_cancelled, task)
        return checkpointer


async def _cancelled(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait([task])  # not the task itself: who is cancelled meanwhile has to hear of it
    if not task.cancelled():
        task.result()
