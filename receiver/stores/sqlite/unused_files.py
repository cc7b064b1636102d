"""Removes files of bodies that hold none any more."""

import sqlite3
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from receiver.stores.sql.connection import number
from receiver.stores.sqlite.body_files import is_of, name_of
from receiver.stores.sqlite.statements import body_files as statements
from receiver.stores.sqlite.synced import sync_file
from receiver.stores.sqlite.write_ahead_log import log_path

UNUSED_SECONDS = 60.0
"""How long nothing has to be in a file before it is removed: somebody may still read what was in it before."""


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

        With the write lock nobody begins to use it meanwhile. `at_once` is for a disk that has little room: a
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
                with suppress(OSError):  # of somebody else, who may also have removed it
                    return self._remove(path, size)
        return 0

    def _remove(self, path: Path, size: int) -> int:
        # The transactions after which nothing is in the file are not synced, and a power cut may undo them.
        sync_file(log_path(self._database))
        path.unlink()
        return max(size, 1)


def _is_used(connection: sqlite3.Connection, path: Path) -> bool:
    return bool(connection.execute(statements.IS_USED, (name_of(path),)).fetchone()[0])
