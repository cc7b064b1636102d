"""Moving the write-ahead log into the database, off the ack path (SQLite manual, Write-Ahead Logging).

SQLite would do that inside the commit that passes 1,000 pages, and that commit's acks would wait for it. Here a
connection of its own does it in the background, while commits go on.
"""

import asyncio
import logging
import sqlite3
from contextlib import suppress
from datetime import timedelta

from receiver.errors import StoreError, StoreRefused
from receiver.stores.sqlite.database import Database

log = logging.getLogger(__name__)

INTERVAL = timedelta(milliseconds=500)
LONGEST_LOG_PAGES = 32_768
"""256 MiB. Under a load without a pause the log never runs empty, and only a commit that waits for its last pages
lets it start again at the front; that commit's acks are late, so it must be rare."""

_FEW_PAGES = 2_000


class Checkpointer:
    """Runs in the background for as long as a writing connection is open."""

    def __init__(self, database: Database, *, longest_log_pages: int = LONGEST_LOG_PAGES) -> None:
        self._database = database
        self._longest_log_pages = longest_log_pages
        self._too_long = False
        self._emptied_at: int | None = None

    async def run(self) -> None:
        """Checkpoint now and then, until cancelled."""
        while True:
            await asyncio.sleep(INTERVAL.total_seconds())
            try:
                await self._database.call(self._checkpoint)
            except (StoreError, StoreRefused) as exc:
                # A full or locked disk shows in every commit; here it only means to try again.
                log.debug("checkpoint_failed", extra={"reason": str(exc)})

    def after_commit(self, connection: sqlite3.Connection) -> None:
        """Let a writer that has just committed restart the log, if that has grown too long."""
        if not self._too_long:
            return
        self._too_long = False
        with suppress(sqlite3.OperationalError):  # the commit is done, and this comes again
            connection.execute("PRAGMA wal_checkpoint(RESTART)").fetchall()

    def _checkpoint(self, connection: sqlite3.Connection) -> None:
        (version,) = connection.execute("PRAGMA data_version").fetchone()
        if version == self._emptied_at:
            # SQLite before 3.51.3 can lose commits when a checkpoint of an empty log meets a commit that starts the
            # log again (SQLite release notes, "WAL-reset bug").
            return
        pages, moved = _move_pages(connection)
        if pages > self._longest_log_pages:
            pages, moved = _move_pages(connection)  # what is left now, the commit that restarts the log waits for
        # A reader can keep most of a log from being moved; then a commit must not do that once the reader has gone.
        self._too_long = pages > self._longest_log_pages and pages - moved < _FEW_PAGES
        self._emptied_at = version if moved == pages else None


def _move_pages(connection: sqlite3.Connection) -> tuple[int, int]:
    """Move what commits have written so far; return how many pages the log had, and how many of them are moved."""
    _, pages, moved = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
    return int(pages), int(moved)
