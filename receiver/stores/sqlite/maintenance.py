"""What keeps a SQLite file small. Steps choose what to do first, and hold the write lock only to do it."""

import sqlite3

from receiver.core.batching import BatchSize
from receiver.core.retention import Step
from receiver.stores.sql.compression import DEFLATED, MIN_BYTES, deflated
from receiver.stores.sql.connection import number
from receiver.stores.sql.maintenance import MAX_BYTES, SCAN_LIMIT, SqlMaintenance
from receiver.stores.sql.statements.columns import ROUTED
from receiver.stores.sqlite.database import Database
from receiver.stores.sqlite.dialect import READS, WRITES
from receiver.stores.sqlite.statements import maintenance as statements

_UNUSED_PAGES = "PRAGMA freelist_count"
_INCREMENTAL = 2
"""What PRAGMA auto_vacuum says of files that can shrink in steps; those of earlier versions cannot."""


class SqliteMaintenance(SqlMaintenance):
    """A Maintenance. Its commits are not synced: after a power cut something may have to be removed again."""

    def __init__(self, database: Database) -> None:
        super().__init__(database, READS, WRITES)

    async def compress(self, *, limit: int) -> Step:
        """Write bodies smaller."""

        def step(connection: sqlite3.Connection) -> Step:
            after, routed = (number(connection, sql, {}) for sql in (statements.COMPRESSED, ROUTED))
            last = min(after + SCAN_LIMIT, routed)
            rows = connection.execute(statements.TO_COMPRESS, {"after": after, "last": last, "least": MIN_BYTES})
            bodies, ended = _batch(rows, limit)
            place = last if ended else bodies[-1][0]
            smaller = [(small, DEFLATED, seq) for seq, _, body in bodies if (small := deflated(body)) is not None]
            if place > after:
                with self.database.transaction(connection):
                    connection.executemany(statements.COMPRESS, smaller)
                    connection.execute(statements.ADVANCE_COMPRESSED, (place,))
            sizes = {seq: size for seq, size, _ in bodies}
            saved = sum(sizes[seq] - len(small) for small, _, seq in smaller)
            return Step(len(smaller), saved, place if place < routed else None)

        return await self.database.call(step)

    async def reclaim(self, limit: int) -> int:
        """Give unused pages back to the file system."""

        def step(connection: sqlite3.Connection) -> int:
            before = number(connection, _UNUSED_PAGES, {})
            if before == 0 or number(connection, "PRAGMA auto_vacuum", {}) != _INCREMENTAL:
                return 0
            page_size = number(connection, "PRAGMA page_size", {})
            with self.database.transaction(connection):
                for _ in range(min(max(1, limit // page_size), before)):
                    connection.execute("PRAGMA incremental_vacuum(1)")  # the driver takes one step of it, one page
            return (before - number(connection, _UNUSED_PAGES, {})) * page_size

        return await self.database.call(step)


def _batch(rows: sqlite3.Cursor, limit: int) -> tuple[list[tuple[int, int, bytes]], bool]:
    """Return the bodies that one transaction rewrites, and whether those were all."""
    found: list[tuple[int, int, bytes]] = []
    taken = BatchSize(limit, MAX_BYTES)
    for row in rows:
        found.append(row)
        taken.add(row[1])
        if taken.is_full:
            rows.close()
            return found, False
    return found, True
