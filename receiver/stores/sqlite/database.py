"""A SQLite file and its connections: opening, migrating, transactions, and errors in our own words."""

import asyncio
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from datetime import timedelta
from importlib import resources
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

import aiosqlite

from receiver.errors import ConfigurationError, NoSearchIndex, StoreError, StoreRefused

T = TypeVar("T")

APPLICATION_ID = 0x43525631
"""Marks the file as ours (SQLite manual, PRAGMA application_id): the letters CRV1."""
_OLDEST_SQLITE = (3, 35, 0)
"""The first with RETURNING; UPDATE FROM, upserts and partial indexes are older."""

LOCK_PATIENCE = timedelta(seconds=5)
"""How long a transaction waits for another process that holds the write lock."""
_SHORT_WAIT, _LONG_WAIT = 0.0003, 0.005
_SHORT_WAITS = 0.25
"""Seconds of short waits: no transaction of ours takes that long, so after them it is somebody else's."""

_WORDS = {
    sqlite3.SQLITE_BUSY: "it is locked by another process",
    sqlite3.SQLITE_LOCKED: "it is locked by another process",
    sqlite3.SQLITE_FULL: "the disk is full",
    sqlite3.SQLITE_IOERR: "reading or writing the file failed",
    sqlite3.SQLITE_READONLY: "it is read-only for this user",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened; do the folder and the permissions fit?",
    sqlite3.SQLITE_PERM: "permission denied",
    sqlite3.SQLITE_NOTADB: "it is not a SQLite database",
    sqlite3.SQLITE_CORRUPT: "it is damaged",
    sqlite3.SQLITE_TOOBIG: "a value is longer than SQLite allows",
}
_HOPELESS = {sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT}


class Database(aiosqlite.Connection):
    """A connection with its own thread, which runs whole transactions there in one hop."""

    def __init__(
        self, path: Path, *, setup: str, read_only: bool = False, patience: timedelta = LOCK_PATIENCE
    ) -> None:
        super().__init__(lambda: _connect(path, setup, read_only=read_only), iter_chunk_size=64)
        self._path = path
        self._patience = patience

    async def call(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run a function of the raw connection in the thread and return its result.

        It is not undone when the waiting task is cancelled. Errors of SQLite come as StoreError.
        """
        with translated(self._path):
            # The hop to the thread costs more than most statements, and only this method of the base
            # class makes one hop of several statements.
            result: T = await self._execute(work, self._conn)  # type: ignore[no-untyped-call]
            return result

    @contextmanager
    def transaction(self, connection: sqlite3.Connection) -> Iterator[None]:
        """Hold the write lock for a block in the thread; commit at its end, or undo all of it."""
        with transaction(connection, self._patience):
            yield


async def opened(database: Database) -> Database:
    """Open the connection; its thread ends if that fails."""
    with translated(database._path):
        try:
            await database
        except BaseException:
            # The library tells its thread to end and does not wait: it could outlive the event loop.
            await asyncio.to_thread(database._thread.join)
            raise
        return database


def database_path(url: str) -> Path:
    """Return the file of a `sqlite:///FILE` address; a fourth slash makes the path absolute."""
    path = url.removeprefix("sqlite:///")
    if path == url or not path or path == ":memory:":
        raise ConfigurationError(f"{url!r} names no database file; write sqlite:///receiver.db")
    return Path(path)


def exists(path: Path) -> bool:
    """Tell whether there is a file; raises StoreRefused if there is none and its folder takes none."""
    try:
        if path.exists():
            return True
    except OSError as exc:
        raise StoreRefused(f"cannot reach the database {path}: {exc.strerror}") from None
    if not path.parent.is_dir():
        raise StoreRefused(f"cannot create the database {path}: there is no folder {path.parent}")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise StoreRefused(f"cannot create the database {path}: the folder {path.parent} cannot be written")
    return False


def prepare(path: Path, *, create: bool) -> None:
    """Make the file ready for this version: create it if asked, or migrate it, or refuse it untouched."""
    if sqlite3.sqlite_version_info < _OLDEST_SQLITE:
        raise ConfigurationError(f"SQLite {sqlite3.sqlite_version} is too old; this program needs 3.35 or later")
    migrations = _migrations()
    with translated(path):
        if not exists(path):
            if not create:
                raise StoreError(f"there is no database at {path}; `receiver serve` creates it")
            _create(path, migrations)
        elif _checked_version(path, newest=len(migrations)) < len(migrations):
            _migrate(path, migrations)


def _create(path: Path, migrations: list[str]) -> None:
    """Create the file, readable for its owner only as bodies can be confidential; all of it or nothing.

    It is made under another name and then linked to its own, so that no other process sees half a database, and
    of two that create it at one time the second takes the first one's.
    """
    unfinished = path.with_name(f".{path.name}-{os.getpid()}-{threading.get_ident()}")
    try:
        os.close(os.open(unfinished, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        _migrate(unfinished, migrations)
        _link(unfinished, path)
    except OSError as exc:
        raise StoreRefused(f"cannot create the database {path}: {exc.strerror}") from exc
    finally:
        for leftover in ("", "-wal", "-shm"):
            with suppress(OSError):
                Path(f"{unfinished}{leftover}").unlink()


def _link(made: Path, path: Path) -> None:
    """Give the file its name, unless another process was first."""
    try:
        os.link(made, path)
    except FileExistsError:
        return
    except OSError:  # a file system without hard links
        if not path.exists():
            made.rename(path)


def _checked_version(path: Path, *, newest: int) -> int:
    """Return the schema's version, or refuse a file that is not ours to change."""
    version, application, schema = _identity(path)
    if schema and application != APPLICATION_ID:
        raise StoreRefused(f"{path} is a database of another program; choose another file in RECEIVER_STORE")
    if version > newest:
        raise StoreRefused(
            f"{path} was written by a newer version of this program (schema {version}, this one knows {newest}); "
            "install that version again. Nothing was changed"
        )
    return version


def _identity(path: Path) -> tuple[int, int, int]:
    """Return user version, application id, and a number that is 0 only while the file has no tables."""
    if path.is_dir():
        raise StoreRefused(f"{path} is a folder; RECEIVER_STORE takes a file")
    if Path(f"{path}-wal").exists():
        with closing(sqlite3.connect(_uri(path, "ro"), uri=True)) as connection:
            pragmas = ("user_version", "application_id", "schema_version")
            found = [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in pragmas]
            return found[0], found[1], found[2]
    # Without a log beside it the file says it all, and opening it would make one (SQLite file format, section 1.3).
    try:
        with path.open("rb") as file:
            header = file.read(100)
    except OSError as exc:
        raise StoreRefused(f"cannot read the database {path}: {exc.strerror}") from exc
    if header and not (len(header) == 100 and header.startswith(b"SQLite format 3\0")):
        raise StoreRefused(f"the database {path}: {_WORDS[sqlite3.SQLITE_NOTADB]}")
    version, application, schema = (int.from_bytes(header[at : at + 4]) for at in (60, 68, 40))
    return version, application, schema


def _migrations() -> list[str]:
    folder = resources.files("receiver.stores.sqlite") / "migrations"
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".sql"))
    return [(folder / name).read_text(encoding="utf-8") for name in names]


