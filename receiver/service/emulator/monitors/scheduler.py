"""Starts checks when they are due, one at a time for each monitor."""

import asyncio
from collections.abc import Callable, Coroutine
from datetime import datetime
from types import TracebackType
from typing import Any, Self

from receiver.core.clock import Clock
from receiver.core.log_lines import event_log
from receiver.service.emulator.activity import Activity
from receiver.service.emulator.contracts import Account
from receiver.service.emulator.ids import IdSource
from receiver.service.emulator.monitors.checks import CheckRunner
from receiver.service.emulator.monitors.estimates import credits_of_check
from receiver.service.emulator.monitors.records import new_check
from receiver.service.emulator.monitors.runs import interval_of, jitter_of, next_run
from receiver.service.emulator.monitors.table import MonitorRow, MonitorTable
from receiver.service.emulator.scrapes import Json
from receiver.service.emulator.state.database import StateUnwritable
from receiver.service.emulator.wire.plans import MonitorPlan

log = event_log(__name__)

MAX_MISSED = 100
"""Runs of a monitor that are made up for, one after the other, when the clock was set forward."""
_PAUSE_SECONDS = 1.0
"""Real seconds, when the disk takes nothing."""
_STOPPED = "The emulator was stopped while the check ran"

ReadRecord = Callable[[MonitorRow], MonitorPlan]
"""Returns the plan of a monitor as it is kept."""


class MonitorScheduler:
    """Runs due and manual checks as tasks. Its block starts and stops it.

    A run that is due while a check of the same monitor runs is recorded as skipped_overlap. If the clock was set
    forward over several runs, they come one after the other; of those that were due while the emulator was not
    running, only the last one comes.
    """

    def __init__(
        self,
        *,
        table: MonitorTable,
        runner: CheckRunner,
        account: Account,
        clock: Clock,
        ids: IdSource,
        read: ReadRecord,
        jitter: bool = False,
        activity: Activity | None = None,
    ) -> None:
        self._table = table
        self._runner = runner
        self._account = account
        self._clock = clock
        self._ids = ids
        self._read = read
        self._jitter = jitter
        self._activity = activity or Activity()
        self._wake = asyncio.Event()
        self._busy: dict[str, asyncio.Task[None]] = {}
        self._current: dict[str, str] = {}

    async def __aenter__(self) -> Self:
        self._started_at = self._clock.now()
        for monitor, check in await self._table.unfinished_checks():
            await self._runner.fail(monitor, self._read(monitor), check, _STOPPED)
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        tasks = [self._task, *self._busy.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def changed(self) -> None:
        """Look again which check is due next: monitors were made or changed."""
        self._wake.set()

    def is_busy(self, monitor_id: str) -> bool:
        """Tell whether a check of a monitor runs, or is about to."""
        return monitor_id in self._busy

    def current_check(self, monitor_id: str) -> str | None:
        """Return the id of the check that runs."""
        return self._current.get(monitor_id)

    async def start_now(self, monitor: MonitorRow, plan: MonitorPlan) -> Json:
        """Start a check at once, and return its record as it is queued. No check of the monitor may be running."""
        check = self._queued(monitor, plan, trigger="manual", scheduled_for=None)
        queued = dict(check)
        kept = asyncio.Event()

        async def run() -> None:
            await self._table.begin_check(check)
            kept.set()
            await self._runner.run(monitor, plan, check)

        task = self._spawn(monitor.id, run())
        self._current[monitor.id] = check["id"]
        waiter = asyncio.create_task(kept.wait())
        await asyncio.wait({task, waiter}, return_when=asyncio.FIRST_COMPLETED)
        waiter.cancel()
        if not kept.is_set():
            await task
        return queued

    async def stop_checks(self) -> None:
        """Stop all checks at once. They are not recorded as ended."""
        tasks = list(self._busy.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def over(self) -> None:
        """Return when no check runs."""
        while self._busy:
            await asyncio.wait(list(self._busy.values()))

    def first_run(self, monitor_id: str, plan: MonitorPlan) -> datetime | None:
        """Return when a monitor that is made or changed now runs first; None while it is paused."""
        return self._run_after(monitor_id, plan, self._clock.now()) if plan.status == "active" else None

    async def _run(self) -> None:
        while True:
            self._wake.clear()
            try:
                with self._activity.running():
                    due = await self._start_all_due()
            except StateUnwritable:  # what is due stays due until there is room
                await asyncio.sleep(_PAUSE_SECONDS)
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
        runs: list[datetime] = []
        run = monitor.next_run_at
        while run is not None and run <= now:
            runs = [*runs[-MAX_MISSED + 1 :], run]
            run = self._run_after(monitor.id, plan, run)
        missed = [one for one in runs if one < self._started_at]
        runs = runs[max(0, len(missed) - (len(missed) == len(runs))) :]
        await self._table.plan_run(monitor.id, run)
        if self.is_busy(monitor.id):
            for one in runs:
                await self._skip(monitor, plan, one, "skipped_overlap")
        else:
            self._spawn(monitor.id, self._run_each(monitor, plan, runs))

    async def _run_each(self, monitor: MonitorRow, plan: MonitorPlan, runs: list[datetime]) -> None:
        for run in runs:
            if await self._account.remaining(monitor.team) < 1:
                await self._skip(monitor, plan, run, "skipped_no_credits")
                continue
            check = self._queued(monitor, plan, trigger="scheduled", scheduled_for=run)
            self._current[monitor.id] = check["id"]
            await self._table.begin_check(check)
            await self._runner.run(monitor, plan, check)

    async def _skip(self, monitor: MonitorRow, plan: MonitorPlan, run: datetime, status: str) -> None:
        await self._table.add_check(
            self._queued(monitor, plan, trigger="scheduled", scheduled_for=run, status=status)
        )

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
            self._ids.new(),
            monitor.id,
            now=self._clock.now(),
            trigger=trigger,
            status=status,
            scheduled_for=scheduled_for,
            estimated=credits_of_check(plan),
        )

    def _spawn(self, monitor_id: str, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        self._activity.begin()
        task = asyncio.create_task(work)
        self._busy[monitor_id] = task
        task.add_done_callback(lambda done: self._ended(monitor_id, done))
        return task

    def _ended(self, monitor_id: str, task: asyncio.Task[None]) -> None:
        self._activity.end()
        self._busy.pop(monitor_id, None)
        check_id = self._current.pop(monitor_id, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("monitor_check_crashed", extra={"check": check_id}, exc_info=error)

    def _run_after(self, monitor_id: str, plan: MonitorPlan, after: datetime) -> datetime | None:
        run = next_run(plan.cron, plan.timezone, after)
        if run is None or not self._jitter:
            return run
        # It is less than half of the interval, so the run after this one is still the next by the schedule.
        return run + jitter_of(monitor_id, interval_of(plan.cron, plan.timezone, after))
