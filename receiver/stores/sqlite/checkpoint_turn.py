"""Which process moves the write-ahead log in the background."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from receiver.errors import StoreError
from receiver.stores.sqlite.file_locks import LockFile

_BYTE = 2**56
"""Behind the bytes of the workers."""


class CheckpointTurn:
    """It is the turn of one process that appends deliveries. While there is none, it is everybody's turn.

    SQLite before 3.51.3 can lose commits when a checkpoint of one process follows that of another which has moved
    everything (SQLite manual, Write-Ahead Logging, "The WAL-Reset Bug"). One process alone knows when it has moved
    everything. A worker may be blocked by a handler, so it does not take the turn for itself.
    """

    def __init__(self, database: Path) -> None:
        self._locks = LockFile(database)
        self._appending = 0

    @contextmanager
    def appending(self) -> Iterator[None]:
        """Take the turn within the block, as soon as no other process has it."""
        self._appending += 1
        try:
            yield
        finally:
            self._appending -= 1
            if self._appending == 0:
                self._locks.close()

    def is_mine(self) -> bool:
        """Tell whether to move the log now. It is better to do so twice than never, where locks do not work."""
        if not LockFile.works:
            return True
        try:
            return self._locks.take(_BYTE) if self._appending else not self._locks.is_taken(_BYTE)
        except StoreError:
            return True

    def close(self) -> None:
        """Release what is open. It is opened again when it is needed."""
        self._locks.close()
