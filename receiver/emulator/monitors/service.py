"""Monitors: they are made, changed and deleted, and their checks run when they are due or asked for."""

import asyncio
import hashlib
import itertools
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from types import TracebackType
from typing import Any, Self

from receiver.core.cron import last_runs, next_run
from receiver.emulator.failures import CallRefused
from receiver.emulator.jobs.engine import RunningJobs
from receiver.emulator.monitors import table as monitor_tables
from receiver.emulator.monitors.checks import CheckContext, CheckRunner, credits_of_check
from receiver.emulator.monitors.table import MonitorRow, MonitorTable, new_check, written
from receiver.emulator.scrapes import Json
from receiver.emulator.state.database import StateUnwritable
from receiver.emulator.wire.bodies import RequestPolicy
from receiver.emulator.wire.monitors import MonitorPlan, read_monitor, read_monitor_changes
from receiver.runtime.log_lines import event_log

log = event_log(__name__)

_MONTH = timedelta(days=30)
"""For what a monitor is estimated to cost: it counts as many checks as fit between the next two."""
LONGEST_JITTER = timedelta(minutes=5)
"""How much later than its minute a run may come, if the emulator imitates the service in this."""
MAX_RUNS = 400
"""Runs of a monitor that come when the clock is moved over more of them at one time: the last ones."""

ReadRecord = Callable[[MonitorRow], MonitorPlan]
"""Returns the plan of a monitor as it is kept."""


