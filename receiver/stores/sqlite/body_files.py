"""Long bodies of new deliveries, in files beside the database until they are moved into it.

SQLite writes each page twice: into its log, and later into the database. A body in a file of its own kind is
written once, so that half as many deliveries again of 50 KB are acknowledged. Maintenance moves the bodies into the
database when it compresses them, and removes files that hold none any more.
"""

import os
import secrets
import sqlite3
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from receiver.errors import StoreError
from receiver.stores.sql.connection import number
from receiver.stores.sqlite.statements import body_files as statements
from receiver.stores.sqlite.synced import sync, sync_folder
from receiver.stores.sqlite.write_ahead_log import log_path

MAX_FILE_BYTES = 64 * 1024 * 1024
"""A file that has reached this gets no more bodies: the room that moved bodies leave is free when the file goes."""
_NAME = struct.Struct(">II")
"""The number of the database, and that of the file."""
_RANGE = struct.Struct(">QQ")
"""Offset and length. A place is a name and a range."""


def add_functions(connection: sqlite3.Connection, database: Path) -> None:
    """Let the statements of a connection read the files of a database."""
    resolved = (
        database.resolve()
    )  # SQLite puts its log beside the file itself too, and handlers may change the folder
    connection.create_function("body_beside", 1, lambda place: body_at(resolved, place))


def body_at(database: Path, place: bytes) -> bytes | str:
    """Return the body at a place, or a text that says why it cannot be read, and what to do."""
    path = _path(database, place[: _NAME.size])
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError as exc:
        return _unreadable(path, exc.strerror)
    try:
        return _read(descriptor, path, place)
    finally:
        os.close(descriptor)


def body_files(database: Path) -> Sequence[Path]:
    """Return the files of bodies that lie beside a database, also those of another one that had this name.

    There are none in a folder that this user cannot list.
    """
    resolved = database.resolve()
    prefix = _prefix(resolved)
    try:
        return sorted(one for one in resolved.parent.iterdir() if one.name.startswith(prefix))
    except OSError:
        return ()


class BodyWriter:
    """Writes bodies within transactions, into one file after the other. Other processes have files of their own."""

    def __init__(self, database: Path) -> None:
        self._database = database.resolve()
        self._file: _OpenFile | None = None

    def write(self, connection: sqlite3.Connection, bodies: Sequence[bytes]) -> Iterator[bytes]:
        """Write bodies, sync them, and return their places. While the transaction is open, nobody removes the file.

        Raises StoreError if they cannot be written.
        """
        if not bodies:
            return iter(())
        try:
            return iter(self._usable(connection).write(bodies))
        except OSError as exc:
            self.close()  # after a failed sync the next one may succeed although something was lost (fsync(2))
            raise StoreError(f"no files can be written beside {self._database}: {exc.strerror}") from exc

    def close(self) -> None:
        """Close the file. The next body begins another one."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _usable(self, connection: sqlite3.Connection) -> "_OpenFile":
        if self._file is not None and (self._file.end >= MAX_FILE_BYTES or not self._file.is_in_place()):
            self.close()
        if self._file is None:
            self._file = _OpenFile(self._database, number(connection, statements.STORE, {}))
        return self._file


class _OpenFile:
    """A new file, to which only this process appends."""

    def __init__(self, database: Path, store: int) -> None:
        self._name = _NAME.pack(store, secrets.randbits(32))
        self._path = _path(database, self._name)
        self._descriptor = os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        self.end = 0
        try:
            _share_like(database.stat(), self._descriptor)
            sync_folder(database.parent)
        except BaseException:
            self.close()
            raise

    def is_in_place(self) -> bool:
        """Tell whether the file still has its name: nobody finds what is written otherwise."""
        try:
            return os.path.samestat(self._path.stat(), os.fstat(self._descriptor))
        except FileNotFoundError:
            return False

    def write(self, bodies: Sequence[bytes]) -> Sequence[bytes]:
        """Append bodies and sync them; return their places."""
        places = []
        end = self.end
        for body in bodies:
            places.append(self._name + _RANGE.pack(end, len(body)))
            rest = memoryview(body)
            while rest:
                count = os.pwrite(self._descriptor, rest, end)
                rest, end = rest[count:], end + count
        sync(self._descriptor)
        self.end = end
        return places

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)


@contextmanager
def held_files(database: Path) -> Iterator[Callable[[bytes], bytes | str]]:
    """Read bodies by their places for as long as the block lasts, also from files that others remove meanwhile."""
    with ExitStack() as stack:
        held: dict[str, int] = {}
        for path in body_files(database):
            held[path.name] = os.open(path, os.O_RDONLY)
            stack.callback(os.close, held[path.name])

        def body(place: bytes) -> bytes | str:
            path = _path(database.resolve(), place[: _NAME.size])
            return _read(held[path.name], path, place) if path.name in held else body_at(database.resolve(), place)

        yield body


def remove_unused(connection: sqlite3.Connection, database: Path) -> int:
    """Remove a file that holds no body, and return its size; 0 if there is none. A transaction has to be open.

    With the write lock nobody begins to use it.
    """
    resolved = database.resolve()
    prefix = f"{_prefix(resolved)}{number(connection, statements.STORE, {}):08x}"
    for path in body_files(database):
        if not path.name.startswith(prefix) or _is_used(connection, path):
            continue
        size = path.stat().st_size
        # The transactions after which nothing is in the file are not synced, and a power cut may undo them.
        with log_path(resolved).open("rb") as log:
            sync(log.fileno())
        path.unlink()
        return max(size, 1)
    return 0


def _is_used(connection: sqlite3.Connection, path: Path) -> bool:
    try:
        name = bytes.fromhex(path.name[-2 * _NAME.size :])
    except ValueError:
        return True  # nothing of ours
    return bool(connection.execute(statements.IS_USED, (name,)).fetchone()[0])


def _prefix(database: Path) -> str:
    return f"{database.name}-bodies-"


def _path(database: Path, name: bytes) -> Path:
    return database.with_name(_prefix(database) + name.hex())


def _read(descriptor: int, path: Path, place: bytes) -> bytes | str:
    offset, length = _RANGE.unpack(place[_NAME.size :])
    body = os.pread(descriptor, length, offset)
    if len(body) == length or os.fstat(descriptor).st_size == 0:
        return body
    return _unreadable(path, "the file is too short")


def _unreadable(path: Path, reason: str | None) -> str:
    return (
        f"{path}: {reason}; put the file back. If it is lost for good, make an empty one of this name: then its "
        "events have empty bodies"
    )


def _share_like(database: os.stat_result, descriptor: int) -> None:
    """Let those read and write a file who may do so with the database, as SQLite does with its log."""
    os.fchmod(descriptor, database.st_mode & 0o666)
    if os.geteuid() == 0:
        os.fchown(descriptor, database.st_uid, database.st_gid)
