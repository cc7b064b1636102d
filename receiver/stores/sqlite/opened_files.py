"""Who has a database open: this process, or another one."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import RLock

from receiver.stores.sqlite.file_locks import is_locked
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
        """Tell whether nobody has the database open, and let no connection of this process open meanwhile."""
        with self._lock:
            yield self._counts[_name(path)] == 0 and not _open_elsewhere(path)


OPENED = OpenedFiles()
"""One for the process, as the locks of files are."""


def _name(path: Path) -> str:
    return str(path.resolve())


def _open_elsewhere(path: Path) -> bool:
    """Tell whether another process has the database open. This process must not have it open."""
    try:
        with index_path(path).open("rb") as index:
            return is_locked(index.fileno(), _LOCK_BYTE)
    except FileNotFoundError:
        return False
    except OSError:  # another user's, who may have it open
        return True
