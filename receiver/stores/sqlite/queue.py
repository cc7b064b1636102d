"""The worker's side of a SQLite store."""

import asyncio

from receiver.stores.sql.queue import SqlQueue
from receiver.stores.sqlite.database import Database, data_version
from receiver.stores.sqlite.dialect import WRITES

_POLL_SECONDS = 0.02


class SqliteQueue(SqlQueue):
    """A WorkQueue. Its commits are not synced: after a power cut a finished work item may run again."""

    def __init__(self, database: Database) -> None:
        super().__init__(database, WRITES)
        self._seen: int | None = None

    async def changed(self) -> None:
        """Return when another connection has committed since the last call (PRAGMA data_version)."""
        while True:
            version = await self.database.call(data_version)
            if version != self._seen:
                self._seen = version
                return
            # The real clock, whatever clock the worker has: the change comes from another process.
            await asyncio.sleep(_POLL_SECONDS)
