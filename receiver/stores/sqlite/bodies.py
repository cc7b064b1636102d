"""Long bodies of new deliveries, in files beside the database until they are moved into it.

SQLite writes each page twice: into its log, and later into the database. A body in a file of its own kind is
written once, so that half as many deliveries again of 50 KB are acknowledged. Maintenance moves the bodies into the
database when it compresses them, and removes files that hold none any more.
"""

import os
import re
import sqlite3
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from receiver.errors import StoreError
from receiver.stores.sql.columns_of_bodies import MIN_BYTES
from receiver.stores.sql.connection import number
from receiver.stores.sqlite import statements
from receiver.stores.sqlite.system_files import sync, sync_file, sync_folder
from receiver.stores.sqlite.write_ahead_log import log_path

_LONGEST = 500_000_000
"""Longer bodies are left to SQLite, which refuses what it could not read again (SQLite manual, Limits)."""
_NAME = struct.Struct(">II")
"""The number of the database, and that of the file."""
_RANGE = struct.Struct(">QQ")
"""Offset and length. A place is a name and a range."""


def add_functions(connection: sqlite3.Connection, database: Path) -> None:
    """Let the statements of a connection read the files of a database."""
    # SQLite puts its log beside the file itself too, and handlers may change the folder.
    resolved = database.resolve()
    connection.create_function("body_beside", 1, lambda place: body_at(resolved, place))


def body_at(database: Path, place: bytes) -> bytes | str:
    """Return the body at a place, or a text that says why it cannot be read, and what to do."""
    path = path_of(database, place[: _NAME.size])
    try:
        with path.open("rb", buffering=0) as file:
            return _read(file.fileno(), path, place)
    except OSError as exc:
        return _unreadable(path, exc.strerror)


def is_long(body: bytes) -> bool:
    """Return whether a body belongs into a file."""
    return MIN_BYTES <= len(body) <= _LONGEST


def body_files(database: Path) -> Sequence[Path]:
    """Return the files of bodies beside a database, also those of another one that had this name.

    There are none in a folder that this user cannot list.
    """
    resolved = database.resolve()
    pattern = re.compile(re.escape(_prefix(resolved)) + "[0-9a-f]{16}")
    try:
        return sorted(one for one in resolved.parent.iterdir() if pattern.fullmatch(one.name) and one.is_file())
    except OSError:
        return ()


@contextmanager
def opened_files(database: Path) -> Iterator[Callable[[bytes], bytes | str]]:
    """Read bodies by their places for as long as the block lasts, also from files that others remove meanwhile.

    Raises StoreError if there are more files than a process may have open.
    """
    resolved = database.resolve()
    with ExitStack() as stack:
        opened: dict[Path, int] = {}
        for path in body_files(resolved):
            with suppress(FileNotFoundError):  # removed meanwhile, because nothing was in it
                opened[path] = _opened(path)
                stack.callback(os.close, opened[path])

        def body_of(place: bytes) -> bytes | str:
            path = path_of(resolved, place[: _NAME.size])
            return _read(opened[path], path, place) if path in opened else body_at(resolved, place)

        yield body_of


def _opened(path: Path) -> int:
    try:
        return os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        raise
    except OSError as exc:
        raise StoreError(f"cannot read {path}: {exc.strerror}") from exc


def missing_files(connection: sqlite3.Connection, database: Path) -> Sequence[Path]:
    """Return the files that are missing although bodies are in them."""
    resolved = database.resolve()
    paths = [path_of(resolved, name) for (name,) in connection.execute(statements.NAMES)]
    return [path for path in paths if not path.exists()]


def files_of(connection: sqlite3.Connection, database: Path) -> Sequence[Path]:
    """Return the files of this very database."""
    store = number(connection, statements.STORE, {})
    return [path for path in body_files(database) if is_of(path, store)]


