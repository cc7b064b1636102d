"""What keeps a PostgreSQL store small."""

from receiver.core.retention import Step
from receiver.stores.postgres.database import PostgresDatabase
from receiver.stores.postgres.dialect import READS, WRITES
from receiver.stores.sql.maintenance import SqlMaintenance


class PostgresMaintenance(SqlMaintenance):
    """A Maintenance. Its commits are not synced: after a crash something may have to be removed again."""

    def __init__(self, database: PostgresDatabase) -> None:
        super().__init__(database, READS, WRITES)

    async def compress(self, *, limit: int) -> Step:
        """Do nothing: the server compresses by itself what it stores (PostgreSQL manual, TOAST)."""
        return Step(0, 0, None)

    async def reclaim(self, limit: int) -> int:
        """Do nothing: the server uses space again by itself. Only VACUUM FULL returns it, which stops everybody."""
        return 0
