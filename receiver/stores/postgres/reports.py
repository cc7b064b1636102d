"""The readers' side of a PostgreSQL store."""

import asyncio

from receiver.core.search import SearchReach
from receiver.stores.postgres.connection import PostgresConnection
from receiver.stores.postgres.database import Database
from receiver.stores.postgres.dialect import READS
from receiver.stores.sql import narrowing
from receiver.stores.sql.reports import SqlReports

_POLL_SECONDS = 0.1
"""People read what comes of it."""


class PostgresReports(SqlReports):
    """A Reports."""

    def __init__(self, database: Database, *, narrow_limit: int = narrowing.SCAN_LIMIT) -> None:
        super().__init__(database, READS, narrow_limit=narrow_limit)
        self._seen: int | None = None

    async def search_reach(self) -> SearchReach | None:
        """Return how far the index of words reaches, None without one."""
        return None

    async def changed(self) -> None:
        """Return when somebody has committed since the last call."""
        while True:
            latest = await self.database.call(_latest)
            if latest != self._seen:
                self._seen = latest
                return
            # The real clock: the change comes from another process.
            await asyncio.sleep(_POLL_SECONDS)


def _latest(connection: PostgresConnection) -> int:
    """Return a number that grows with each commit (PostgreSQL manual, pg_snapshot_xmax)."""
    (number,) = connection.execute(
        "SELECT CAST(CAST(pg_snapshot_xmax(pg_current_snapshot()) AS text) AS bigint)"
    ).fetchone()
    return int(number)