def is_of(path: Path, store: int) -> bool:
    """Return whether a file belongs to the database with this number."""
    ours, _ = _NAME.unpack(name_of(path))
    return bool(ours == store)


def new_name(store: int) -> bytes:
    """Return a name for a file of the database with this number, as no other file has it."""
    return _NAME.pack(store, int.from_bytes(os.urandom(4)))


def name_of(path: Path) -> bytes:
    """Return the name of a file."""
    return bytes.fromhex(path.name[-2 * _NAME.size :])


def _prefix(database: Path) -> str:
    return f"{database.name}-bodies-"


def place_of(name: bytes, offset: int, length: int) -> bytes:
    """Return the place of so many bytes of a file. All later places in the file are greater."""
    return name + _RANGE.pack(offset, length)


def path_of(database: Path, name: bytes) -> Path:
    """Return the file with this name."""
    return database.with_name(_prefix(database) + name.hex())


def _read(descriptor: int, path: Path, place: bytes) -> bytes | str:
    offset, length = _RANGE.unpack(place[_NAME.size :])
    body = os.pread(descriptor, length, offset)
    return body if len(body) == length else _unreadable(path, "the file is too short")


def _unreadable(path: Path, reason: str | None) -> str:
    return f"{path}: {reason}; put the file back, or import the delivery from an export"


MAX_FILE_BYTES = 32 * 1024 * 1024
"""A file that has reached this gets no more bodies: the room that moved bodies leave is free when the file goes."""


def body_writer(database: Path) -> "BodyWriter | None":
    """Return a writer for a database, None in a folder that this user cannot read: names there cannot be synced."""
    resolved = database.resolve()
    return BodyWriter(resolved) if os.access(resolved.parent, os.R_OK) else None


class BodyWriter:
    """Writes bodies within transactions, into one file after the other. Other processes have files of their own.

    After a transaction, call `keep`, or `give_up` if it failed.
    """

    def __init__(self, database: Path) -> None:
        self._database = database
        self._file: _OpenFile | None = None

    def write(self, connection: sqlite3.Connection, bodies: Sequence[bytes]) -> Sequence[bytes]:
        """Write bodies, sync them, and return their places. While the transaction is open, the file is not removed.

        Raises StoreError if they cannot be written.
        """
        try:
            return self._usable(connection).write(bodies)
        except OSError as exc:
            raise StoreError(f"no files can be written beside {self._database}: {exc.strerror}") from exc

    def probe(self, connection: sqlite3.Connection, size: int) -> None:
        """Write so many bytes and give back their room, inside a transaction. Raises StoreError if that fails."""
        self.write(connection, [bytes(size)])
        self._cut()

    def keep(self) -> None:
        """Keep what was written. After a transaction without long bodies, give up a file that was removed."""
        if self._file is None:
            return
        if self._file.written != self._file.end:
            self._file.end = self._file.written
            return
        with suppress(OSError):  # the next long body shows it
            if not self._file.is_in_place():
                self.close()  # an open file keeps its room on the disk

    def give_up(self, connection: sqlite3.Connection, error: BaseException) -> None:
        """Give back the room of what was written, unless the transaction is committed or may come back.

        It may where reading or writing has failed: a commit whose sync failed can be found whole after a crash.
        The file gets no more bodies: after a failed sync, a later one may succeed although something was lost
        (fsync(2)).
        """
        if self._file is None or self._file.written == self._file.end:
            return
        place = {"place": self._file.place_of_end()}
        with suppress(sqlite3.Error, OSError):  # the error at hand says more about such a database or disk
            if not (_may_come_back(error) or connection.execute(statements.IS_USED_FROM, place).fetchone()[0]):
                self._file.cut()
        self.close()

    def _cut(self) -> None:
        if self._file is not None:
            self._file.cut()
            self.close()

    def close(self) -> None:
        """Close the file. The next body begins another one."""
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def _usable(self, connection: sqlite3.Connection) -> "_OpenFile":
        if self._file is not None and (self._file.end >= MAX_FILE_BYTES or not self._file.is_in_place()):
            self.close()
        if self._file is None:
            self._file = _OpenFile(self._database, number(connection, statements.STORE, {}))
        return self._file