class MonitorScheduler:
    """Runs due and manual checks as tasks. Its block starts and stops it.

    A run that is due while a check of the same monitor runs is recorded as skipped_overlap. When the clock is moved
    over several runs, they come one after the other, at most the last MAX_RUNS of them; of those that were due
    while the emulator was not running, only the last one comes. Checks that were cut short by its end are resumed.
    """

    def __init__(
        self, context: CheckContext, read: ReadRecord, *, horizon: Callable[[], datetime], jitter: bool = False
    ) -> None:
        """`horizon` returns up to which moment the clock is being moved, the present one while it only passes."""
        self._context = context
        self._database = context.database
        self._table = MonitorTable(context.database)
        self._clock = context.clock
        self._read = read
        self._horizon = horizon
        self._jitter = jitter
        self._wake = asyncio.Event()
        self._checks = RunningJobs(context.activity, context.ids)
        self._current: dict[str, str] = {}
        """For each monitor whose checks run, the id of the present one."""
        self._thinned: dict[str, datetime] = {}
        """For each monitor, the horizon up to which its runs were counted."""

    async def __aenter__(self) -> Self:
        self._started_at = self._clock.now()
        await self._plan_anew()
        unfinished: dict[str, list[tuple[MonitorRow, Json]]] = defaultdict(list)
        for monitor, check in await self._table.unfinished_checks():
            unfinished[monitor.id].append((monitor, check))
        for checks in unfinished.values():
            self._start(checks)
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self._checks.stop_all()

    async def _plan_anew(self) -> None:
        """Let no monitor wait past its next run: the clock may have been ahead before."""
        for monitor in await self._table.active():
            following = self._run_after(monitor.id, self._read(monitor), self._started_at)
            due = monitor.next_run_at
            if following is not None and due is not None and due > following:
                plan = partial(monitor_tables.plan_run, monitor_id=monitor.id, due_at=due, next_run_at=following)
                await self._database.run(plan)

    def changed(self) -> None:
        """Look again which check is due next: monitors were made or changed."""
        self._wake.set()

    def is_busy(self, monitor_id: str) -> bool:
        """Return whether a check of a monitor runs, or is about to."""
        return monitor_id in self._checks

    def current_check(self, monitor_id: str) -> str | None:
        """Return the id of the check that runs."""
        return self._current.get(monitor_id)

    async def start_now(self, monitor: MonitorRow, plan: MonitorPlan) -> Json:
        """Start a check at once, and return its record as it is queued. No check of the monitor may be running."""
        check = self._queued(monitor, plan, trigger="manual", scheduled_for=None)
        queued = dict(check)
        kept: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        async def run() -> None:
            try:
                await self._database.run(lambda connection: _queue(connection, monitor, [check]))
                kept.set_result(None)
            except Exception as exc:
                kept.set_exception(exc)
            else:
                await self._run_each([(monitor, check)])

        self._current[monitor.id] = check["id"]
        self._checks.start(monitor.id, run()).add_done_callback(lambda _: kept.cancel())
        await asyncio.shield(kept)  # a caller that goes away stops nothing
        return queued

    async def stop_checks(self) -> None:
        """Stop all checks at once. They are not recorded as ended."""
        await self._checks.stop_all()

    async def over(self) -> None:
        """Return when no check runs."""
        await self._checks.over()

    def first_run(self, monitor_id: str, plan: MonitorPlan) -> datetime | None:
        """Return when a monitor that is made or changed now runs first; None while it is paused."""
        return self._run_after(monitor_id, plan, self._clock.now()) if plan.status == "active" else None

    async def _run(self) -> None:
        while True:
            self._wake.clear()
            try:
                with self._context.activity.running():
                    due = await self._start_all_due()
            except StateUnwritable:  # what is due stays due until there is room
                await asyncio.sleep(self._database.pause)
                continue
            now = self._clock.now()
            if due is not None and due <= now:
                continue
            timer = None if due is None else self._clock.call_later(due - now, self._wake.set)
            try:
                await self._wake.wait()
            finally:
                if timer is not None:
                    timer.cancel()

    async def _start_all_due(self) -> datetime | None:
        """Start what is due, and return when something is due again."""
        while True:
            now = self._clock.now()
            for monitor in await self._table.due(now):
                await self._start_due(monitor, now)
            due = await self._table.next_due()
            if due is None or due > now:
                return due

    async def _start_due(self, monitor: MonitorRow, now: datetime) -> None:
        """Start the runs of a monitor that have become due, and plan the next one."""
        plan = self._read(monitor)
        runs, following = self._due_runs(monitor, plan, now)
        missed = [one for one in runs if one < self._started_at]
        runs = runs[max(0, len(missed) - (len(missed) == len(runs))) :]
        is_busy = self.is_busy(monitor.id)
        status = "skipped_overlap" if is_busy else "queued"
        checks = [
            self._queued(monitor, plan, trigger="scheduled", scheduled_for=one, status=status) for one in runs
        ]

        def work(connection: sqlite3.Connection) -> bool:
            planned = monitor_tables.plan_run(connection, monitor.id, monitor.next_run_at, following)
            if planned:
                _queue(connection, monitor, checks)
            return planned

        if await self._database.run(work) and not is_busy and checks:
            self._start([(monitor, check) for check in checks])

    def _due_runs(
        self, monitor: MonitorRow, plan: MonitorPlan, now: datetime
    ) -> tuple[list[datetime], datetime | None]:
        """Return the runs to start, and the next one. If the clock moves over too many, the first are left out."""
        first = monitor.next_run_at or now
        horizon = max(now, self._horizon())
        if self._thinned.get(monitor.id) == horizon:
            return [first], self._run_after(monitor.id, plan, first)
        self._thinned[monitor.id] = horizon
        runs = self._runs_between(monitor.id, plan, first, horizon) or [first]
        if len(runs) == MAX_RUNS and runs[0] > first:
            log.warning("monitor_runs_left_out", extra={"monitor": monitor.id, "until": written(runs[0])})
        due = [run for run in runs if run <= now]
        following = next((run for run in runs if run > now), None)
        return due, following or self._run_after(monitor.id, plan, runs[-1])

    def _runs_between(self, monitor_id: str, plan: MonitorPlan, first: datetime, until: datetime) -> list[datetime]:
        """Return the last runs from `first` on and up to `until`."""
        cron, zone = plan.cron, plan.timezone
        since = first - LONGEST_JITTER - timedelta(microseconds=1)
        runs = last_runs(cron, zone, since, until, MAX_RUNS + 1)
        if self._jitter and runs:
            after = itertools.pairwise([*runs, next_run(cron, zone, runs[-1])])
            runs = [run + jitter_of(monitor_id, None if end is None else end - run) for run, end in after if run]
        return [run for run in runs if first <= run <= until][-MAX_RUNS:]

    def _start(self, checks: Sequence[tuple[MonitorRow, Json]]) -> None:
        monitor, check = checks[0]
        self._current[monitor.id] = check["id"]
        self._checks.start(monitor.id, self._run_each(checks))

    async def _run_each(self, checks: Sequence[tuple[MonitorRow, Json]]) -> None:
        """Run checks of one monitor, one after the other: those that are queued, and one that has begun."""
        for monitor, check in checks:
            self._current[monitor.id] = check["id"]
            if check["status"] == "queued" and (reason := await self._obstacle(monitor)) is not None:
                await self._skip(check, **reason)
                continue
            body = await self._context.state.run(partial(monitor_tables.body_of, check_id=check["id"]))
            plan = self._read(monitor if body is None else replace(monitor, body=body))
            runner = CheckRunner(monitor, plan, check, self._context)
            await self._checks.complete(check["id"], runner)

    async def _obstacle(self, monitor: MonitorRow) -> Json | None:
        """Return why a check that waits its turn does not begin."""
        state, account = self._context.state, self._context.account
        if await MonitorTable(state).find(monitor.team, monitor.id) is None:
            return {"status": "failed", "error": "The monitor was deleted before the check began"}
        if await state.until_written(lambda: account.remaining(monitor.team)) < 1:
            return {"status": "skipped_no_credits"}
        return None

    async def _skip(self, check: Json, **reason: Any) -> None:
        now = written(self._clock.now())
        skipped = {**check, **reason, "finishedAt": now, "updatedAt": now}

        def work(connection: sqlite3.Connection) -> None:
            monitor_tables.skip_check(connection, skipped)
            monitor_tables.forget_work(connection, check["id"])

        await self._context.state.run(work)

    def _queued(
        self,
        monitor: MonitorRow,
        plan: MonitorPlan,
        *,
        trigger: str,
        scheduled_for: datetime | None,
        status: str = "queued",
    ) -> Json:
        return new_check(
            self._context.ids.new(),
            monitor.id,
            now=self._clock.now(),
            trigger=trigger,
            status=status,
            scheduled_for=scheduled_for,
            estimated=credits_of_check(plan),
        )

    def _run_after(self, monitor_id: str, plan: MonitorPlan, after: datetime) -> datetime | None:
        run = next_run(plan.cron, plan.timezone, after)
        if run is None or not self._jitter:
            return run
        # It is less than half of the interval, so the run after this one is still the next by the schedule.
        return run + jitter_of(monitor_id, interval_of(plan.cron, plan.timezone, after))


