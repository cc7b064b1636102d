"""Which workers live: each has a lock, and loses it when its process ends."""

from datetime import timedelta
from hashlib import blake2b
from pathlib import Path

from receiver.core.types import WorkerId
from receiver.stores.sqlite.file_locks import LockFile

UNSURE = timedelta(seconds=5)
"""Time for workers to take their locks again after somebody has deleted the file. They look once a second."""


class LivingWorkers:
    """The locks of workers, each on a byte of its own.

    A process id would say less: it is used again, and other containers have other ids. Where locks do not work, no
    worker is certainly dead. With `asks` nobody can be enlisted.
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
        """Tell whether nobody has the lock of a worker that was enlisted."""
        return LockFile.works and not self._locks.is_taken(_byte(worker))

    def close(self) -> None:
        """Release the locks."""
        self._locks.close()


def _byte(worker: WorkerId) -> int:
    """Return the byte of a worker, one of 2 to the power of 56. Nobody writes it."""
    return int.from_bytes(blake2b(worker.encode(), digest_size=7).digest())


def is_fresh(since: int | None, now: int) -> bool:
    """Tell whether workers may still have to take their locks in a file that is used since then, in microseconds.

    None is for the first file of a store. The clock begins anew with the machine.
    """
    return since is not None and timedelta(0) <= timedelta(microseconds=now - since) < UNSURE
