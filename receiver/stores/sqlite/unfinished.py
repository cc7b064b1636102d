"""A database that is being made, under a name of its own until it is whole."""

import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from receiver.stores.sqlite.write_ahead_log import index_path, log_path

_MARK = re.compile(r"\..+-unfinished-[0-9a-f]{16}", re.DOTALL).fullmatch


@contextmanager
def unfinished(target: Path) -> Iterator[Path]:
    """Make an empty file beside the target, which only its owner can read. Remove what is left of it at the end.

    What killed processes have left of such files in the folder is removed first. Raises OSError.
    """
    remove_abandoned(target.absolute().parent)
    mark, descriptor = _marked(target)
    path = _database(mark)
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        yield path
    finally:
        _remove(mark)
        os.close(descriptor)


def _marked(target: Path) -> tuple[Path, int]:
    """Make a file whose lock tells that this process makes a database, and return it.

    The lock ends with the process. It is not on the database itself, where it could be in the way of SQLite's.
    """
    while True:
        mark = target.with_name(f".{target.name}-unfinished-{os.urandom(8).hex()}")
        descriptor = os.open(mark, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
        with suppress(OSError):  # without such locks nobody removes the file either
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        if mark.exists():
            return mark, descriptor
        os.close(descriptor)  # another process took it for abandoned before the lock was there


def remove_abandoned(folder: Path) -> None:
    """Remove the databases in a folder that killed processes were making. Each can be as large as a store."""
    with suppress(OSError):  # a folder that this user cannot list
        for path in folder.iterdir():
            if _MARK(path.name):
                _remove_if_abandoned(path)


def _remove_if_abandoned(mark: Path) -> None:
    with suppress(OSError):
        descriptor = os.open(mark, os.O_RDWR | os.O_NOFOLLOW)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not os.fstat(descriptor).st_size:  # ours are empty
                _remove(mark)
        finally:
            os.close(descriptor)


def _remove(mark: Path) -> None:
    path = _database(mark)
    # The mark goes last: without it nobody would find the others.
    for leftover in (log_path(path), index_path(path), path.with_name(f"{path.name}-journal"), path, mark):
        with suppress(OSError):
            leftover.unlink()


def _database(mark: Path) -> Path:
    return mark.with_name(f"{mark.name}.db")