def _queue(connection: sqlite3.Connection, monitor: MonitorRow, checks: Sequence[Json]) -> None:
    """Keep new checks of a monitor; the first that is queued is its current one."""
    queued = [check for check in checks if check["status"] == "queued"]
    for check in checks:
        monitor_tables.insert_check(connection, check)
    for check in queued:
        monitor_tables.insert_work(connection, check["id"], monitor.body)
    if queued:
        monitor_tables.set_current(connection, queued[0])


def interval_of(cron: str, timezone: str, after: datetime) -> timedelta | None:
    """Return the time between the next two runs; None if there are no two within a year."""
    first = next_run(cron, timezone, after)
    second = None if first is None else next_run(cron, timezone, first)
    return None if first is None or second is None else second - first


def jitter_of(monitor_id: str, interval: timedelta | None) -> timedelta:
    """Return how much later than its minute each run of a monitor comes, as the service spreads them."""
    number = int.from_bytes(hashlib.sha256(monitor_id.encode()).digest()[:4], "big")
    bound = min(LONGEST_JITTER, LONGEST_JITTER if interval is None else interval / 2)
    milliseconds = max(1, bound // timedelta(milliseconds=1))
    return timedelta(milliseconds=number % milliseconds)


class MonitorBusy(Exception):
    """A check of the monitor runs."""

    def __init__(self, check_id: str | None) -> None:
        super().__init__(check_id)
        self.check_id = check_id


class Monitors:
    """Keeps monitors and runs their checks. Its block starts and stops the schedule.

    CallRefused with status 404 says that the team has no such monitor or check.
    """

    def __init__(
        self,
        context: CheckContext,
        *,
        jitter: bool = False,
        policy: RequestPolicy | None = None,
        horizon: Callable[[], datetime] | None = None,
    ) -> None:
        """`horizon` returns up to which moment the clock is being moved; without it, it only passes."""
        self._clock = context.clock
        self._ids = context.ids
        self._policy = policy or RequestPolicy()
        self._policy_of_kept = replace(self._policy, threat_protection="on", plain_hosts=None)
        self._table = MonitorTable(context.database)
        horizon = horizon or context.clock.now
        self._scheduler = MonitorScheduler(context, self._plan_of, horizon=horizon, jitter=jitter)

    async def __aenter__(self) -> Self:
        await self._scheduler.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._scheduler.__aexit__(kind, error, traceback)

    async def over(self) -> None:
        """Return when no check runs."""
        await self._scheduler.over()

    async def reset(self) -> None:
        """Stop all checks: the tables are emptied after this."""
        await self._scheduler.stop_checks()

    async def create(self, team: str, body: Json) -> Json:
        """Make a monitor, and return its record. CallRefused says what is wrong with the body."""
        now = self._clock.now()
        plan = read_monitor(body, new_id=self._ids.new, now=now, policy=self._policy)
        monitor_id = self._ids.new()
        first = self._scheduler.first_run(monitor_id, plan)
        await self._table.add(team, monitor_id, plan.body, now=now, next_run_at=first)
        self._scheduler.changed()
        return await self.get(team, monitor_id)

    async def newest(self, team: str, limit: int, offset: int) -> list[Json]:
        """Return records of monitors, the newest first."""
        return [self._record(row) for row in await self._table.newest(team, limit, offset)]

    async def get(self, team: str, monitor_id: str) -> Json:
        """Return the record of a monitor."""
        return self._record(await self._find(team, monitor_id), subscriptions=True)

    async def change(self, team: str, monitor_id: str, body: Json, nulls: Collection[str] = ()) -> Json:
        """Change a monitor, and return its record. `nulls` are the keys that were null in the request."""
        row = await self._find(team, monitor_id)
        now = self._clock.now()
        plan = read_monitor_changes(body, row.body, new_id=self._ids.new, now=now, nulls=nulls, policy=self._policy)
        first = self._scheduler.first_run(monitor_id, plan)
        await self._table.change(monitor_id, plan.body, now=now, next_run_at=first)
        self._scheduler.changed()
        return await self.get(team, monitor_id)

    async def delete(self, team: str, monitor_id: str) -> None:
        """Delete a monitor. A check that runs is not stopped."""
        await self._find(team, monitor_id)
        await self._table.delete(monitor_id)

    async def run(self, team: str, monitor_id: str) -> Json:
        """Start a check, and return its record. MonitorBusy says that one runs already."""
        row = await self._find(team, monitor_id)
        if row.status == "paused":
            raise CallRefused(409, "Monitor is paused")
        if self._scheduler.is_busy(monitor_id):
            raise MonitorBusy(self._scheduler.current_check(monitor_id))
        return await self._scheduler.start_now(row, self._plan_of(row))

    async def checks(self, team: str, monitor_id: str, limit: int, offset: int, status: str | None) -> list[Json]:
        """Return records of checks, the newest first."""
        await self._find(team, monitor_id)
        return await self._table.checks(monitor_id, limit, offset, status)

    async def check(self, team: str, monitor_id: str, check_id: str) -> Json:
        """Return the record of a check."""
        await self._find(team, monitor_id)
        check = await self._table.check(monitor_id, check_id)
        if check is None:
            raise CallRefused(404, "Check not found")
        return check

    async def pages(self, check_id: str, limit: int, skip: int, status: str | None) -> list[Json]:
        """Return records of the pages of a check."""
        return await self._table.pages(check_id, limit, skip, status)

    async def _find(self, team: str, monitor_id: str) -> MonitorRow:
        row = await self._table.find(team, monitor_id)
        if row is None:
            raise CallRefused(404, "Monitor not found")
        return row

    def _plan_of(self, row: MonitorRow) -> MonitorPlan:
        """Return the plan of a kept monitor: a change that changes nothing reads it again.

        It was accepted when it was made or changed last, whatever the policy and the calendar say now.
        """
        unchanged = {"name": row.body["name"]}
        return read_monitor_changes(
            unchanged, row.body, new_id=self._ids.new, now=row.updated_at, policy=self._policy_of_kept
        )

    def _record(self, row: MonitorRow, *, subscriptions: bool = False) -> Json:
        """Return a monitor as answers have it; with `subscriptions`, also the state of each recipient of mails."""
        plan = self._plan_of(row)
        interval = interval_of(plan.cron, plan.timezone, self._clock.now())
        a_month = -(-_MONTH // interval) if interval else 1
        record = {
            "id": row.id,
            **row.body,
            "status": row.status,
            "createdAt": written(row.created_at),
            "updatedAt": written(row.updated_at),
            "lastRunAt": written(row.last_run_at),
            "nextRunAt": written(row.next_run_at),
            "currentCheckId": row.current_check_id,
            "estimatedCreditsPerMonth": credits_of_check(plan) * a_month,
            "lastCheckSummary": row.last_summary,
        }
        email = (row.body.get("notification") or {}).get("email") or {}
        if subscriptions and (recipients := list(email.get("recipients") or ())):
            record["emailRecipientSubscriptions"] = [
                # The service's SDK takes the sources team, opt_in and legacy, and raises for any other.
                {"email": one, "status": "pending", "source": "opt_in", "confirmationEmailSent": False}
                for one in recipients
            ]
        return record
