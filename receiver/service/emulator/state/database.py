"""One SQLite connection in a thread of its own. Each part of the emulator brings its own tables."""

import asyncio
import sqlite3
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

T = TypeVar("T")


class StateDatabase:
    """The emulator's database: a file, or memory if `file` is None.

    A transaction survives the end of the process, not a power cut: WAL with synchronous=NORMAL
    (https://www.sqlite.org/pragma.html#pragma_synchronous).
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
        """ApiCall `work` in a transaction, which is committed if it returns and rolled back if it raises.

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
        connection = sqlite3.connect(self._file or ":memory:", isolation_level=None)
        connection.row_factory = sqlite3.Row
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        for schema in self._schemas:
            connection.executescript(schema)
        return connection
