"""The readers' side of a SQLite store. No read holds a snapshot for long, so the log can always be emptied."""

import sqlite3
from collections.abc import AsyncIterator

from receiver.clock import to_micros
from receiver.errors import UnknownDelivery
from receiver.records import DeliveryDetail, DeliveryFilter, DeliverySummary
from receiver.stores.candidates import MOST, candidates
from receiver.stores.sqlite import statements
from receiver.stores.sqlite.database import Database
from receiver.stores.sqlite.rows import delivery_summary, headers_of, work_summary
from receiver.types import DeliveryKey

_PAGE = 500
_NEWEST = 2**63 - 1
_SUMMARY_COLUMNS = 10


class SqliteReports:
    """A Reports."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def deliveries(self, wanted: DeliveryFilter) -> AsyncIterator[DeliverySummary]:
        """Yield the wanted deliveries, the newest first, a page at a time."""
        statement, values = _listing(wanted)
        left = wanted.limit
        before = _NEWEST
        while left is None or left > 0:
            size = _PAGE if left is None else min(_PAGE, left)
            page = await self._page(statement, {**values, "before": before, "rows": size})
            for summary in page:
                yield summary
            if len(page) < size:
                return
            before = page[-1].seq
            left = None if left is None else left - len(page)

    async def resolve(self, prefix: str) -> DeliveryKey:
        """Return the one key that begins so."""

        def read(connection: sqlite3.Connection) -> list[str]:
            # Every key is ASCII, so this bound is above all that begin with the prefix.
            bounds = (prefix, prefix + "\x7f", MOST + 1)
            return [key for (key,) in connection.execute(statements.KEYS_FROM, bounds)]

        keys = await self._database.call(read)
        if len(keys) == 1 or prefix in keys:
            return DeliveryKey(prefix if prefix in keys else keys[0])
        raise UnknownDelivery(candidates(prefix, keys))

    async def detail(self, key: DeliveryKey) -> DeliveryDetail:
        """Return all that is known of a delivery."""

        def read(connection: sqlite3.Connection) -> DeliveryDetail | None:
            row = connection.execute(statements.DETAIL, (key,)).fetchone()
            if row is None:
                return None
            summary = delivery_summary(row[:_SUMMARY_COLUMNS])
            headers, body = row[_SUMMARY_COLUMNS:]
            work = connection.execute(statements.WORK_OF, (summary.seq,)).fetchall()
            return DeliveryDetail(summary, headers_of(headers), body, tuple(work_summary(one) for one in work))

        found = await self._database.call(read)
        if found is None:
            raise UnknownDelivery(f"there is no delivery {key}")
        return found

    async def unfinished(self) -> int:
        """Return how many deliveries are NEW or WORKING."""
        return await self._database.call(
            lambda connection: int(connection.execute(statements.UNFINISHED).fetchone()[0])
        )

    async def _page(self, statement: str, values: dict[str, object]) -> list[DeliverySummary]:
        return await self._database.call(
            lambda connection: [delivery_summary(row) for row in connection.execute(statement, values)]
        )


def _listing(wanted: DeliveryFilter) -> tuple[str, dict[str, object]]:
    conditions: list[tuple[str, str, object]] = []
    if wanted.type is not None:
        conditions.append(("AND d.type GLOB :type", "type", wanted.type.replace("[!", "[^")))  # SQLite's spelling
    if wanted.job_id is not None:
        conditions.append(("AND d.job_id = :job_id", "job_id", wanted.job_id))
    if wanted.since is not None:
        conditions.append(("AND d.received_at >= :since", "since", to_micros(wanted.since)))
    if wanted.until is not None:
        conditions.append(("AND d.received_at < :until", "until", to_micros(wanted.until)))
    values: dict[str, object] = {name: value for _, name, value in conditions}
    state = ""
    if wanted.state is not None:
        state, values["state"] = "WHERE state = :state", wanted.state.value
    sql = " ".join(condition for condition, _, _ in conditions)
    return statements.LIST.format(conditions=sql, state=state), values
