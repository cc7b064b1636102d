"""Locks on single bytes of a file (fcntl(2), advisory record locking), and the workers that live, by theirs."""

import fcntl
import os
import struct
import sys
from datetime import timedelta
from hashlib import blake2b
from pathlib import Path
from weakref import WeakSet

from receiver.core.types import WorkerId
from receiver.errors import StoreError

if sys.platform == "darwin":
    _LAYOUT, _PLACE_OF_TYPE = "qqihh", 3
else:
    _LAYOUT, _PLACE_OF_TYPE = "hhqqi0q", 0


def is_locked(descriptor: int, byte: int, ask: int = fcntl.F_GETLK) -> bool:
    """Ask whether a lock on the byte could not be had, without taking it.

    By default this is about the locks of other processes; F_OFD_GETLK asks about those of other open files.
    """
    answer = fcntl.fcntl(descriptor, ask, _byte_lock(byte, fcntl.F_WRLCK))
    return bool(struct.unpack(_LAYOUT, answer)[_PLACE_OF_TYPE] != fcntl.F_UNLCK)


def _byte_lock(byte: int, kind: int) -> bytes:
    """Return the C structure for a lock on one byte of a file."""
    if sys.platform == "darwin":
        return struct.pack(_LAYOUT, byte, 1, 0, kind, 0)
    return struct.pack(_LAYOUT, kind, 0, byte, 1, 0)


class LockFile:
    """An empty file beside a database, `receiver.db-locks`. Each of its bytes is a lock.

    The kernel removes a lock when its process ends, however it ends. The locks belong to this object and not to the
    process (fcntl(2), Open file description locks): they work between two stores of one process too. A forked child
    does not keep them. Only Linux surely has such locks; elsewhere `works` is False, and nothing may be called.
    If the file is deleted, the next call makes a new one, without the locks that were taken before. One that
    only `asks` makes no file and takes no lock. Methods raise StoreError.
    """

    works = sys.platform == "linux"

    def __init__(self, database: Path, *, asks: bool = False) -> None:
        # Whatever name a process has for the database, and whatever folder it goes to, the file is the same.
        real = database.resolve()
        self._path = real.with_name(f"{real.name}-locks")
        self._flags = os.O_RDONLY if asks else os.O_RDWR | os.O_CREAT
        self._file: int | None = None
        self.times_lost = 0
        """How often the file was found to be deleted or replaced, so that all locks on it were lost."""
        _LOCK_FILES.add(self)

    def take(self, byte: int) -> bool:
        """Take a lock, or keep it; return whether it is held now. This never waits."""
        return self._set(byte, fcntl.F_WRLCK)

    def release(self, byte: int) -> None:
        """Release a lock if it is there."""
        self._set(byte, fcntl.F_UNLCK)

    def is_taken(self, byte: int) -> bool:
        """Return whether another one has a lock."""
        if sys.platform != "linux":
            raise NotImplementedError
        try:
            return is_locked(self._opened(), byte, fcntl.F_OFD_GETLK)
        except OSError as exc:
            raise StoreError(f"cannot read the locks of {self._path}: {exc.strerror}") from exc

    def identity(self) -> int:
        """Return a number of this file, which another file in its place does not have."""
        try:
            found = os.fstat(self._opened())
        except OSError as exc:
            raise StoreError(f"cannot read the locks of {self._path}: {exc.strerror}") from exc
        # The number of a deleted file may be used again at once. The device has another number in each container.
        made = struct.pack("QQ", found.st_ino, found.st_ctime_ns)
        return int.from_bytes(blake2b(made, digest_size=7).digest())

    def close(self) -> None:
        """Release all locks."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _set(self, byte: int, kind: int) -> bool:
        if sys.platform != "linux":
            raise NotImplementedError
        try:
            fcntl.fcntl(self._opened(), fcntl.F_OFD_SETLK, _byte_lock(byte, kind))
        except BlockingIOError:
            return False
        except OSError as exc:
            raise StoreError(f"cannot lock {self._path}: {exc.strerror}") from exc
        return True

    def _opened(self) -> int:
        if self._file is not None and not self._is_in_place(self._file):
            self.close()
            self.times_lost += 1
        if self._file is None:
            self._file = os.open(self._path, self._flags, 0o600)
        return self._file

    def _is_in_place(self, file: int) -> bool:
        try:
            return os.path.samestat(self._path.stat(), os.fstat(file))
        except FileNotFoundError:
            return False


_LOCK_FILES: WeakSet[LockFile] = WeakSet()


def _close_in_child() -> None:
    """Close the descriptors that a fork has copied: a lock ends only when all copies are closed.

    The children of a `ProcessPoolExecutor`, for example, often live longer than a worker that is killed.
    """
    for one in list(_LOCK_FILES):
        one.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_in_child)


UNSURE = timedelta(seconds=5)
"""Time for workers to take their locks again after the file was deleted. They look once a second."""


class LivingWorkers:
    """The locks of workers, each on a byte of its own.

    A process id would say less: it is used again, and other containers have other ids. Where locks do not work, no
    worker is certainly dead. With `asks` none can be enlisted.
    """

    def __init__(self, database: Path, *, asks: bool = False) -> None:
        self._locks = LockFile(database, asks=asks)

    def enlist(self, worker: WorkerId) -> None:
        """Take the lock of a worker and keep it until `close`, or until the process ends."""
        if LockFile.works:
            self._locks.take(_byte(worker))

    @property
    def times_lost(self) -> int:
        """How often all workers have lost their locks, as far as is known. Each takes its lock again when it looks
        for dead ones.
        """
        return self._locks.times_lost

    def file_identity(self) -> int | None:
        """Return a number of the file of locks, which a new file does not have; None where locks do not work."""
        return self._locks.identity() if LockFile.works else None

    def is_dead(self, worker: WorkerId) -> bool:
        """Return whether the lock of a worker that was enlisted is free."""
        return LockFile.works and not self._locks.is_taken(_byte(worker))

    def close(self) -> None:
        """Release the locks."""
        self._locks.close()


def _byte(worker: WorkerId) -> int:
    """Return the byte of a worker, one of 2 to the power of 56. Nobody writes it."""
    return int.from_bytes(blake2b(worker.encode(), digest_size=7).digest())


def is_fresh(since: int | None, now: int) -> bool:
    """Return whether workers may still have to take their locks in a file that is used since then, in microseconds.

    None is for the first file of a store. The clock begins anew with the machine.
    """
    return since is not None and timedelta(0) <= timedelta(microseconds=now - since) < UNSURE
