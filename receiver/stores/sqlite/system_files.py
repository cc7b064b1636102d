"""Files as the system sees them: who has a database open, what belongs to it by its name, and what is synced."""

import fcntl
import os
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import RLock

from receiver.core.text import escape_controls
from receiver.errors import ConfigurationError
from receiver.stores.sqlite.locks import is_locked
from receiver.stores.sqlite.write_ahead_log import index_path

_LOCK_BYTE = 128
"""Each connection has a shared lock on this byte of the log's index (SQLite source, os_unix.c, UNIX_SHM_DMS)."""


class OpenedFiles:
    """The databases that this process has open.

    To close a file drops all locks that the process has on it (SQLite manual, How To Corrupt, section 2.2). So only
    a process without a connection may read a database by other means than SQLite.
    """

    def __init__(self) -> None:
        self._lock = RLock()
        self._counts: Counter[str] = Counter()

    def add(self, path: Path) -> None:
        """Note that a connection is about to be opened."""
        with self._lock:
            self._counts[_name(path)] += 1

    def remove(self, path: Path) -> None:
        """Note that a connection was closed."""
        with self._lock:
            self._counts[_name(path)] -= 1

    @contextmanager
    def one(self, path: Path) -> Iterator[None]:
        """Note a connection for as long as the block lasts."""
        self.add(path)
        try:
            yield
        finally:
            self.remove(path)

    @contextmanager
    def none_opens(self, path: Path) -> Iterator[bool]:
        """Return whether no process has the database open, and let none of this process open it meanwhile."""
        with self._lock:
            yield self._counts[_name(path)] == 0 and not _open_elsewhere(path)


OPENED = OpenedFiles()
"""One for the process, as the locks of files are."""


def _name(path: Path) -> str:
    return str(path.resolve())


def _open_elsewhere(path: Path) -> bool:
    """Return whether another process has the database open. This process must not have it open."""
    try:
        with index_path(path).open("rb") as index:
            return is_locked(index.fileno(), _LOCK_BYTE)
    except FileNotFoundError:
        return False
    except OSError:  # another user's, who may have it open
        return True


_COMPANION = re.compile(
    r"(?P<database>.+)-(wal|shm|journal|locks|ballast|bodies-[0-9a-f]{16})", re.DOTALL
).fullmatch
"""The first three are of SQLite (SQLite manual, Temporary Files Used By SQLite), the others of `locks.py`,
`ballast.py` and `bodies.py`."""
_DATABASE = b"SQLite format 3\0"
"""How a database begins (SQLite file format, section 1.3.1)."""


def require_no_companion(path: Path) -> None:
    """Raise ConfigurationError if the file at this path, however it is written, belongs to a database.

    Who writes such a file destroys the database, also while it is used.
    """
    real = path.resolve()
    found = _COMPANION(real.name)
    if found and (database := real.with_name(found["database"])).is_file():
        names = escape_controls(f"{path} belongs to the database {database}")
        raise ConfigurationError(f"{names}; name another file")


def require_no_database(path: Path) -> None:
    """Raise ConfigurationError if the file at this path is a database or belongs to one.

    This process must not have the database open: to close a file drops the locks on it (SQLite manual, How To
    Corrupt, section 2.2).
    """
    require_no_companion(path)
    if _begins_as_database(path):
        raise ConfigurationError(f"{escape_controls(str(path))} is a database; name another file")


def _begins_as_database(path: Path) -> bool:
    try:
        if not path.is_file():  # to open a pipe would wait for its other end
            return False
        with path.open("rb") as file:
            return file.read(len(_DATABASE)) == _DATABASE
    except OSError:  # whoever writes it reports what is wrong
        return False


_FULL = getattr(fcntl, "F_FULLFSYNC", None)
"""macOS writes through the cache of the drive only on this request (fsync(2) of macOS)."""


def sync(descriptor: int) -> None:
    """Return when the bytes of a file are on the disk."""
    if _FULL is not None:
        fcntl.fcntl(descriptor, _FULL)
    else:
        os.fdatasync(descriptor)


def sync_file(path: Path) -> None:
    """Return when the bytes of the file at a path are on the disk, whoever has written them."""
    with path.open("rb") as file:
        sync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Return when the names in a folder are on the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
