"""What has arrived since somebody last looked, and the waiting for more of it."""

import asyncio
import json
import sqlite3
from collections.abc import Sequence
from pathlib import Path

from receiver.core.deliveries import DeliveryFilter, DeliverySummary, FeedPage
from receiver.errors import StoreError
from receiver.stores.sqlite.database import Database, data_version, same_file
from receiver.stores.sqlite.filters import row_by_row
from receiver.stores.sqlite.report_statements import OPEN_SEQS, SUMMARY
from receiver.stores.sqlite.rows import delivery_summary
from receiver.stores.sqlite.search import require_index
from receiver.stores.sqlite.statements import ROUTED

_POLL_SECONDS = 0.1
"""People read what comes of it."""

THROUGH = "SELECT max(seq) FROM (SELECT seq FROM deliveries WHERE seq > :after ORDER BY seq LIMIT :rows)"

ARRIVED = f"""
SELECT {SUMMARY} FROM deliveries AS d
WHERE d.seq > :after AND d.seq <= :through {{conditions}} ORDER BY d.seq
"""

AMONG = f"""
SELECT {SUMMARY} FROM deliveries AS d
WHERE d.seq IN (SELECT value FROM json_each(:seqs)) {{conditions}} ORDER BY d.seq
"""

NEWEST_OPEN = f"""
SELECT seq FROM deliveries WHERE seq > ({ROUTED}) UNION SELECT delivery_seq FROM ({OPEN_SEQS})
ORDER BY 1 DESC LIMIT ?
"""


class ArrivalReports:
    """The reports about what is new."""

    def __init__(self, database: Database, path: Path) -> None:
        self._database = database
        self._path = path
        self._opened_as = path.stat()
        self._seen: int | None = None

    async def since(self, wanted: DeliveryFilter, *, after: int, limit: int) -> FeedPage:
        """Return the wanted ones of the next deliveries, the oldest first."""
        conditions, values = row_by_row(wanted)

        def read(connection: sqlite3.Connection) -> FeedPage:
            require_index(connection, wanted)
            (through,) = connection.execute(THROUGH, {"after": after, "rows": limit}).fetchone()
            if through is None:
                return FeedPage((), after)
            bounds = {"after": after, "through": through}
            rows = connection.execute(ARRIVED.format(conditions=conditions), {**values, **bounds})
            return FeedPage(tuple(delivery_summary(row) for row in rows), through)

        return await self._database.call(read)

    async def by_seqs(self, wanted: DeliveryFilter, seqs: Sequence[int]) -> Sequence[DeliverySummary]:
        """Return the wanted ones of the deliveries with these seqs, the oldest first."""
        conditions, values = row_by_row(wanted)
        statement = AMONG.format(conditions=conditions)

        def read(connection: sqlite3.Connection) -> Sequence[DeliverySummary]:
            require_index(connection, wanted)
            rows = connection.execute(statement, {**values, "seqs": json.dumps(list(seqs))})
            return [delivery_summary(row) for row in rows]

        return await self._database.call(read)

    async def open_seqs(self, *, limit: int) -> Sequence[int]:
        """Return the seqs of deliveries that are NEW or WORKING, the newest first."""
        return await self._database.call(
            lambda connection: [seq for (seq,) in connection.execute(NEWEST_OPEN, (limit,))]
        )

    async def changed(self) -> None:
        """Return when another connection has committed since the last call."""
        while True:
            version = await self._database.call(self._version)
            if version != self._seen:
                self._seen = version
                return
            # The real clock: the change comes from another process.
            await asyncio.sleep(_POLL_SECONDS)

    def _version(self, connection: sqlite3.Connection) -> int:
        if not same_file(connection, self._path, self._opened_as):
            raise StoreError(f"the database {self._path} was moved or deleted")
        return data_version(connection)