def _may_come_back(error: BaseException) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_IOERR


class _OpenFile:
    """A new file, to which only this process appends."""

    def __init__(self, database: Path, store: int) -> None:
        self._name = new_name(store)
        self._path = path_of(database, self._name)
        self._descriptor = os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        self.end = self.written = 0
        try:
            _share_like(database.stat(), self._descriptor)
            sync_folder(database.parent)
        except BaseException:
            with suppress(OSError):  # the first error is the cause
                self.cut()
            self.close()
            raise

    def is_in_place(self) -> bool:
        """Return whether the file still has its name: what is written cannot be found otherwise."""
        try:
            return os.path.samestat(self._path.stat(), os.fstat(self._descriptor))
        except FileNotFoundError:
            return False

    def write(self, bodies: Sequence[bytes]) -> Sequence[bytes]:
        """Append bodies and sync them; return their places."""
        places = []
        start = self.written
        self.written += sum(map(len, bodies))
        for body in bodies:
            places.append(place_of(self._name, start, len(body)))
            rest = memoryview(body)
            while rest:
                count = os.pwrite(self._descriptor, rest, start)
                rest, start = rest[count:], start + count
        sync(self._descriptor)
        return places

    def place_of_end(self) -> bytes:
        """Return the first place that is not kept."""
        return place_of(self._name, self.end, 0)

    def cut(self) -> None:
        """Give back the room after the end, and the file if nothing is before it."""
        if self.end:
            os.ftruncate(self._descriptor, self.end)
        else:
            self._path.unlink(missing_ok=True)

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)


def _share_like(database: os.stat_result, descriptor: int) -> None:
    """Let those who may use the database use a file, where the system allows it: SQLite does so with its log."""
    os.fchmod(descriptor, database.st_mode & 0o666)
    with suppress(OSError):
        os.fchown(descriptor, database.st_uid, database.st_gid)


UNUSED_SECONDS = 60.0
"""How long nothing has to be in a file before it is removed: a process may still read what was in it before."""


class UnusedFiles:
    """Removes files that have held no body for some time. Each process sees for itself how long.

    A file that was used meanwhile has another size.
    """

    def __init__(self, database: Path, steady: Callable[[], float] = time.monotonic) -> None:
        self._database = database
        self._steady = steady
        self._unused_since: dict[tuple[Path, int], float] = {}

    def remove_one(self, connection: sqlite3.Connection, files: Sequence[Path], *, at_once: bool = False) -> int:
        """Remove one of these files, and return its size; 0 if none can go. A transaction has to be open.

        Under the write lock no process begins to use it meanwhile. `at_once` is for a disk that has little room: a
        reader who fails can read again.
        """
        store = number(connection, statements.STORE, {})
        unused: list[tuple[Path, int]] = []
        for path in files:
            if is_of(path, store) and not _is_used(connection, path):
                with suppress(FileNotFoundError):  # another process has removed it
                    unused.append((path, path.stat().st_size))
        now = self._steady()
        self._unused_since = {one: self._unused_since.get(one, now) for one in unused}
        for (path, size), since in self._unused_since.items():
            if at_once or now - since >= UNUSED_SECONDS:
                with suppress(OSError):  # of another user, who may also have removed it
                    return self._remove(path, size)
        return 0

    def _remove(self, path: Path, size: int) -> int:
        # The transactions after which nothing is in the file are not synced, and a power cut may undo them.
        sync_file(log_path(self._database))
        path.unlink()
        return max(size, 1)


def _is_used(connection: sqlite3.Connection, path: Path) -> bool:
    return bool(connection.execute(statements.IS_USED, (name_of(path),)).fetchone()[0])
