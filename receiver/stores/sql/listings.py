"""Pages of listings, found in bounded work: a filter that few rows match costs no look at all of them."""

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any, Self

from receiver.core.batches import BatchSize
from receiver.core.bulk import MAX_KINDS, Cursor, DeliveryPlan, WorkKind, WorkPlan
from receiver.core.clock import from_micros
from receiver.core.deliveries import DeliveryFilter, DeliverySummary, ListingPage, LookEnd, Row, StoredDelivery
from receiver.core.types import HandlerName, WorkState
from receiver.core.work import WorkFilter, WorkSummary
from receiver.stores.sql.connection import SqlConnection, SqlDatabase, SqlRows, Values, number
from receiver.stores.sql.jobs import NEWEST
from receiver.stores.sql.rows import delivery_or_reason, delivery_summary, work_summary
from receiver.stores.sql.statements import work as statements
from receiver.stores.sql.statements.deliveries import LAST_DELIVERY
from receiver.stores.sql.statements.filters import PageStatements, Reads

NOTHING = "AND 1 = 0"
"""A condition that nothing meets."""
SCAN_LIMIT = 10_000
"""If an index returns more, reading deliveries one by one soon finds matches. One page examines as many, so that
the search for a rare kind takes short steps."""


def among_few(
    connection: SqlConnection, reads: Reads, wanted: DeliveryFilter, *, scan_limit: int
) -> tuple[str, Values]:
    """Return a condition on `d` that all wanted deliveries of this moment meet, and its values; "" for none."""
    if wanted.text is not None:
        reads.dialect.require_index(connection)
    if matches_no_handler(connection, reads, wanted):
        return NOTHING, {}
    for statement, values in reads.filters.indexed_seqs(wanted):
        found = connection.execute(f"{statement} LIMIT {scan_limit + 1}", values).fetchall()
        if len(found) <= scan_limit:
            seqs = sorted({seq for (seq,) in found})
            return f"AND {reads.dialect.among('d.seq', 'few')}", {"few": reads.dialect.array(seqs)}
    return "", {}


def among_few_work(
    connection: SqlConnection, reads: Reads, wanted: WorkFilter, *, scan_limit: int
) -> tuple[str, Values]:
    """Return the same for work items, called `w`."""
    if matches_no_handler(connection, reads, wanted):
        return NOTHING, {}
    for statement, values in reads.filters.indexed_work(wanted):
        found = connection.execute(f"{statement} LIMIT {scan_limit + 1}", values).fetchall()
        if len(found) <= scan_limit:
            ids = sorted(work_id for (work_id,) in found)
            return f"AND {reads.dialect.among('w.id', 'few')}", {"few": reads.dialect.array(ids)}
    return "", {}


def matches_no_handler(connection: SqlConnection, reads: Reads, wanted: DeliveryFilter | WorkFilter) -> bool:
    """Return whether the filter asks for handlers of which none ever had a work item."""
    if wanted.handler is None:
        return False
    known, values = reads.filters.known_handlers(wanted)
    return connection.execute(known, values).fetchone() is None


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


MAX_ITEMS = 1_000
MAX_BYTES = 4 * 1024 * 1024
"""Deliveries in a page and bytes of their bodies. A longer body is a page of its own."""
JOBS_SCAN_LIMIT = 2_000
"""Deliveries that one page examines in the order of jobs. It is low, as each page reads those places again."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What is left to read: deliveries from `first` through `through`, after a place."""

    reads: Reads
    conditions: str
    values: Values
    first: int
    through: int
    place: Cursor
    in_jobs: bool
    """Job by job, before those without a job."""
    step: int = SCAN_LIMIT
    """Deliveries that one page examines."""

    def page(self, connection: SqlConnection) -> tuple[list[StoredDelivery], Self | None]:
        """Return the next deliveries in their order, and what is left after them; None for nothing."""
        if self.in_jobs:
            return self._jobs_page(connection)
        last = min(self.place.seq + self.step, self.through)
        values = self.values | {"after": self.place.seq, "until_seq": last}
        statement = self.reads.deliveries.in_order.format(conditions=self.conditions)
        page, ended = _fetched(connection.execute(statement, values))
        place = Cursor(last if ended else page[-1].seq)
        return page, replace(self, place=place) if place.seq < self.through else None

    def _jobs_page(self, connection: SqlConnection) -> tuple[list[StoredDelivery], Self | None]:
        behind = {"after_job": self.place.job_id, "after": self.place.seq, "most": JOBS_SCAN_LIMIT}
        places = connection.execute(self.reads.deliveries.places_in_jobs, behind).fetchall()
        seqs = self.reads.dialect.array([seq for _, seq in places if self.first <= seq <= self.through])
        rows = connection.execute(
            self.reads.deliveries.these_in_order.format(conditions=self.conditions), self.values | {"seqs": seqs}
        )
        page, ended = _fetched(rows)
        if not ended:
            return page, replace(self, place=Cursor.at(page[-1], by_job=True))
        if len(places) == JOBS_SCAN_LIMIT:
            job_id, seq = places[-1]
            return page, replace(self, place=Cursor(seq, job_id))
        return page, replace(
            self,
            conditions=f"{self.conditions} AND d.job_id IS NULL",
            place=Cursor(self.first - 1),
            in_jobs=False,
        )


