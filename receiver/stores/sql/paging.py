"""Read many deliveries with their bodies, page by page."""

from contextlib import closing
from dataclasses import dataclass, replace
from typing import Self

from receiver.core.batching import BatchSize
from receiver.core.bulk import Cursor
from receiver.core.deliveries import DeliveryFilter, StoredDelivery
from receiver.stores.sql import narrowing
from receiver.stores.sql.connection import SqlConnection, SqlRows, Values, number
from receiver.stores.sql.narrowing import among_few
from receiver.stores.sql.rows import delivery_or_reason
from receiver.stores.sql.statements.deliveries import LAST_DELIVERY
from receiver.stores.sql.statements.reads import Reads

MAX_ITEMS = 1_000
MAX_BYTES = 4 * 1024 * 1024
"""Deliveries in a page and bytes of their bodies. A longer body is a page of its own."""
SCAN_LIMIT = 10_000
"""Deliveries that one page examines, so that the search for a rare kind takes short steps."""
JOBS_SCAN_LIMIT = 2_000
"""The same in the order of jobs. It is lower, as each page reads the places in that order again."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What is left to read: deliveries from `first` through `through`, behind a place."""

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
    narrow_limit: int = narrowing.SCAN_LIMIT,
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
