"""Keeps what a check finds: each page with its event and its price in one transaction, and so its end."""

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from receiver.core.clock import Clock
from receiver.emulator.ids import IdSource
from receiver.emulator.monitors import table
from receiver.emulator.monitors.findings import PageFinding
from receiver.emulator.monitors.ports import CheckAccount, CheckEvents
from receiver.emulator.monitors.records import written
from receiver.emulator.monitors.table import CheckProgress
from receiver.emulator.monitors.work import CheckWork
from receiver.emulator.scrapes import Json
from receiver.emulator.state.database import StateDatabase
from receiver.emulator.webhooks.table import PreparedDelivery

Note = Callable[[sqlite3.Connection], bool]
"""Notes that a page is done; False: it is not to be recorded."""


def _always(connection: sqlite3.Connection) -> bool:
    return True


class CheckRecorder:
    """Writes checks. What one call writes is there after the end of the process as a whole, or not at all."""

    def __init__(
        self, *, database: StateDatabase, events: CheckEvents, account: CheckAccount, clock: Clock, ids: IdSource
    ) -> None:
        self._database = database
        self._events = events
        self._account = account
        self._clock = clock
        self._ids = ids

    async def progress(self, check_id: str) -> CheckProgress:
        """Return how far a check has come."""
        return await self._database.patient.run(lambda connection: table.read_progress(connection, check_id))

    async def visited(self, check_id: str, target: int) -> set[int]:
        """Return which pages of a target's list of URLs are done, by their positions."""
        return await self._database.patient.run(lambda connection: table.visited(connection, check_id, target))

    async def save(self, work: CheckWork) -> None:
        """Keep the present state of a check, which is the current one of its monitor."""
        work.check |= {"summary": dict(work.summary), "updatedAt": written(self._clock.now())}

        def write(connection: sqlite3.Connection) -> None:
            table.update_check(connection, work.check)
            table.set_current(connection, work.check)
            table.end_targets(connection, work.check_id, work.done, work.errors)

        await self._database.patient.run(write)

    async def page(self, work: CheckWork, target_id: str, finding: PageFinding, note: Note = _always) -> None:
        """Keep the result of a page, its price, and its event: one for each URL of a check, and one for its error.

        Nothing happens if `note` says that the page is not to be recorded.
        """
        event = self._event(work, finding)
        now = written(self._clock.now())
        record = finding.record(self._ids.new(), target_id, now)
        check = work.with_page(finding, now)
        markdown = await asyncio.to_thread(table.packed_markdown, finding.memory)

        def write(connection: sqlite3.Connection) -> bool:
            if not note(connection):
                return False
            table.add_page(connection, check, record, finding.memory, markdown)
            table.update_check(connection, check)
            self._account.charge_within(connection, work.monitor.team, finding.cost)
            self._events.keep(connection, event)
            return True

        if await self._database.patient.run(write):
            work.add(target_id, finding, check)
            self._events.wake(event)

    async def hits(
        self, work: CheckWork, place: int, target_id: str, findings: Sequence[PageFinding], *, cost: int
    ) -> None:
        """Keep all hits of a target's searches with their price and their events, and that the target is done."""
        now = written(self._clock.now())
        check = work.with_hits(findings, cost, now)
        events = [self._event(work, finding) for finding in findings]
        records = [finding.record(self._ids.new(), target_id, now) for finding in findings]
        texts = [table.packed_markdown(finding.memory) for finding in findings]

        def write(connection: sqlite3.Connection) -> None:
            for finding, record, text in zip(findings, records, texts, strict=True):
                table.add_page(connection, check, record, finding.memory, text)
            table.update_check(connection, check)
            table.end_targets(connection, work.check_id, [*work.done, place], work.errors)
            self._account.charge_within(connection, work.monitor.team, cost)
            self._events.keep(connection, *events)

        await self._database.patient.run(write)
        for finding in findings:
            work.add(target_id, finding, check)
        work.check, work.cost = check, check["actualCredits"]
        self._events.wake(*events)

    async def end(self, work: CheckWork, changes: Json, forget: Callable[[sqlite3.Connection], None]) -> None:
        """Keep how a check ended, and tell of it."""
        now = self._clock.now()
        work.check |= {**changes, "finishedAt": written(now), "updatedAt": written(now)}
        status = work.check["status"]
        told = {
            "monitorId": work.monitor_id,
            "checkId": work.check_id,
            "status": status,
            "summary": dict(work.summary),
        }
        event = self._events.prepare(
            work.plan.webhook,
            "monitor.check.completed",
            work.check_id,
            success=status == "completed",
            data=[told],
            error=work.check["error"] if status == "failed" else None,
        )
        keep_from = self._kept_from(work, now)

        def write(connection: sqlite3.Connection) -> None:
            table.end_check(connection, work.check, begun_at=work.begun_at, keep_from=keep_from)
            table.forget_work(connection, work.check_id)
            forget(connection)
            self._events.keep(connection, event)

        await self._database.patient.run(write)
        self._events.wake(event)

    def _event(self, work: CheckWork, finding: PageFinding) -> PreparedDelivery | None:
        """Return the delivery that tells of a page; None if it has none, or was told of."""
        if work.event_key(finding) is None:
            return None
        return self._events.prepare(
            work.plan.webhook,
            "monitor.page",
            work.check_id,
            success=finding.status != "error",
            data=[finding.event(work.monitor_id, work.check_id)],
            error=finding.error,
        )

    def _kept_from(self, work: CheckWork, now: datetime) -> datetime:
        return now - timedelta(days=work.plan.retention_days)
