"""The readers' side of a PostgreSQL store."""

import asyncio

from receiver.core.search import SearchReach
from receiver.core.work import StoreFacts
from receiver.errors import StoreError
from receiver.stores.postgres.connection import PostgresConnection
from receiver.stores.postgres.database import PostgresDatabase
from receiver.stores.postgres.dialect import READS
from receiver.stores.postgres.health import facts
from receiver.stores.postgres.search import reach
from receiver.stores.postgres.statements import reports as statements
from receiver.stores.sql import narrowing
from receiver.stores.sql.reports import SqlReports

_POLL_SECONDS = 0.1
"""People read what comes of it."""


class PostgresReports(SqlReports):
    """A Reports."""

    def __init__(
        self, database: PostgresDatabase, schema: str, *, narrow_limit: int = narrowing.SCAN_LIMIT
    ) -> None:
        super().__init__(database, READS, narrow_limit=narrow_limit)
        self._schema = schema
        self._identity: int | None = None
        self._seen: int | None = None

    async def search_reach(self) -> SearchReach | None:
        """Return how far the index of words reaches, None without one."""
        return await self.database.call(reach)

    async def facts(self) -> StoreFacts:
        """Return how large the store is, and how its server keeps up."""
        return await self.database.call(lambda connection: facts(connection, self._schema))

    async def changed(self) -> None:
        """Return when somebody has committed since the last call, in any database of the server."""
        while True:
            place = await self.database.call(self._place)
            if place != self._seen:
                self._seen = place
                return
            # The real clock: the change comes from another process.
            await asyncio.sleep(_POLL_SECONDS)

    async def require_present(self) -> None:
        """Raise StoreError when another store has replaced the one that was opened first."""
        await self.database.call(self._place)

    def _place(self, connection: PostgresConnection) -> int:
        """Return a number that every commit moves."""
        identity, place = connection.execute(statements.PLACE).fetchone()
        if self._identity is None:
            self._identity = identity
        if identity != self._identity:
            raise StoreError("the database was replaced by another store")
        return int(place)
