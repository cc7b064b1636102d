"""Long bodies of new deliveries, in files beside the database until they are moved into it.

SQLite writes each page twice: into its log, and later into the database. A body in a file of its own kind is
written once, so that half as many deliveries again of 50 KB are acknowledged. Maintenance moves the bodies into the
database when it compresses them, and removes files that hold none any more.
"""

import os
import re
import sqlite3
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from receiver.errors import StoreError
from receiver.stores.sql.compression import MIN_BYTES
from receiver.stores.sql.connection import number
from receiver.stores.sqlite.statements import body_files as statements

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
    """Tell whether a body belongs into a file."""
    return MIN_BYTES <= len(body) <= _LONGEST


def body_files(database: Path) -> Sequence[Path]:
    """Return the files of bodies that lie beside a database, also those of another one that had this name.

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
    """Return the files that are not there although bodies lie in them."""
    if connection.execute(statements.HAS_BODY_FILES).fetchone() is None:
        return ()  # an older schema
    resolved = database.resolve()
    paths = [path_of(resolved, name) for (name,) in connection.execute(statements.NAMES)]
    return [path for path in paths if not path.exists()]


def files_of(connection: sqlite3.Connection, database: Path) -> Sequence[Path]:
    """Return the files of this very database."""
    store = number(connection, statements.STORE, {})
    return [path for path in body_files(database) if is_of(path, store)]


def is_of(path: Path, store: int) -> bool:
    """Tell whether a file belongs to the database with this number."""
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
    """Return the place of so many bytes of a file. All places behind it in the file are greater."""
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
