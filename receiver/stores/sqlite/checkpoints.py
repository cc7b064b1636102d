"""Move the write-ahead log into the database, off the ack path (SQLite manual, Write-Ahead Logging).

SQLite would do that inside the commit that passes 1,000 pages, and the acks of that commit would wait for it. Here
a connection of its own does it in the background, beside further commits.
"""

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Self

from receiver.errors import StoreError, StoreRefused
from receiver.runtime.log_lines import event_log
from receiver.stores.sqlite.database import Database, file_at
from receiver.stores.sqlite.locks import LockFile

_BYTE = 2**56
"""Above the bytes of the workers."""


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
        """Return whether to move the log now. It is better to do so twice than never, where locks do not work."""
        if not LockFile.works:
            return True
        try:
            return self._locks.take(_BYTE) if self._appending else not self._locks.is_taken(_BYTE)
        except StoreError:
            return True

    def close(self) -> None:
        """Release what is open. It is opened again when it is needed."""
        self._locks.close()


log = event_log(__name__)

INTERVAL = timedelta(milliseconds=500)
MAX_LOG_PAGES = 512
"""4 MiB. Under a load without a pause the log never runs empty. Only a commit that waits for the last pages can
let the log start again at its front. The acks of that commit are a little late."""
MAX_LOG_BYTES = 6 * 1024 * 1024
"""Where a writer moves all pages itself, because the background could not keep up. Its acks are late, so it must
not be much: with 16 MiB, 99 of 100 bodies of 50 KB were acknowledged within 68 ms, with 6 MiB within 36. The store
has SQLite cut the file to this length when the log starts again."""

_FEW_PAGES = 250


class Checkpointer:
    """Moves the log in the background, for all the writers that one process has of a store.

    It runs while at least one writer uses it, on a connection of its own that `connect` makes. `log` is the file
    of the log. `turn` knows whether this process shall move it.
    """

    def __init__(
        self,
        connect: Callable[[], Database],
        log: Path,
        *,
        turn: CheckpointTurn | None = None,
        interval: timedelta = INTERVAL,
        max_log_pages: int = MAX_LOG_PAGES,
        max_log_bytes: int = MAX_LOG_BYTES,
    ) -> None:
        self._connect = connect
        self._log = log
        self._turn = turn
        self._max_log_bytes = max_log_bytes
        self._next_try_bytes = max_log_bytes
        self._interval = interval
        self._max_log_pages = max_log_pages
        self._too_long = False
        self._moving = threading.Lock()
        self._emptied_by_writer = False
        self._emptied_at: int | None = None
        self._users = 0
        self._task: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def used(self) -> AsyncIterator[Self]:
        """Run for as long as the block lasts."""
        self._users += 1
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())
        try:
            yield self
        finally:
            self._users -= 1
            if self._users == 0:
                task, self._task = self._task, None
                await _cancelled(task)
                if self._turn is not None:
                    self._turn.close()

    def after_commit(self, connection: sqlite3.Connection) -> None:
        """Let a writer that has just committed restart the log, if that has grown too long."""
        there = file_at(self._log)
        size = 0 if there is None else there.st_size
        if size <= self._max_log_bytes:
            self._next_try_bytes = self._max_log_bytes
        if not self._too_long and size <= self._next_try_bytes:
            return
        self._too_long = False
        # While a reader keeps the log from starting again, a try now and then is enough.
        self._next_try_bytes = max(size, self._max_log_bytes) + self._max_log_bytes // 4
        if not self._moving.acquire(blocking=False):
            return  # SQLite would refuse a second checkpoint
        try:
            with suppress(sqlite3.OperationalError):  # the commit is done, and this comes again
                busy, *_ = connection.execute("PRAGMA wal_checkpoint(RESTART)").fetchone()
                self._emptied_by_writer = not busy
        finally:
            self._moving.release()

    def checkpoint(self, connection: sqlite3.Connection) -> None:
        """Move what is in the log, and note whether the next commit has to restart the log."""
        with self._moving:
            self._move(connection)

    def _move(self, connection: sqlite3.Connection) -> None:
        (version,) = connection.execute("PRAGMA data_version").fetchone()
        if self._emptied_by_writer:
            self._emptied_by_writer, self._emptied_at = False, version
        if version == self._emptied_at:
            # SQLite before 3.51.3 can lose commits when a checkpoint of an empty log meets a commit that starts the
            # log again (SQLite release notes, "WAL-reset bug").
            return
        pages, moved = _move_pages(connection)
        if pages > self._max_log_pages and moved < pages:
            pages, moved = _move_pages(connection)  # the commit that restarts the log waits for what is left now
        # A reader can keep most of a log from being moved. No commit must move all that when the reader has gone.
        self._too_long = pages > self._max_log_pages and pages - moved < _FEW_PAGES
        self._emptied_at = version if moved == pages else None

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._interval.total_seconds())
            try:
                async with self._connect() as database:
                    self._emptied_at = None  # each connection counts versions by itself
                    while True:
                        if self._turn is None or self._turn.is_mine():
                            await database.call(self.checkpoint)
                        await asyncio.sleep(self._interval.total_seconds())
            except (StoreError, StoreRefused) as exc:
                # A full or locked disk shows in every commit; here it only means to try again.
                log.debug("checkpoint_failed", extra={"reason": str(exc)})
            except Exception:  # a bug of ours: without checkpoints the log would fill the disk
                log.exception("checkpoint_crashed")


async def _cancelled(task: asyncio.Task[None] | None) -> None:
    if task is None:
        return
    task.cancel()
    await asyncio.wait([task])  # not the task itself: if this caller is cancelled meanwhile, it has to hear of it
    if not task.cancelled():
        task.result()


def _move_pages(connection: sqlite3.Connection) -> tuple[int, int]:
    """Move what commits have written so far; return how many pages the log had, and how many of them are moved."""
    _, pages, moved = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
    return int(pages), int(moved)
