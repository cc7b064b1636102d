"""The readers' side of a store. No read holds a snapshot for long: a database cannot clean up while one is open."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

from receiver.core.activity import ActivityCount, WorkerReport, from_minute, to_minute, whole_minutes
from receiver.core.bulk import Cursor, DeliveryPlan, WorkPlan
from receiver.core.clock import from_micros
from receiver.core.deliveries import (
    DeliveryDetail,
    DeliveryFilter,
    DeliverySummary,
    FeedPage,
    Quarantined,
    QuarantinedSummary,
    QuarantineFilter,
    StoredDelivery,
)
from receiver.core.recorded_actions import NewAction, RecordedAction
from receiver.core.subjects import MAX_SUBJECT_BODY, SearchReach, Subject, subject_of
from receiver.core.types import AttemptOutcome, DeliveryKey, HandlerName, HandlerSwitch, WorkState
from receiver.core.work import Backlog, HandlerReport, WorkDetail, WorkFilter, WorkSummary
from receiver.errors import StoreError, UnknownAction, UnknownDelivery, UnknownRequest, UnknownWork
from receiver.stores.prefixes import MAX_NAMED, candidates
from receiver.stores.sql import listings
from receiver.stores.sql.columns_of_bodies import decoded, headers_of
from receiver.stores.sql.connection import SqlConnection, SqlDatabase, Values, number, prefix_bounds
from receiver.stores.sql.jobs import NEWEST, JobReports
from receiver.stores.sql.listings import SCAN_LIMIT, PageReports, among_few, among_few_work, start_reading
from receiver.stores.sql.rows import attempt, delivery_summary, switches, work_summary, worker_report
from receiver.stores.sql.statements import work as statements
from receiver.stores.sql.statements.deliveries import WORDS_BEHIND
from receiver.stores.sql.statements.filters import Reads


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

    async def arrivals(self, since: datetime) -> Mapping[datetime, int]:
        """Count the deliveries since a moment by the minute of their arrival."""

        def read(connection: SqlConnection) -> Mapping[datetime, int]:
            rows = connection.execute(self._reads.deliveries.arrivals, {"since": to_minute(since)})
            return {from_minute(minute): count for minute, count in rows}

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


PAGE_SIZE = 500
_SUMMARY_COLUMNS = 12


class ActionReports:
    """An ActionReader."""

    def __init__(self, database: SqlDatabase) -> None:
        self.database = database

    async def actions(self, *, limit: int, before: int | None = None) -> Sequence[RecordedAction]:
        """Return recorded actions, the newest first."""
        values = {"before": NEWEST if before is None else before, "rows": limit}
        return await self.database.call(
            lambda connection: [_recorded(row) for row in connection.execute(statements.ACTIONS, values)]
        )

    async def action(self, number: int) -> RecordedAction:
        """Return a recorded action."""
        row = await self.database.call(
            lambda connection: connection.execute(statements.ACTION, {"id": number}).fetchone()
        )
        if row is None:
            raise UnknownAction(number)
        return _recorded(row)


class SqlReports(FeedReports, JobReports, ActionReports, PageReports):
    """A Reports, but for `changed`, which each kind of database does in its own way."""

    def __init__(self, database: SqlDatabase, reads: Reads, *, narrow_limit: int = SCAN_LIMIT) -> None:
        FeedReports.__init__(self, database, reads)
        JobReports.__init__(self, database, reads)
        ActionReports.__init__(self, database)
        PageReports.__init__(self, database, reads, narrow_limit=narrow_limit)

    async def search_reach(self) -> SearchReach | None:
        """Return how far the index of words reaches, None without one."""

        def read(connection: SqlConnection) -> SearchReach | None:
            if not number(connection, self._reads.dialect.has_words, {}):
                return None
            behind, through = connection.execute(WORDS_BEHIND).fetchone()
            return SearchReach(behind, None if through is None else from_micros(through))

        return await self.database.call(read)

    async def deliveries(
        self, wanted: DeliveryFilter, *, before: int | None = None
    ) -> AsyncIterator[DeliverySummary]:
        """Yield the wanted deliveries, the newest first."""
        narrower, few = await self.database.call(
            lambda connection: among_few(connection, self._reads, wanted, scan_limit=self._narrow_limit)
        )
        statement, values = self._reads.filters.delivery_listing(wanted, narrower)
        async for row in self._rows(statement, values | few, wanted.limit, before):
            yield delivery_summary(row)

    async def work_items(self, wanted: WorkFilter, *, before: int | None = None) -> AsyncIterator[WorkSummary]:
        """Yield the wanted work items, the newest first."""
        narrower, few = await self.database.call(
            lambda connection: among_few_work(connection, self._reads, wanted, scan_limit=self._narrow_limit)
        )
        statement, values = self._reads.filters.work_listing(wanted, narrower)
        async for row in self._rows(statement, values | few, wanted.limit, before):
            yield work_summary(row)

    async def plan(
        self, wanted: DeliveryFilter, *, after: Cursor | None = None, by_job: bool = False
    ) -> DeliveryPlan:
        """Return what an action on the wanted deliveries would touch."""
        return await self.database.call(
            lambda connection: listings.plan(connection, self._reads, wanted, after, by_job)
        )

    async def iter_deliveries(
        self, wanted: DeliveryFilter, *, after: Cursor | None = None, by_job: bool = False
    ) -> AsyncIterator[StoredDelivery]:
        """Yield the wanted deliveries with their bodies; one page is read while that before it is used."""
        reading = await self.database.call(
            lambda connection: start_reading(
                connection, self._reads, wanted, after, by_job, narrow_limit=self._narrow_limit
            )
        )
        following = None if reading is None else asyncio.create_task(self.database.call(reading.page))
        try:
            while following is not None:
                page, reading = await following
                following = None if reading is None else asyncio.create_task(self.database.call(reading.page))
                for one in page:
                    yield one
        finally:
            if following is not None:
                following.cancel()

    async def failed_handlers(self, seq: int) -> frozenset[HandlerName]:
        """Return the handlers that failed with a delivery."""

        def read(connection: SqlConnection) -> frozenset[HandlerName]:
            rows = connection.execute(self._reads.deliveries.failed_handlers, {"seq": seq})
            return frozenset(name for (name,) in rows)

        return await self.database.call(read)

    async def resolve(self, prefix: str) -> DeliveryKey:
        """Return the one key that begins so."""

        def read(connection: SqlConnection) -> list[str]:
            if connection.execute(self._reads.deliveries.has_key, {"key": prefix}).fetchone():
                return [prefix]
            bounds = prefix_bounds(prefix) | {"rows": 2 * (MAX_NAMED + 1)}
            return sorted({key for (key,) in connection.execute(self._reads.deliveries.keys_from, bounds)})

        keys = await self.database.call(read)
        if len(keys) == 1:
            return DeliveryKey(keys[0])
        raise UnknownDelivery(candidates(prefix, keys))

    async def detail(self, key: DeliveryKey) -> DeliveryDetail:
        """Return all that is known of a delivery."""

        def read(connection: SqlConnection) -> DeliveryDetail | None:
            row = connection.execute(self._reads.deliveries.detail, {"key": key}).fetchone()
            if row is None:
                return None
            summary = delivery_summary(row[:_SUMMARY_COLUMNS])
            headers, body, coding = row[_SUMMARY_COLUMNS:]
            unreadable = ""
            if body is not None:
                headers = headers_of(headers)
                try:
                    body = decoded(body, coding, key=key)
                except StoreError as exc:
                    body, unreadable = None, str(exc)
            rows = connection.execute(self._reads.work.work_of, {"seq": summary.seq}).fetchall()
            work = tuple(work_summary(one) for one in rows)
            return DeliveryDetail(summary, headers or (), body, work, unreadable)

        found = await self.database.call(read)
        if found is None:
            raise UnknownDelivery(f"there is no delivery {key}")
        return found

    async def subjects(self, seqs: Sequence[int]) -> Mapping[int, Subject]:
        """Return what deliveries are about, for those whose bodies are there and not too long."""

        def read(connection: SqlConnection) -> Mapping[int, Subject]:
            values = {"seqs": self._reads.dialect.array(seqs), "most": MAX_SUBJECT_BODY}
            found: dict[int, Subject] = {}
            for seq, key, kind, job_id, body, coding in connection.execute(self._reads.deliveries.subjects, values):
                with suppress(StoreError):  # a damaged body; `events show` reports it
                    found[seq] = subject_of(kind, job_id, decoded(body, coding, key=key))
            return found

        return await self.database.call(read)

    async def count_unfinished(self) -> int:
        """Return how many deliveries are NEW or WORKING."""
        return await self.database.call(lambda connection: number(connection, self._reads.health.unfinished, {}))

    async def work_item(self, work_id: int) -> WorkDetail:
        """Return a work item with its attempts."""

        def read(connection: SqlConnection) -> WorkDetail | None:
            row = connection.execute(self._reads.work.work_item, {"id": work_id}).fetchone()
            if row is None:
                return None
            attempts = connection.execute(self._reads.work.attempts_of, {"id": work_id}).fetchall()
            return WorkDetail(work_summary(row), tuple(attempt(one) for one in attempts))

        found = await self.database.call(read)
        if found is None:
            raise UnknownWork(work_id)
        return found

    async def work_plan(self, wanted: WorkFilter) -> WorkPlan:
        """Return what an action on the wanted work items would touch."""
        return await self.database.call(lambda connection: listings.work_plan(connection, self._reads, wanted))

    async def work_ids(
        self, wanted: WorkFilter, plan: WorkPlan, *, newest_first: bool = False
    ) -> AsyncIterator[Sequence[int]]:
        """Yield the ids of the items that were planned for and are wanted still."""
        statement, values = self._reads.filters.work_ids(wanted, newest_first=newest_first)
        first, last, left = plan.first_id, plan.last_id, plan.count
        while left > 0:
            rows = await self._page(
                statement, values | {"first": first, "last": last, "rows": min(PAGE_SIZE, left)}
            )
            if not rows:
                return
            yield [work_id for (work_id,) in rows]
            left -= len(rows)
            first, last = (first, rows[-1][0] - 1) if newest_first else (rows[-1][0] + 1, last)

    async def quarantined_requests(
        self, wanted: QuarantineFilter, *, before: int | None = None
    ) -> AsyncIterator[QuarantinedSummary]:
        """Yield the requests in quarantine, the newest first."""
        statement, values = self._reads.filters.quarantine_listing(wanted)
        async for row in self._rows(statement, values, wanted.limit, before):
            yield QuarantinedSummary(row[0], from_micros(row[1]), *row[2:])

    async def quarantined_request(self, request_id: int) -> Quarantined:
        """Return a request in quarantine."""
        rows = await self._page(self._reads.quarantine.request, {"id": request_id})
        for received_at, reason, detail, key, headers, body in rows:
            return Quarantined(from_micros(received_at), reason, detail, key, headers_of(headers), body)
        raise UnknownRequest(request_id)

    async def handlers(self, *, count_done: bool = True) -> Sequence[HandlerReport]:
        """Return every handler that has work items, a switch or a schedule."""
        return await self.database.call(lambda connection: self._handlers(connection, count_done=count_done))

    async def handler_names(self) -> Sequence[HandlerName]:
        """Return the names of all handlers that have work items, and perhaps of others that had some."""
        return [HandlerName(name) for (name,) in await self._page(self._reads.health.names, {})]

    async def switches(self) -> Mapping[HandlerName, HandlerSwitch]:
        """Return the handlers that are not on."""
        return await self.database.call(switches)

    async def waiting(self) -> Mapping[HandlerName, int]:
        """Return how many work items of each handler wait, are queued or held."""
        return await self.database.call(lambda connection: dict(connection.execute(self._reads.health.waiting)))

    async def activity(
        self, *, since: datetime, step: timedelta, handler: HandlerName | None = None
    ) -> Sequence[ActivityCount]:
        """Return what handlers did since a moment."""
        size = whole_minutes(step)
        values: Values = {"since": to_minute(since) // size * size, "step": size}
        if handler is None:
            rows = await self._page(self._reads.health.activity, values)
        else:
            rows = await self._page(self._reads.health.activity_of, {**values, "handler": handler})
        return [
            ActivityCount(from_minute(minute), name, AttemptOutcome(outcome), bucket, count)
            for minute, name, outcome, bucket, count in rows
        ]

    async def workers(self) -> Sequence[WorkerReport]:
        """Return the workers that have not said that they ended."""

        def read(connection: SqlConnection) -> Sequence[WorkerReport]:
            leased: dict[str, dict[HandlerName, int]] = {}
            for worker, handler, count in connection.execute(self._reads.health.leased):
                leased.setdefault(worker, {})[handler] = count
            return [
                worker_report(row, leased.get(row[0], {})) for row in connection.execute(self._reads.health.workers)
            ]

        return await self.database.call(read)

    async def paces(self) -> Mapping[HandlerName, datetime]:
        """Return until when handlers with a rate are paced."""
        rows = await self._page(self._reads.health.paces, {})
        return {HandlerName(name): from_micros(until) for name, until in rows}

    async def backlog(self, now: datetime) -> Backlog:
        """Return what is still to be done."""

        def read(connection: SqlConnection) -> Backlog:
            waiting, running, lost, new, *since = connection.execute(self._reads.health.backlog).fetchone()
            oldest = min((moment for moment in since if moment is not None), default=None)
            age = None if oldest is None else max(timedelta(0), now - from_micros(oldest))
            paused = [name for name, to in switches(connection).items() if to is HandlerSwitch.PAUSED]
            next_runs = {name: from_micros(at) for name, _, at in connection.execute(self._reads.health.schedules)}
            return Backlog(new, waiting, running, age, tuple(sorted(paused)), lost, next_runs)

        return await self.database.call(read)

    async def _rows(
        self, statement: str, values: Values, limit: int | None, before: int | None
    ) -> AsyncIterator[tuple[Any, ...]]:
        """Yield rows a page at a time; the first column is what they are ordered by, downwards."""
        before = NEWEST if before is None else before
        while limit is None or limit > 0:
            size = PAGE_SIZE if limit is None else min(PAGE_SIZE, limit)
            page = await self._page(statement, {**values, "before": before, "rows": size})
            for row in page:
                yield row
            if len(page) < size:
                return
            before = page[-1][0]
            limit = None if limit is None else limit - len(page)

    async def _page(self, statement: str, values: Values) -> list[tuple[Any, ...]]:
        return await self.database.call(lambda connection: connection.execute(statement, values).fetchall())

    def _handlers(self, connection: SqlConnection, *, count_done: bool) -> Sequence[HandlerReport]:
        health = self._reads.health
        counts: dict[HandlerName, dict[WorkState, int]] = {}
        if not count_done:
            counts = {name: {} for (name,) in connection.execute(health.names)}
        for name, state, count in connection.execute(health.counts if count_done else health.counts_but_done):
            counts.setdefault(name, {})[WorkState(state)] = count
        off = switches(connection)
        scheduled = {
            name: (schedule, from_micros(at))
            for name, schedule, at in connection.execute(self._reads.health.schedules)
        }
        reports = []
        for name in sorted(counts.keys() | off.keys() | scheduled.keys()):
            error = connection.execute(health.latest_error, {"handler": name}).fetchone() or (None, None)
            schedule, next_run = scheduled.get(name, (None, None))
            reports.append(
                HandlerReport(
                    name=name,
                    switch=off.get(name, HandlerSwitch.ON),
                    counts=counts.get(name, {}),
                    last_error=error[0],
                    latency=_median(connection, health.latest_attempts, name) if count_done else None,
                    failed_id=error[1],
                    schedule=schedule,
                    next_run=next_run,
                )
            )
        return reports


def _median(connection: SqlConnection, statement: str, handler: HandlerName) -> timedelta | None:
    rows = connection.execute(statement, {"handler": handler}).fetchall()
    return timedelta(microseconds=rows[len(rows) // 2][0]) if rows else None


def _recorded(row: Sequence[Any]) -> RecordedAction:
    number, actor, verb, about, choice, planned, began_at, seen_at, ended_at, seen, changed, error = row
    return RecordedAction(
        number,
        NewAction(actor, verb, about, planned, json.loads(choice)),
        from_micros(began_at),
        from_micros(seen_at),
        None if ended_at is None else from_micros(ended_at),
        seen,
        changed,
        error,
    )
