"""What has arrived since somebody last looked."""

from collections.abc import Sequence
from datetime import datetime

from receiver.core.arrivals import MINUTE, Arrivals
from receiver.core.clock import from_micros, to_micros
from receiver.core.deliveries import DeliveryFilter, DeliverySummary, FeedPage
from receiver.core.durations import MICROSECOND
from receiver.stores.sql.connection import SqlConnection, SqlDatabase
from receiver.stores.sql.rows import delivery_summary
from receiver.stores.sql.statements.reads import Reads


class FeedReports:
    """The reports about new deliveries, but for the waiting, which each kind of database does in its own way."""

    def __init__(self, database: SqlDatabase, reads: Reads) -> None:
        self.database = database
        self._reads = reads

    async def since(self, wanted: DeliveryFilter, *, after: int, limit: int) -> FeedPage:
        """Return the wanted ones of the next deliveries, the oldest first."""
        conditions, values = self._reads.filters.row_by_row(wanted)

        def read(connection: SqlConnection) -> FeedPage:
            self._require_index(connection, wanted)
            end = connection.execute(self._reads.deliveries.feed_end, {"after": after, "rows": limit})
            (through,) = end.fetchone()
            if through is None:
                return FeedPage((), after)
            statement = self._reads.deliveries.feed.format(conditions=conditions)
            rows = connection.execute(statement, {**values, "after": after, "through": through})
            return FeedPage(tuple(delivery_summary(row) for row in rows), through)

        return await self.database.call(read)

    async def arrivals(self, *, after: int, limit: int) -> Arrivals:
        """Count the next deliveries by the minute of their arrival."""

        def read(connection: SqlConnection) -> Arrivals:
            values = {"after": after, "rows": limit}
            rows = connection.execute(self._reads.deliveries.arrivals, values).fetchall()
            minutes = {from_micros(minute * (MINUTE // MICROSECOND)): count for minute, count, _ in rows if count}
            return Arrivals(minutes, max((seq for _, _, seq in rows), default=after))

        return await self.database.call(read)

    async def last_seq_before(self, moment: datetime) -> int:
        """Return the seq of the newest delivery that arrived before a moment."""

        def read(connection: SqlConnection) -> int:
            statement, values = self._reads.deliveries.last_before, {"moment": to_micros(moment)}
            return next((seq for (seq,) in connection.execute(statement, values)), 0)

        return await self.database.call(read)

    async def by_seqs(self, wanted: DeliveryFilter, seqs: Sequence[int]) -> Sequence[DeliverySummary]:
        """Return the wanted ones of the deliveries with these seqs, the oldest first."""
        conditions, values = self._reads.filters.row_by_row(wanted)
        statement = self._reads.deliveries.by_seqs.format(conditions=conditions)

        def read(connection: SqlConnection) -> Sequence[DeliverySummary]:
            self._require_index(connection, wanted)
            rows = connection.execute(statement, {**values, "seqs": self._reads.dialect.array(seqs)})
            return [delivery_summary(row) for row in rows]

        return await self.database.call(read)

    async def open_seqs(self, *, limit: int) -> Sequence[int]:
        """Return the seqs of deliveries that are NEW or WORKING, the newest first."""

        def read(connection: SqlConnection) -> Sequence[int]:
            return [seq for (seq,) in connection.execute(self._reads.deliveries.newest_open, {"rows": limit})]

        return await self.database.call(read)

    def _require_index(self, connection: SqlConnection, wanted: DeliveryFilter) -> None:
        if wanted.text is not None:
            self._reads.dialect.require_index(connection)
