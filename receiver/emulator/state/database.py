"""The state of the emulator: one SQLite database in a thread of its own. Each part brings its own tables."""

import asyncio
import sqlite3
import zlib
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from receiver.emulator.clock import EmulatorClock
from receiver.emulator.failures import CallRefused
from receiver.runtime.log_lines import event_log

log = event_log(__name__)

T = TypeVar("T")

SCHEMA = """
CREATE TABLE IF NOT EXISTS clock_ahead (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    micros INTEGER NOT NULL
) STRICT;
"""

_MICROSECOND = timedelta(microseconds=1)
_LEAST = 1_000
"""Microseconds. Two readings of a clock always differ a little; less than this is not worth a write."""
_APPLICATION_ID = 0x656D7531
"""Says that a database is an emulator's: https://www.sqlite.org/pragma.html#pragma_application_id."""
CACHE_KIB = 64 * 1024
"""Memory for pages of a file that were read; a large search index needs it."""
_LOCK_SECONDS = 1.0
"""How long to wait for an emulator that is just ending."""
_UNWRITABLE = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY})
"""Primary result codes (https://www.sqlite.org/rescode.html) of a disk that takes nothing."""
_WAY_OUT = "Make room on its disk: the emulator then continues by itself, with all that it has kept"
_PAUSE_SECONDS = 1.0


class StateUnwritable(CallRefused):
    """The state cannot be written, for example because the disk is full. The transaction is rolled back.

    Its text names the file and the way out. As the answer to a call it has the status of a fault of the server.
    """

    def __init__(self, file: str, reason: str) -> None:
        text = f"The emulator cannot write its state ({file}): {reason}. {_WAY_OUT}"
        super().__init__(500, text, code="UNKNOWN_ERROR")


class ForeignDatabase(sqlite3.DatabaseError):
    """The file is the database of another program."""


class StateDatabase:
    """The emulator's database: a file, or memory if `file` is None.

    A transaction survives the end of the process, not a power cut: WAL with synchronous=NORMAL
    (https://www.sqlite.org/pragma.html#pragma_synchronous). While an emulator has the file open, it is locked for
    others. Entering raises ForeignDatabase for a file that another program made, and leaves it unchanged.
    """

    def __init__(self, file: Path | None, schemas: Iterable[str]) -> None:
        self.before_commit: Callable[[sqlite3.Connection], None] | None = None
        """Called at the end of each transaction that has changed something, as a part of it."""
        self.pause = _PAUSE_SECONDS
        """Real seconds between two tries of a patient transaction."""
        self.patient = PatientState(self)
        self._is_unwritable = False
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

        Once begun it runs to its end, also if the caller is cancelled. StateUnwritable says that the disk takes
        nothing: that is an answer for a call of the API. Work that has begun uses `patient`.
        """

        def transaction() -> tuple[T, bool]:
            with self._connection:
                self._connection.execute("BEGIN IMMEDIATE")
                before = self._connection.total_changes
                result = work(self._connection)
                has_written = self._connection.total_changes != before
                if self.before_commit is not None and has_written:
                    self.before_commit(self._connection)
                return result, has_written

        try:
            result, has_written = await self._in_thread(transaction)
        except sqlite3.OperationalError as exc:
            if exc.sqlite_errorcode & 0xFF not in _UNWRITABLE:
                raise
            raise self._unwritable(str(exc)) from exc
        if has_written and self._is_unwritable:
            self._is_unwritable = False
            log.info("emulator_state_writable", extra={"file": self._place})
        return result

    @property
    def _place(self) -> str:
        return "memory" if self._file is None else str(self._file.absolute())

    def _unwritable(self, reason: str) -> StateUnwritable:
        if not self._is_unwritable:  # once, not for each of the calls and pages that meet it
            self._is_unwritable = True
            fields = {"file": self._place, "reason": reason, "advice": _WAY_OUT}
            log.error("emulator_state_unwritable", extra=fields)
        return StateUnwritable(self._place, reason)

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


class PatientState:
    """The state for work that has begun: while the disk takes nothing, it waits, and nothing of it fails."""

    def __init__(self, database: StateDatabase) -> None:
        self._database = database

    async def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Call `work` in a transaction of the database, again if the state could not be written."""
        return await self.until_written(lambda: self._database.run(work))

    async def until_written(self, call: Callable[[], Awaitable[T]]) -> T:
        """Return what `call` returns. It is called again, after a pause, as long as it raises StateUnwritable."""
        while True:
            try:
                return await call()
            except StateUnwritable:
                await asyncio.sleep(self._database.pause)


def _require_own(connection: sqlite3.Connection) -> None:
    # A reset empties every table.
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    (made_by,) = connection.execute("PRAGMA application_id").fetchone()
    if tables and made_by != _APPLICATION_ID:
        raise ForeignDatabase("it is the database of another program")


def pack(content: bytes) -> bytes:
    """Return bytes as they are kept: a state without a file is in memory, so they are compressed."""
    return zlib.compress(content, level=1)


def unpack(packed: bytes) -> bytes:
    """Return the bytes that `pack` was given."""
    return zlib.decompress(packed)


class KeptTime:
    """Keeps how far a clock is ahead of the real one, in the transactions that write what happened at its time.

    Then no time in a state lies ahead of the clock of the emulator that opens it next, whatever ended the last one.
    """

    def __init__(self, clock: EmulatorClock) -> None:
        self._clock = clock

    def restore(self, connection: sqlite3.Connection) -> None:
        """Move the clock forward to where it stood. It never moves back."""
        row = connection.execute("SELECT micros FROM clock_ahead").fetchone()
        if row is not None:
            self._clock.be_ahead(timedelta(microseconds=row[0]))

    def keep(self, connection: sqlite3.Connection) -> None:
        """Note how far the clock is ahead, if it is further ahead than was noted."""
        micros = self._clock.ahead // _MICROSECOND
        if micros >= _LEAST:
            connection.execute(
                "INSERT INTO clock_ahead (id, micros) VALUES (1, ?) ON CONFLICT (id)"
                " DO UPDATE SET micros = excluded.micros WHERE excluded.micros >= micros + ?",
                (micros, _LEAST),
            )
