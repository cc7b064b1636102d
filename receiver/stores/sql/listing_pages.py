"""Pages of listings, found in bounded work: a filter that few rows match costs no look at all of them."""

from collections.abc import Callable
from typing import Any

from receiver.core.clock import from_micros
from receiver.core.deliveries import DeliveryFilter, DeliverySummary
from receiver.core.listing_pages import ListingPage, LookEnd, Row
from receiver.core.work import WorkFilter, WorkSummary
from receiver.stores.sql.connection import SqlConnection, SqlDatabase, Values, number
from receiver.stores.sql.jobs import NEWEST
from receiver.stores.sql.narrowing import among_few, among_few_work
from receiver.stores.sql.rows import delivery_summary, work_summary
from receiver.stores.sql.statements.filters import PageStatements
from receiver.stores.sql.statements.reads import Reads


class PageReports:
    """The reports that examine no more than a number of rows."""

    def __init__(self, database: SqlDatabase, reads: Reads, *, narrow_limit: int) -> None:
        self.database = database
        self._reads = reads
        self._narrow_limit = narrow_limit

    async def delivery_page(
        self, wanted: DeliveryFilter, *, examine: int, before: int | None = None
    ) -> ListingPage[DeliverySummary]:
        """Return the newest wanted deliveries that a short look finds."""

        def read(connection: SqlConnection) -> ListingPage[DeliverySummary]:
            narrower, few = among_few(connection, self._reads, wanted, scan_limit=self._narrow_limit)
            statements, values = self._reads.filters.delivery_page(wanted, narrower)
            look = _Look(connection, statements, values | few, delivery_summary)
            return look.page(wanted.limit, before, examine=None if narrower else examine)

        return await self.database.call(read)

    async def look_end(self, *, examine: int, before: int | None = None) -> LookEnd | None:
        """Return the last of the newest deliveries."""
        statements, values = self._reads.filters.delivery_page(DeliveryFilter())
        return await self.database.call(
            lambda connection: _Look(connection, statements, values, delivery_summary).end(before, examine)
        )

    async def work_page(
        self, wanted: WorkFilter, *, examine: int, before: int | None = None
    ) -> ListingPage[WorkSummary]:
        """Return the newest wanted work items that a short look finds."""

        def read(connection: SqlConnection) -> ListingPage[WorkSummary]:
            narrower, few = among_few_work(connection, self._reads, wanted, scan_limit=self._narrow_limit)
            statements, values = self._reads.filters.work_page(wanted, narrower)
            look = _Look(connection, statements, values | few, work_summary)
            return look.page(wanted.limit, before, examine=None if narrower else examine)

        return await self.database.call(read)


class _Look:
    """A look at the newest rows of a listing."""

    def __init__(
        self,
        connection: SqlConnection,
        statements: PageStatements,
        values: Values,
        row: Callable[[tuple[Any, ...]], Row],
    ) -> None:
        self._connection = connection
        self._statements = statements
        self._values = values
        self._row = row

    def page(self, limit: int | None, before: int | None, *, examine: int | None) -> "ListingPage[Any]":
        """Return a page. Without `examine` an index finds all that can match, and the look has no bound."""
        most = NEWEST if limit is None else limit
        before = NEWEST if before is None else before
        if examine is None:
            return ListingPage(tuple(self._rows(0, before, most)))
        # So many numbers are no more rows than that, so the page that they fill needs no search for the end.
        before = min(before, number(self._connection, self._statements.newest, {}) + 1)
        nearest = max(before - examine, 0)
        found = self._rows(nearest, before, most)
        if len(found) == most:
            return ListingPage(tuple(found))
        end = self.end(before, examine)
        found += self._rows(0 if end is None else end.place, nearest, most - len(found))
        return ListingPage(tuple(found), None if len(found) == most else end)

    def end(self, before: int | None, examine: int) -> LookEnd | None:
        """Return the last of so many rows, None if no row is older."""
        before = NEWEST if before is None else before
        values = self._statements.end_values | {"before": before, "skipped": examine - 1}
        rows = self._connection.execute(self._statements.end, values).fetchall()
        return LookEnd(rows[0][0], from_micros(rows[0][1])) if len(rows) == 2 else None

    def _rows(self, through: int, before: int, most: int) -> list[Any]:
        values = self._values | {"through": through, "before": before, "rows": most}
        return [self._row(row) for row in self._connection.execute(self._statements.rows, values)]
