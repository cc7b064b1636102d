"""A connection to a SQLite file: its thread, its transactions, and its errors in our own words."""

import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Self, TypeVar
from urllib.parse import quote

from receiver.errors import StoreError, StoreRefused
from receiver.stores.sql.connection import ConnectionThread, NoNumber
from receiver.stores.sqlite import bodies, delivery_keys
from receiver.stores.sqlite.system_files import OPENED

T = TypeVar("T")

LOCK_PATIENCE = timedelta(seconds=5)
"""How long a transaction waits for another process that holds the write lock."""
_SHORT_WAIT, _LONG_WAIT = 0.0003, 0.005
_SHORT_WAITS = 0.25
"""Seconds of short waits. No transaction of ours takes longer, unless no processor is free for it, so after them
another program holds the lock."""

DAMAGED_STORE = "`receiver restore` puts a backup in its place"
NOT_A_DATABASE = "it is not a SQLite database"
_WORDS = {
    sqlite3.SQLITE_BUSY: "it is locked by another process",
    sqlite3.SQLITE_LOCKED: "it is locked by another process",
    sqlite3.SQLITE_FULL: "the disk is full",
    sqlite3.SQLITE_IOERR: "reading or writing the file failed",
    sqlite3.SQLITE_READONLY: "it is read-only for this user",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened; check that its folder exists and that this user may write there",
    sqlite3.SQLITE_PERM: "permission denied",
    sqlite3.SQLITE_NOTADB: NOT_A_DATABASE,
    sqlite3.SQLITE_CORRUPT: "it is damaged",
    sqlite3.SQLITE_TOOBIG: "a value is longer than SQLite allows",
}
_HOPELESS = {sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT}


