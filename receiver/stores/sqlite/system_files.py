"""Files beside a database: which are open, which belong to it, how they are synced, and the ballast.

The ballast is given up on a full disk: pruning needs room before it can make some.
"""

import fcntl
import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import RLock

from receiver.core.text import escape_controls
from receiver.core.types import Tell
from receiver.core.units import shown_size
from receiver.errors import ConfigurationError
from receiver.runtime.log_lines import event_log
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


log = event_log(__name__)

BYTES = 4 * 1024 * 1024
"""More than the log needs before it is moved into the database. With 1 or 2 MiB, pruning stops half way."""
LEAST_ROOM = 4 * BYTES
"""What has to be free: on a disk that is almost full the ballast would be the reason why it gets full."""


class Ballast:
    """The ballast of a database. What happens to it is logged, or given to `tell` as a sentence."""

    def __init__(self, database: Path) -> None:
        real = database.resolve()
        self._path = real.with_name(f"{real.name}-ballast")
        self._told = False

    def make(self, tell: Tell | None = None) -> None:
        """Make the file unless it is there. If that fails, or the disk has little room, say why once.

        One that a killed process has not finished is made anew.
        """
        try:
            if self._is_whole():
                return
            free = self._free()
            if free < LEAST_ROOM:
                self._say_not_made(self._too_little(free), tell)
                return
            self._write()
            self._told = False
        except OSError as exc:
            self._say_not_made(exc.strerror or str(exc), tell)

    def give_up(self, tell: Tell | None = None) -> bool:
        """Delete the file. Return whether it was there."""
        try:
            self._path.unlink()
        except OSError:
            return False
        if tell is None:
            log.warning("ballast_given_up", extra={"bytes": BYTES})
        else:
            tell(f"the disk is full: {self._path.name} was deleted, as pruning needs some room itself")
        return True

    def notes(self) -> Sequence[str]:
        """Return why there can be no file now, and what to do."""
        try:
            if self._is_whole() or (free := self._free()) >= LEAST_ROOM:
                return ()
        except OSError:  # what keeps the store itself from working is reported elsewhere
            return ()
        return (f"without {self._path.name} nothing can be pruned on a full disk: {self._too_little(free)}",)

    def _is_whole(self) -> bool:
        try:
            return self._path.stat().st_size >= BYTES
        except FileNotFoundError:
            return False

    def _free(self) -> int:
        disk = os.statvfs(self._path.parent)
        return disk.f_bavail * disk.f_frsize

    def _too_little(self, free: int) -> str:
        return f"{shown_size(free)} are free, and it needs {shown_size(LEAST_ROOM)}; take a larger disk"

    def _say_not_made(self, reason: str, tell: Tell | None) -> None:
        if self._told:
            return
        self._told = True
        if tell is None:
            log.warning("ballast_not_made", extra={"path": str(self._path), "reason": reason})
        else:
            tell(f"{self._path.name} was not made, and without it nothing can be pruned on a full disk: {reason}")

    def _write(self) -> None:
        descriptor = os.open(self._path, os.O_CREAT | os.O_NOFOLLOW | os.O_WRONLY, 0o600)
        try:
            _allocate(descriptor)
        except OSError:
            with suppress(OSError):
                self._path.unlink()
            raise
        finally:
            os.close(descriptor)


def _allocate(descriptor: int) -> None:
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, 0, BYTES)
    else:  # macOS
        os.write(descriptor, bytes(BYTES))
