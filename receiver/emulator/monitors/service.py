"""The monitors of the emulator, as the operations of the API use them."""

from collections.abc import Callable, Collection
from dataclasses import replace
from datetime import datetime, timedelta
from types import TracebackType
from typing import Self

from receiver.emulator.failures import CallRefused
from receiver.emulator.monitors.checks import CheckContext, credits_of_check
from receiver.emulator.monitors.scheduler import MonitorScheduler, interval_of
from receiver.emulator.monitors.table import MonitorRow, MonitorTable, written
from receiver.emulator.scrapes import Json
from receiver.emulator.wire.monitors import read_monitor, read_monitor_changes
from receiver.emulator.wire.plans import MonitorPlan
from receiver.emulator.wire.policy import RequestPolicy

_MONTH = timedelta(days=30)
"""For what a monitor is estimated to cost: it counts as many checks as fit between the next two."""


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