class Database:
    """A connection with its own thread, which runs a whole transaction there in one hop.

    It is open inside `async with`. `after_commit` is called in the thread after each transaction. `make_room` is
    called when the disk is full; if it returns True, the same work is tried once more.
    """

    def __init__(
        self,
        path: Path,
        *,
        setup: str = "",
        read_only: bool = False,
        patience: timedelta = LOCK_PATIENCE,
        after_commit: Callable[[sqlite3.Connection], None] | None = None,
        make_room: Callable[[], bool] = lambda: False,
    ) -> None:
        self._path = path
        self._setup = setup
        self._read_only = read_only
        self._patience = patience
        self._after_commit = after_commit
        self._make_room = make_room
        self._thread: ConnectionThread | None = None
        self._connection: sqlite3.Connection | None = None

    async def __aenter__(self) -> Self:
        self._thread = ConnectionThread(f"store {self._path.name}")
        try:
            with translated(self._path):
                await self._with_room(self._thread, self._connect)
        except BaseException:
            self._thread.call(self._disconnect)
            self._thread.stop()
            raise
        return self

    async def __aexit__(self, *exc: object) -> None:
        thread, self._thread = self._thread, None
        if thread is None:
            return
        closed = thread.call(self._disconnect)
        thread.stop()
        await closed
        thread.join()

    def _connect(self) -> None:
        OPENED.add(self._path)
        try:
            self._connection = _connect(self._path, self._setup, read_only=self._read_only)
        except BaseException:
            OPENED.remove(self._path)
            raise

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
            OPENED.remove(self._path)

    async def call(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run a function of the raw connection in the thread and return its result.

        The function runs to its end when the waiting task is cancelled. Errors of SQLite come as StoreError.
        """
        if self._thread is None or self._connection is None:
            raise StoreError(f"the database {self._path} is closed")
        with translated(self._path):
            return await self._with_room(self._thread, partial(work, self._connection))

    async def _with_room(self, thread: ConnectionThread, work: Callable[[], T]) -> T:
        try:
            return await thread.call(work)
        except sqlite3.Error as exc:
            if not _is_full(exc) or not self._make_room():
                raise
        return await thread.call(work)

    @contextmanager
    def transaction(self, connection: sqlite3.Connection) -> Iterator[None]:
        """Hold the write lock for a block in the thread; commit at its end, or undo all of it."""
        with transaction(connection, self._patience):
            yield
        if self._after_commit is not None:
            self._after_commit(connection)

    @contextmanager
    def synced(self, connection: sqlite3.Connection) -> Iterator[None]:
        """Run a block as `transaction` does; what it commits outlives a power cut."""
        (before,) = connection.execute("PRAGMA synchronous").fetchone()
        connection.execute("PRAGMA synchronous = FULL")
        try:
            with self.transaction(connection):
                yield
        finally:
            connection.execute(f"PRAGMA synchronous = {before}")


def _is_full(error: sqlite3.Error) -> bool:
    """Return whether the disk is full. SQLite has another code for it where it makes the index of the log."""
    return getattr(error, "sqlite_errorcode", 0) in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_SHMSIZE)


def _connect(path: Path, setup: str, *, read_only: bool) -> sqlite3.Connection:
    connection = sqlite3.connect(
        file_uri(path, "ro" if read_only else "rw"), uri=True, isolation_level=None, cached_statements=256
    )
    try:
        delivery_keys.add_functions(connection)
        bodies.add_functions(connection, path)
        connection.executescript(setup)
        if not read_only and not os.access(path, os.W_OK):
            raise StoreRefused(f"the database {path} is read-only for this user")
    except BaseException:
        connection.close()
        raise
    return connection


def file_uri(path: Path, mode: str) -> str:
    """Return the address by which SQLite opens the file, with `ro` or `rw` as the mode."""
    return f"file:{quote(str(path))}?mode={mode}"


@contextmanager
def transaction(connection: sqlite3.Connection, patience: timedelta) -> Iterator[None]:
    """Hold the write lock for a block; commit at its end, or undo all of it."""
    _begin(connection, patience)
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            with suppress(sqlite3.Error):  # the first error is the cause
                connection.execute("ROLLBACK")
        raise


def _begin(connection: sqlite3.Connection, patience: timedelta) -> None:
    """Take the write lock, asking for it at short intervals.

    SQLite's own waiting sleeps for up to 100 ms (busy_timeout). A web process under load takes the lock again
    within that time, so a worker would hardly ever get it. The connection's busy_timeout has to be 0.
    """
    began = time.monotonic()
    while True:
        try:
            connection.execute("BEGIN IMMEDIATE")
            return
        except sqlite3.OperationalError as exc:
            waited = time.monotonic() - began
            if not is_busy(exc) or waited > patience.total_seconds():
                raise
        time.sleep(_SHORT_WAIT if waited < _SHORT_WAITS else _LONG_WAIT)


def is_busy(error: sqlite3.OperationalError) -> bool:
    """Return whether another connection has a lock that is needed."""
    return error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY


@contextmanager
def translated(path: Path, *, if_damaged: str = DAMAGED_STORE) -> Iterator[None]:
    """Turn SQLite's errors into StoreError, or StoreRefused where waiting cannot help.

    `if_damaged` says what to do about a damaged file.
    """
    try:
        yield
    except sqlite3.Error as exc:
        code = getattr(exc, "sqlite_errorcode", 0) & 0xFF  # the low byte is the primary code
        reason = _WORDS[sqlite3.SQLITE_FULL] if _is_full(exc) else _WORDS.get(code, str(exc))
        words = f"the database {path} cannot be used: {reason}"
        if code == sqlite3.SQLITE_CORRUPT:
            words += f"; {if_damaged}"
        raise (StoreRefused(words) if code in _HOPELESS else StoreError(words)) from exc
    except NoNumber as exc:
        damaged = _WORDS[sqlite3.SQLITE_CORRUPT]
        raise StoreRefused(f"the database {path} cannot be used: {damaged}; {if_damaged}") from exc


def data_version(connection: sqlite3.Connection) -> int:
    """Return a number that changes when another connection commits (SQLite manual, PRAGMA data_version)."""
    (version,) = connection.execute("PRAGMA data_version").fetchone()
    return int(version)


def file_at(path: Path) -> os.stat_result | None:
    """Return what identifies the file that the path leads to now, None without one."""
    try:
        return path.stat()
    except OSError:
        return None


def same_file(path: Path, opened_as: os.stat_result | None) -> bool:
    """Return whether the path still leads to the file that was opened."""
    now = file_at(path)
    return now is not None and opened_as is not None and os.path.samestat(now, opened_as)
