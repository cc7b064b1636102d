"""The readers' side of a SQLite store. No read holds a snapshot for long, so the log can always be emptied."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from receiver.core.bulk import Cursor, DeliveryPlan, WorkPlan
from receiver.core.clock import from_micros
from receiver.core.deliveries import DeliveryDetail, DeliveryFilter, DeliverySummary, StoredDelivery
from receiver.core.quarantine import Quarantined, QuarantinedSummary, QuarantineFilter
from receiver.core.search import SearchReach
from receiver.core.types import DeliveryKey, HandlerName, HandlerSwitch, WorkState
from receiver.core.work import Backlog, HandlerReport, WorkDetail, WorkFilter, WorkSummary
from receiver.errors import UnknownDelivery, UnknownRequest, UnknownWork
from receiver.stores.prefixes import MAX_NAMED, candidates
from receiver.stores.sqlite import paging as readings
from receiver.stores.sqlite import plans
from receiver.stores.sqlite import report_statements as statements
from receiver.stores.sqlite.claims import switches
from receiver.stores.sqlite.compression import decoded
from receiver.stores.sqlite.feed import ArrivalReports
from receiver.stores.sqlite.filters import delivery_listing, refused_listing, work_ids, work_listing
from receiver.stores.sqlite.jobs import JobReports
from receiver.stores.sqlite.narrowing import among_few
from receiver.stores.sqlite.rows import attempt, delivery_summary, headers_of, work_summary
from receiver.stores.sqlite.search import reach

_PAGE = 500
_NEWEST = 2**63 - 1
_SUMMARY_COLUMNS = 12


class SqliteReports(ArrivalReports, JobReports):
    """A Reports."""

    async def deliveries(self, wanted: DeliveryFilter) -> AsyncIterator[DeliverySummary]:
        """Yield the wanted deliveries, the newest first."""
        narrower, few = await self._database.call(lambda connection: among_few(connection, wanted))
        statement, values = delivery_listing(wanted, narrower)
        async for row in self._rows(statement, values | few, wanted.limit):
            yield delivery_summary(row)

    async def search_reach(self) -> SearchReach | None:
        """Return how far the index of words reaches, None without one."""
        return await self._database.call(reach)

    async def work_items(self, wanted: WorkFilter) -> AsyncIterator[WorkSummary]:
        """Yield the wanted work items, the newest first."""
        statement, values = work_listing(wanted)
        async for row in self._rows(statement, values, wanted.limit):
            yield work_summary(row)

    async def plan(
        self, wanted: DeliveryFilter, *, after: Cursor | None = None, by_job: bool = False
    ) -> DeliveryPlan:
        """Return what an action on the wanted deliveries would touch."""
        return await self._database.call(lambda connection: plans.plan(connection, wanted, after, by_job))

    async def iter_deliveries(
        self, wanted: DeliveryFilter, *, after: Cursor | None = None, by_job: bool = False
    ) -> AsyncIterator[StoredDelivery]:
        """Yield the wanted deliveries with their bodies; one page is read while that before it is used."""
        reading = await self._database.call(
            lambda connection: readings.start_reading(connection, wanted, after, by_job)
        )
        following = None if reading is None else asyncio.create_task(self._database.call(reading.page))
        try:
            while following is not None:
                page, reading = await following
                following = None if reading is None else asyncio.create_task(self._database.call(reading.page))
                for one in page:
                    yield one
        finally:
            if following is not None:
                following.cancel()

    async def failed_handlers(self, seq: int) -> frozenset[HandlerName]:
        """Return the handlers that failed with a delivery."""

        def read(connection: sqlite3.Connection) -> frozenset[HandlerName]:
            return frozenset(name for (name,) in connection.execute(statements.FAILED_HANDLERS, (seq,)))

        return await self._database.call(read)

    async def resolve(self, prefix: str) -> DeliveryKey:
        """Return the one key that begins so."""

        def read(connection: sqlite3.Connection) -> list[str]:
            # Every key is ASCII, so this bound is above all that begin with the prefix.
            bounds = (prefix, prefix + "\x7f", MAX_NAMED + 1)
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
            headers, body, coding = row[_SUMMARY_COLUMNS:]
            if body is not None:
                headers, body = headers_of(headers), decoded(body, coding, key=key)
            work = connection.execute(statements.WORK_OF, (summary.seq,)).fetchall()
            return DeliveryDetail(summary, headers or (), body, tuple(work_summary(one) for one in work))

        found = await self._database.call(read)
        if found is None:
            raise UnknownDelivery(f"there is no delivery {key}")
        return found

    async def count_unfinished(self) -> int:
        """Return how many deliveries are NEW or WORKING."""
        return await self._database.call(
            lambda connection: int(connection.execute(statements.UNFINISHED).fetchone()[0])
        )

    async def work_item(self, work_id: int) -> WorkDetail:
        """Return a work item with its attempts."""

        def read(connection: sqlite3.Connection) -> WorkDetail | None:
            row = connection.execute(statements.WORK_ITEM, (work_id,)).fetchone()
            if row is None:
                return None
            attempts = connection.execute(statements.ATTEMPTS_OF, (work_id,)).fetchall()
            return WorkDetail(work_summary(row), tuple(attempt(one) for one in attempts))

        found = await self._database.call(read)
        if found is None:
            raise UnknownWork(f"there is no work item {work_id}")
        return found

    async def work_plan(self, wanted: WorkFilter) -> WorkPlan:
        """Return what an action on the wanted work items would touch."""
        return await self._database.call(lambda connection: plans.work_plan(connection, wanted))

    async def work_ids(
        self, wanted: WorkFilter, plan: WorkPlan, *, newest_first: bool = False
    ) -> AsyncIterator[Sequence[int]]:
        """Yield the ids of the items that were planned for and are wanted still."""
        statement, values = work_ids(wanted, newest_first=newest_first)
        first, last, left = plan.first_id, plan.last_id, plan.count
        while left > 0:
            rows = await self._page(statement, values | {"first": first, "last": last, "rows": min(_PAGE, left)})
            if not rows:
                return
            yield [work_id for (work_id,) in rows]
            left -= len(rows)
            first, last = (first, rows[-1][0] - 1) if newest_first else (rows[-1][0] + 1, last)

    async def quarantined_requests(self, wanted: QuarantineFilter) -> AsyncIterator[QuarantinedSummary]:
        """Yield the requests in quarantine, the newest first."""
        statement, values = refused_listing(wanted)
        async for row in self._rows(statement, values, wanted.limit):
            yield QuarantinedSummary(row[0], from_micros(row[1]), *row[2:])

    async def quarantined_request(self, request_id: int) -> Quarantined:
        """Return a request in quarantine."""
        rows = await self._page(statements.REFUSED, {"id": request_id})
        for received_at, reason, detail, key, headers, body in rows:
            return Quarantined(from_micros(received_at), reason, detail, key, headers_of(headers), body)
        raise UnknownRequest(f"there is no request {request_id} in quarantine")

    async def handlers(self) -> Sequence[HandlerReport]:
        """Return every handler that has work items or a switch."""
        return await self._database.call(_handlers)

    async def switches(self) -> Mapping[HandlerName, HandlerSwitch]:
        """Return the handlers that are not on."""
        return await self._database.call(switches)

    async def waiting(self) -> Mapping[HandlerName, int]:
        """Return how many work items of each handler wait, are queued or held."""
        return await self._database.call(lambda connection: dict(connection.execute(statements.WAITING)))

    async def backlog(self, now: datetime) -> Backlog:
        """Return what is still to be done."""

        def read(connection: sqlite3.Connection) -> Backlog:
            (new,) = connection.execute(statements.NEW_DELIVERIES).fetchone()
            waiting, running, lost, *since = connection.execute(statements.BACKLOG).fetchone()
            oldest = min((moment for moment in since if moment is not None), default=None)
            age = None if oldest is None else max(timedelta(0), now - from_micros(oldest))
            paused = [name for name, to in switches(connection).items() if to is HandlerSwitch.PAUSED]
            return Backlog(new, waiting, running, age, tuple(sorted(paused)), lost)

        return await self._database.call(read)

    async def _rows(
        self, statement: str, values: dict[str, object], limit: int | None
    ) -> AsyncIterator[tuple[Any, ...]]:
        """Yield rows a page at a time; the first column is what they are ordered by, downwards."""
        before = _NEWEST
        while limit is None or limit > 0:
            size = _PAGE if limit is None else min(_PAGE, limit)
            page = await self._page(statement, {**values, "before": before, "rows": size})
            for row in page:
                yield row
            if len(page) < size:
                return
            before = page[-1][0]
            limit = None if limit is None else limit - len(page)

    async def _page(self, statement: str, values: dict[str, object]) -> list[tuple[Any, ...]]:
        return await self._database.call(lambda connection: connection.execute(statement, values).fetchall())


def _handlers(connection: sqlite3.Connection) -> Sequence[HandlerReport]:
    counts: dict[HandlerName, dict[WorkState, int]] = {}
    for name, state, count in connection.execute(statements.COUNTS):
        counts.setdefault(name, {})[WorkState(state)] = count
    off = switches(connection)
    return [
        HandlerReport(
            name=name,
            switch=off.get(name, HandlerSwitch.ON),
            counts=counts.get(name, {}),
            last_error=next((error for (error,) in connection.execute(statements.LATEST_ERROR, (name,))), None),
            latency=_median(connection.execute(statements.LATEST_ATTEMPTS, (name,)).fetchall()),
        )
        for name in sorted(counts.keys() | off.keys())
    ]


def _median(rows: list[tuple[int]]) -> timedelta | None:
    return timedelta(microseconds=rows[len(rows) // 2][0]) if rows else None