def start_reading(
    connection: SqlConnection,
    reads: Reads,
    wanted: DeliveryFilter,
    after: Cursor | None,
    by_job: bool,
    *,
    narrow_limit: int = SCAN_LIMIT,
) -> Reading | None:
    """Return a reading of the wanted deliveries that are stored now; None if there are none."""
    through = number(connection, LAST_DELIVERY, {})
    conditions, values = reads.filters.row_by_row(wanted)
    narrower, few = among_few(connection, reads, wanted, scan_limit=narrow_limit)
    conditions, values = f"{conditions} {narrower}", values | few
    first: int | None = 1
    if wanted.limit is not None:
        sql = reads.deliveries.first_of_newest.format(conditions=conditions)
        (first,) = connection.execute(sql, values | {"through": through, "most": wanted.limit}).fetchone()
    if first is None or through == 0:
        return None
    in_jobs = by_job and (after is None or after.job_id is not None)
    place = after or (Cursor(0, "") if by_job else Cursor(0))
    if by_job and not in_jobs:
        conditions += " AND d.job_id IS NULL"
    if not in_jobs:
        place = Cursor(max(place.seq, first - 1))
    step = through if narrower else SCAN_LIMIT  # an index has found the few that are examined
    return Reading(reads, conditions, values, first, through, place, in_jobs, step)


def _fetched(rows: SqlRows) -> tuple[list[StoredDelivery], bool]:
    """Return the deliveries of one page, and whether those were all the rows."""
    page: list[StoredDelivery] = []
    taken = BatchSize(MAX_ITEMS, MAX_BYTES)
    with closing(rows):  # an open one would keep this state of the store
        for row in rows:
            one = delivery_or_reason(row)
            page.append(one)
            taken.add(len(one.delivery.body))
            if taken.is_full:
                return page, False
    return page, True


MAX_COUNTED_KINDS = 24
"""Up to so many kinds, each has a count with a condition of its own. GROUP BY would sort all rows, which takes
longer than reading them twice."""

_BEHIND = {
    (False, False): "d.seq > :after",
    (False, True): "d.seq > :after",
    (True, False): "d.job_id IS NULL AND d.seq > :after",
    (True, True): "(d.job_id IS NULL OR (d.job_id, d.seq) > (:after_job, :after))",
}
"""The condition for rows after a place, by whether they are in the order of jobs and whether it has a job."""


def plan(
    connection: SqlConnection,
    reads: Reads,
    wanted: DeliveryFilter,
    after: Cursor | None = None,
    by_job: bool = False,
    *,
    only: Sequence[str] = (),
) -> DeliveryPlan:
    """Return what an action on the wanted deliveries would touch; `only` are more conditions on them, as `d`."""
    if wanted.text is not None:
        reads.dialect.require_index(connection)
    source, values = reads.filters.all_at_once(wanted)
    narrower = list(only)
    if after is not None:
        narrower.append(_BEHIND[by_job, after.job_id is not None])
        values |= {"after": after.seq, "after_job": after.job_id}
    if narrower:
        source = statements.NARROWED.format(source=source, conditions=" AND ".join(narrower))
    sums = "sum(d.size), count(d.pruned_at), min(d.received_at), max(d.received_at)"
    (count, size, pruned, *span), counts = _counted(
        connection, source, values, sums, kinds=("d.type",), among="deliveries AS d"
    )
    first_at, last_at = map(from_micros, span) if count else (None, None)
    types = {kind: number for (kind,), number in counts.items()}
    return DeliveryPlan(count, size or 0, first_at, last_at, types, count - sum(types.values()), pruned)


def work_plan(connection: SqlConnection, reads: Reads, wanted: WorkFilter) -> WorkPlan:
    """Return what an action on the wanted work items would touch."""
    source, values = reads.filters.all_work_at_once(wanted)
    sums = "min(w.id), max(w.id), min(w.received_at), max(w.received_at)"
    (count, first_id, last_id, *span), counts = _counted(
        connection, f"{source} AS w WHERE TRUE", values, sums, kinds=("w.handler", "w.type", "w.state")
    )
    first_at, last_at = map(from_micros, span) if count else (None, None)
    kinds = {
        WorkKind(HandlerName(handler), kind, WorkState(state)): number
        for (handler, kind, state), number in counts.items()
    }
    return WorkPlan(count, first_id or 0, last_id or 0, first_at, last_at, kinds, count - sum(kinds.values()))


def _counted(
    connection: SqlConnection,
    source: str,
    values: Values,
    sums: str,
    *,
    kinds: tuple[str, ...],
    among: str | None = None,
) -> tuple[tuple[int, ...], dict[tuple[str, ...], int]]:
    """Return how many rows a source has, with sums over them, and the numbers of the most frequent kinds.

    `among` is another source that has at least these kinds, and that is read faster.
    """
    columns = ", ".join(kinds)
    found = connection.execute(
        statements.KINDS.format(kinds=columns, source=among or source, most=MAX_COUNTED_KINDS + 1), values
    ).fetchall()
    if len(found) > MAX_COUNTED_KINDS:
        row = connection.execute(statements.SUMS.format(sums=sums, source=source), values).fetchone()
        by_kind = statements.BY_KIND.format(kinds=columns, source=source, most=MAX_KINDS)
        return row, {tuple(kind): number for *kind, number in connection.execute(by_kind, values)}
    of_each = [_count_of(kinds, number) for number in range(len(found))]
    named = {f"kind_{n}_{m}": value for n, kind in enumerate(found) for m, value in enumerate(kind)}
    everything = statements.SUMS.format(sums=", ".join([sums, *of_each]), source=source)
    row = connection.execute(everything, values | named).fetchone()
    end = len(row) - len(found)
    counts = sorted(zip(found, row[end:], strict=True), key=lambda one: (-one[1], one[0]))
    return row[:end], {kind: number for kind, number in counts if number}


def _count_of(kinds: tuple[str, ...], number: int) -> str:
    conditions = [f"{column} = :kind_{number}_{place}" for place, column in enumerate(kinds)]
    return f"count(*) FILTER (WHERE {' AND '.join(conditions)})"
