"""Going through many deliveries with their bodies, page by page."""

import json
import sqlite3
from dataclasses import dataclass, replace
from typing import Self

from receiver.core.batching import BatchSize
from receiver.core.bulk import Cursor
from receiver.core.deliveries import DeliveryFilter, StoredDelivery
from receiver.stores.sqlite import report_statements as statements
from receiver.stores.sqlite.filters import row_by_row
from receiver.stores.sqlite.narrowing import among_few
from receiver.stores.sqlite.rows import stored_delivery

MAX_ITEMS = 1_000
MAX_BYTES = 4 * 1024 * 1024
"""Bodies and bytes of them in a page; a longer body is a page of its own."""
_LOOKED_AT = 10_000
"""Deliveries that one page looks at, so that a rare kind is found in short steps."""
_LOOKED_AT_IN_JOBS = 2_000
"""Fewer, as their places are read anew for each page."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What is still to be read: deliveries from `first` through `through`, behind a place."""

    conditions: str
    values: dict[str, object]
    first: int
    through: int
    place: Cursor
    in_jobs: bool
    """Job by job, before those without a job."""

    def page(self, connection: sqlite3.Connection) -> tuple[list[StoredDelivery], Self | None]:
        """Return the next deliveries, in their order, and what is left after them; None is nothing."""
        if self.in_jobs:
            return self._jobs_page(connection)
        last = min(self.place.seq + _LOOKED_AT, self.through)
        values = self.values | {"after": self.place.seq, "until_seq": last}
        page, ended = _fetched(connection.execute(statements.IN_ORDER.format(conditions=self.conditions), values))
        place = Cursor(last if ended else page[-1].seq)
        return page, replace(self, place=place) if place.seq < self.through else None

    def _jobs_page(self, connection: sqlite3.Connection) -> tuple[list[StoredDelivery], Self | None]:
        behind = {"after_job": self.place.job_id, "after": self.place.seq, "most": _LOOKED_AT_IN_JOBS}
        places = connection.execute(statements.PLACES_IN_JOBS, behind).fetchall()
        seqs = json.dumps([seq for _, seq in places if self.first <= seq <= self.through])
        rows = connection.execute(
            statements.THESE_IN_ORDER.format(conditions=self.conditions), self.values | {"seqs": seqs}
        )
        page, ended = _fetched(rows)
        if not ended:
            return page, replace(self, place=Cursor.at(page[-1], by_job=True))
        if len(places) == _LOOKED_AT_IN_JOBS:
            job_id, seq = places[-1]
            return page, replace(self, place=Cursor(seq, job_id))
        return page, replace(
            self,
            conditions=f"{self.conditions} AND d.job_id IS NULL",
            place=Cursor(self.first - 1),
            in_jobs=False,
        )


def start_reading(
    connection: sqlite3.Connection, wanted: DeliveryFilter, after: Cursor | None, by_job: bool
) -> Reading | None:
    """Return a reading of what is stored now."""
    (through,) = connection.execute(statements.LAST_DELIVERY).fetchone()
    conditions, values = row_by_row(wanted)
    narrower, few = among_few(connection, wanted)
    conditions, values = f"{conditions} {narrower}", values | few
    first: int | None = 1
    if wanted.limit is not None:
        sql = statements.FIRST_OF_NEWEST.format(conditions=conditions)
        (first,) = connection.execute(sql, values | {"through": through, "most": wanted.limit}).fetchone()
    if first is None or through == 0:
        return None
    in_jobs = by_job and (after is None or after.job_id is not None)
    place = after or (Cursor(0, "") if by_job else Cursor(0))
    if by_job and not in_jobs:
        conditions += " AND d.job_id IS NULL"
    if not in_jobs:
        place = Cursor(max(place.seq, first - 1))
    return Reading(conditions, values, first, through, place, in_jobs)


def _fetched(rows: sqlite3.Cursor) -> tuple[list[StoredDelivery], bool]:
    """Return what one page holds, and whether those were all the rows. Each is read when it is asked for."""
    page: list[StoredDelivery] = []
    taken = BatchSize(MAX_ITEMS, MAX_BYTES)
    for row in rows:
        one = stored_delivery(row)
        page.append(one)
        taken.add(len(one.delivery.body))
        if taken.is_full:
            rows.close()
            return page, False
    return page, True
