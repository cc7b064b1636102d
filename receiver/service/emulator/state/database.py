"""One SQLite connection in a thread of its own. Each part of the emulator brings its own tables."""

import asyncio
import sqlite3
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

T = TypeVar("T")

_APPLICATION_ID = 0x656D7531
"""Says that a database is an emulator's: https://www.sqlite.org/pragma.html#pragma_application_id."""
CACHE_KIB = 64 * 1024
"""Memory for pages of a file that were read; a large search index needs it."""
_LOCK_SECONDS = 1.0
"""How long to wait for an emulator that is just ending."""


class ForeignDatabase(sqlite3.DatabaseError):
    """The file is the database of another program."""


class StateDatabase:
    """The emulator's database: a file, or memory if `file` is None.

    A transaction survives the end of the process, not a power cut: WAL with synchronous=NORMAL
    (https://www.sqlite.org/pragma.html#pragma_synchronous). One emulator has the file for itself: for a second one
    it is locked. Entering raises ForeignDatabase for a file that another program made, which stays as it is.
    """

    def __init__(self, file: Path | None, schemas: Iterable[str]) -> None:
        self._file = file
        self._schemas = tuple(schemas)
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="emulator-state")

    async def __aenter__(self) -> Self:
        self._connection = await self._in_thread(self._open)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._in_thread(self._connection.close)
        self._thread.shutdown()

    async def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Call `work` in a transaction, which is committed if it returns and rolled back if it raises.

        Once begun it runs to its end, also if the caller is cancelled.
        """

        def transaction() -> T:
            with self._connection:
                self._connection.execute("BEGIN IMMEDIATE")
                return work(self._connection)

        return await self._in_thread(transaction)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def _open(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._file or ":memory:", timeout=_LOCK_SECONDS, isolation_level=None)
        try:
            connection.row_factory = sqlite3.Row
            # Two emulators would run the same jobs, and send the same webhooks.
            connection.execute("PRAGMA locking_mode = EXCLUSIVE")
            _require_own(connection)
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
            connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
            for schema in self._schemas:
                connection.executescript(schema)
        except BaseException:
            connection.close()
            raise
        return connection


def _require_own(connection: sqlite3.Connection) -> None:
    # A reset empties every table.
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    (made_by,) = connection.execute("PRAGMA application_id").fetchone()
    if tables and made_by != _APPLICATION_ID:
        raise ForeignDatabase("it is the database of another program")
