"""A store in one SQLite file, for any number of processes on one machine."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, closing, suppress
from datetime import timedelta
from typing import TYPE_CHECKING

from receiver.core.clock import Clock
from receiver.core.ports.log import WritableLog
from receiver.core.types import Schema, Tell
from receiver.errors import StoreError, StoreRefused
from receiver.stores.sqlite.bodies import UnusedFiles, body_writer, missing_files
from receiver.stores.sqlite.checkpoints import MAX_LOG_BYTES, Checkpointer, CheckpointTurn
from receiver.stores.sqlite.database import LOCK_PATIENCE, Database
from receiver.stores.sqlite.files import database_path, exists, prepare, require_marks, schema
from receiver.stores.sqlite.locks import LivingWorkers
from receiver.stores.sqlite.log import SqliteLog
from receiver.stores.sqlite.system_files import Ballast
from receiver.stores.sqlite.write_ahead_log import log_path

_WAL_RESET_FIXED = (3, 51, 3)
_WAL_RESET_FIXED_IN_BRANCHES = ((3, 50, 7), (3, 44, 6))


def health_notes(version: tuple[int, ...]) -> Sequence[str]:
    """Return what could harm a store with this version of SQLite, each with what to do."""
    if not _has_wal_reset_bug(version):
        return ()
    return (
        f"SQLite {'.'.join(map(str, version))} has a bug that can, very rarely, damage the database; "
        "use a Python with SQLite 3.51.3 or later: https://sqlite.org/wal.html#walresetbug",
    )


def _has_wal_reset_bug(version: tuple[int, ...]) -> bool:
    """Return whether two processes can damage a database in WAL mode, as the web process and a worker are two.

    SQLite manual, Write-Ahead Logging, "The WAL-Reset Bug"; distributions may have fixed an older version.
    """
    fixed = any(branch <= version < (*branch[:2], 1000) for branch in _WAL_RESET_FIXED_IN_BRANCHES)
    return version < _WAL_RESET_FIXED and not fixed


if TYPE_CHECKING:  # each face but the log is loaded when it is opened: a process that writes needs no other
    from receiver.core.ports.queue import WorkQueue
    from receiver.core.ports.reports import Reports
    from receiver.core.ports.store import Controls, Maintenance, SearchIndex

_ANY = "PRAGMA cache_size = -16000;"
# To sort a million rows, SQLite takes as much memory as they need, unless it may use a file.
_READS = "PRAGMA busy_timeout = 5000; PRAGMA temp_store = DEFAULT;"
# macOS writes through the cache of the drive only on request (SQLite manual, PRAGMA fullfsync). Every checkpoint
# has to request it, as it removes acknowledged deliveries from the log.
_WRITES = f"""
PRAGMA busy_timeout = 0; PRAGMA wal_autocheckpoint = 0; PRAGMA journal_size_limit = {MAX_LOG_BYTES};
PRAGMA temp_store = MEMORY;
PRAGMA checkpoint_fullfsync = ON;
"""
# Damage shall show when the database is opened, if a few pages show it.
_READABLE = "".join(
    f"SELECT * FROM {table} LIMIT 1;"
    for table in ("sqlite_schema", "deliveries", "bodies", "quarantine", "marks", "work_items", "attempts")
)
_SYNCED = "PRAGMA synchronous = FULL; PRAGMA fullfsync = ON;"
_UNSYNCED = "PRAGMA synchronous = NORMAL; PRAGMA fullfsync = ON;"


class SqliteStore:
    """A Store. `patience` is how long a transaction waits for another process that holds the write lock."""

    def __init__(self, url: str, *, patience: timedelta = LOCK_PATIENCE) -> None:
        self._path = database_path(url).absolute()  # handlers may change the folder
        self._patience = patience
        self._ballast = Ballast(self._path)
        self._unused_files = UnusedFiles(self._path)
        # A checkpoint also syncs the commits of workers, which are not synced themselves.
        self._turn = CheckpointTurn(self._path)
        self._checkpointer = Checkpointer(
            lambda: Database(self._path, setup=_ANY + _WRITES + _SYNCED), log_path(self._path), turn=self._turn
        )

    def exists(self) -> bool:
        """Return whether the file is there."""
        return exists(self._path)

    def schema(self) -> Schema:
        """Return the versions of the schema that the file has and that this program needs."""
        return schema(self._path)

    async def health_notes(self) -> Sequence[str]:
        """Return what could harm the file, each with what to do."""
        notes = health_notes(sqlite3.sqlite_version_info)
        return [*notes, *self._ballast.notes(), *await self._missing_files()] if self.exists() else notes

    async def _missing_files(self) -> Sequence[str]:
        with suppress(StoreError, StoreRefused):  # what keeps the store itself from working is reported elsewhere
            async with Database(self._path, setup=_ANY + _READS, read_only=True) as database:
                missing = await database.call(lambda connection: missing_files(connection, self._path))
            return [f"bodies of events are in {path}, which is not there: put it back" for path in missing]
        return ()

    async def require_search(self) -> None:
        """Raise ConfigurationError where this Python's SQLite has no full text search."""
        from receiver.stores.sqlite.dialect import require_module

        with closing(sqlite3.connect(":memory:")) as connection:
            require_module(connection)

    @asynccontextmanager
    async def clock(self, clock: Clock) -> AsyncIterator[Clock]:
        """Open the clock of this machine."""
        yield clock

    @asynccontextmanager
    async def log(self) -> AsyncIterator[WritableLog]:
        """Open for appending; creates the file if there is none."""
        async with self._writer(_SYNCED, create=True) as database:
            beside = body_writer(self._path)
            log = SqliteLog(database, self._path, beside)
            await log.prepare()
            try:
                with self._turn.appending():
                    yield log
            finally:
                await log.aclose()
                if beside is not None:
                    beside.close()

    @asynccontextmanager
    async def queue(self) -> "AsyncIterator[WorkQueue]":
        """Open for working; creates the file if there is none."""
        from receiver.stores.sqlite.queue import SqliteQueue

        living = LivingWorkers(self._path)
        try:
            async with self._writer(_UNSYNCED, create=True) as database:
                yield SqliteQueue(database, living)
        finally:
            living.close()

    @asynccontextmanager
    async def search(self) -> "AsyncIterator[SearchIndex]":
        """Open for indexing; creates the file if there is none."""
        from receiver.stores.sqlite.reports import SqliteSearch

        async with self._writer(_UNSYNCED, create=True) as database:
            index = SqliteSearch(database)
            await index.make()
            yield index

    @asynccontextmanager
    async def controls(self) -> "AsyncIterator[Controls]":
        """Open for deciding."""
        from receiver.stores.sqlite.controls import SqliteControls

        async with self._writer(_SYNCED, create=False) as database:
            yield SqliteControls(database)

    @asynccontextmanager
    async def maintenance(self, *, tell: Tell | None = None) -> "AsyncIterator[Maintenance]":
        """Open for pruning and shrinking."""
        from receiver.stores.sqlite.maintenance import SqliteMaintenance

        ballast = self._ballast
        async with self._writer(_UNSYNCED, create=False, make_room=lambda: ballast.give_up(tell)) as database:
            try:
                yield SqliteMaintenance(database, self._path, self._unused_files)
            finally:
                ballast.make(tell)

    @asynccontextmanager
    async def reports(self) -> "AsyncIterator[Reports]":
        """Open for reading."""
        from receiver.stores.sqlite.reports import SqliteReports

        await asyncio.to_thread(prepare, self._path, create=False)
        living = LivingWorkers(self._path, asks=True)
        try:
            async with Database(self._path, setup=_ANY + _READS + _READABLE, read_only=True) as database:
                await database.call(require_marks)
                yield SqliteReports(database, self._path, living)
        finally:
            living.close()

    @asynccontextmanager
    async def _writer(
        self, setup: str, *, create: bool, make_room: Callable[[], bool] = lambda: False
    ) -> AsyncIterator[Database]:
        await asyncio.to_thread(prepare, self._path, create=create, patience=self._patience)
        setup = _ANY + _WRITES + setup + _READABLE
        after_commit = self._checkpointer.after_commit
        database = Database(
            self._path, setup=setup, patience=self._patience, after_commit=after_commit, make_room=make_room
        )
        async with database, self._checkpointer.used():
            await database.call(require_marks)
            yield database