def _migrate(path: Path, migrations: list[str]) -> None:
    """Apply what is missing, each migration in a transaction of its own."""
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        connection.execute("PRAGMA page_size = 8192")  # three bodies of 2 KB to a page, where 4,096 takes one
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")  # new files only; it has to come after the page size
        connection.execute("PRAGMA journal_mode = WAL")
        for version, script in enumerate(migrations, start=1):
            with transaction(connection, LOCK_PATIENCE):
                # Asked again under the lock: another process may be migrating too.
                (present,) = connection.execute("PRAGMA user_version").fetchone()
                if present >= version:
                    continue
                for statement in _statements(script):
                    connection.execute(statement)
                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                connection.execute(f"PRAGMA user_version = {version}")
    finally:
        connection.close()


def _statements(script: str) -> Iterator[str]:
    """Split a script; `executescript` would commit on its own."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


def _connect(path: Path, setup: str, *, read_only: bool) -> sqlite3.Connection:
    connection = sqlite3.connect(
        _uri(path, "ro" if read_only else "rw"), uri=True, isolation_level=None, cached_statements=256
    )
    try:
        connection.executescript(setup)
        if not read_only and not os.access(path, os.W_OK):
            raise StoreRefused(f"the database {path} is read-only for this user")
    except BaseException:
        connection.close()
        raise
    return connection


def _uri(path: Path, mode: str) -> str:
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
            with suppress(sqlite3.Error):  # the first error is the one to tell
                connection.execute("ROLLBACK")
        raise


def _begin(connection: sqlite3.Connection, patience: timedelta) -> None:
    """Take the write lock, asking for it at short intervals.

    SQLite's own waiting backs off to sleeps of 100 ms (busy_timeout), and a web process under load takes the
    lock again within one: a worker would hardly ever get it. The connection's busy_timeout has to be 0.
    """
    began = time.monotonic()
    while True:
        try:
            connection.execute("BEGIN IMMEDIATE")
            return
        except sqlite3.OperationalError as exc:
            waited = time.monotonic() - began
            if exc.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or waited > patience.total_seconds():
                raise
        time.sleep(_SHORT_WAIT if waited < _SHORT_WAITS else _LONG_WAIT)


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Turn SQLite's errors into StoreError, or StoreRefused where waiting cannot help."""
    try:
        yield
    except sqlite3.Error as exc:
        if str(exc) == "no such table: words":
            raise NoSearchIndex from exc
        if str(exc).startswith("no such module:"):
            raise ConfigurationError(
                f"the SQLite of this Python ({sqlite3.sqlite_version}) has no full text search (FTS5): use another "
                "Python, or leave RECEIVER_SEARCH off"
            ) from exc
        code = getattr(exc, "sqlite_errorcode", 0) & 0xFF  # the low byte is the primary code
        words = f"the database {path}: {_WORDS.get(code, str(exc))}"
        raise (StoreRefused(words) if code in _HOPELESS else StoreError(words)) from exc
    except ValueError as exc:
        if "no active connection" in str(exc) or "Connection closed" in str(exc):
            raise StoreError(f"the database {path} is closed") from exc
        raise


def data_version(connection: sqlite3.Connection) -> int:
    """Return a number that is another one once another connection has committed (SQLite manual, data_version)."""
    (version,) = connection.execute("PRAGMA data_version").fetchone()
    return int(version)


def same_file(connection: sqlite3.Connection, path: Path, opened_as: os.stat_result) -> bool:
    """Tell whether the path still leads to the file that was opened."""
    try:
        now = path.stat()
    except OSError:
        return False
    return (now.st_ino, now.st_dev) == (opened_as.st_ino, opened_as.st_dev)
