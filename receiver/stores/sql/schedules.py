"""Scheduled runs in a SQL store."""

from collections.abc import Sequence
from datetime import datetime

from receiver.core.claims import DueRun
from receiver.core.clock import from_micros, to_micros
from receiver.core.schedules import FORGOTTEN_AFTER, KEPT_RUNS, PlannedRun, RunOutcome, counts_still, run_keys
from receiver.core.types import HandlerName, HandlerSwitch, Trigger
from receiver.core.work import NewWork
from receiver.stores.sql.connection import SqlConnection, SqlDatabase, Values, number, prefix_bounds
from receiver.stores.sql.maintenance import remove_deliveries
from receiver.stores.sql.rows import switches
from receiver.stores.sql.statements import schedules as statements
from receiver.stores.sql.writes import Writes


class SqlSchedules:
    """A ScheduleQueue."""

    def __init__(self, database: SqlDatabase, writes: Writes) -> None:
        self.database = database
        self._writes = writes

    async def follow_schedules(self, planned: Sequence[PlannedRun], *, now: datetime) -> Sequence[datetime]:
        """Note when handlers run next."""

        def work(connection: SqlConnection) -> Sequence[datetime]:
            before = {"before": to_micros(now - FORGOTTEN_AFTER)}
            forget = number(connection, statements.ANY_FORGOTTEN, before) > 0
            found = [_noted(connection, one) for one in planned]
            if not forget and None not in found:
                return [moment for moment in found if moment is not None]  # most often, without the write lock
            with self.database.transaction(connection):
                connection.execute(statements.FORGET, before)
                return [self._follow(connection, one) for one in planned]

        return await self.database.call(work)

    async def make_run(self, run: DueRun, *, now: datetime) -> RunOutcome:
        """Store a run with its work item."""

        def write(connection: SqlConnection) -> RunOutcome:
            with self.database.transaction(connection):
                outcome = self._make(connection, run, now)
            if outcome is RunOutcome.MADE:
                self._remove_old(connection, run.handler)
            return outcome

        return await self.database.call(write)

    def _follow(self, connection: SqlConnection, planned: PlannedRun) -> datetime:
        noted = _noted(connection, planned)  # asked again: another worker may have been first
        if noted is not None:
            return noted
        values: Values = {
            "handler": planned.handler,
            "schedule": planned.schedule,
            "next_at": to_micros(planned.next_at),
        }
        connection.execute(statements.NOTE, values)
        connection.execute(statements.NAME_HANDLER, {"handler": planned.handler})
        return planned.next_at

    def _make(self, connection: SqlConnection, run: DueRun, now: datetime) -> RunOutcome:
        self._writes.locks.log(connection)
        values: Values = {
            "handler": run.handler,
            "noted": to_micros(run.noted),
            "next_at": to_micros(run.next_at),
        }
        if connection.execute(statements.TAKE, values).rowcount == 0:
            return RunOutcome.TAKEN
        if switches(connection).get(run.handler) is HandlerSwitch.DISABLED:
            return RunOutcome.DISABLED
        runs = prefix_bounds(run_keys(run.handler))
        if number(connection, statements.UNFINISHED, runs | {"handler": run.handler}):
            return RunOutcome.UNFINISHED
        seq = self._writes.insert_delivery(connection, run.delivery)
        if seq is None:
            return RunOutcome.TAKEN
        work = NewWork(seq, run.handler, claim=False, trigger=Trigger.SCHEDULE)
        self._writes.work_rows.make(connection, [work], lease=None, now=now)
        return RunOutcome.MADE

    def _remove_old(self, connection: SqlConnection, handler: HandlerName) -> None:
        """Remove ended runs beyond the last ones. Somebody may have asked for a retry of one meanwhile."""
        values = prefix_bounds(run_keys(handler)) | {"kept": KEPT_RUNS}
        old = _seqs(connection, values)
        if not old:
            return
        with self.database.transaction(connection):
            self._writes.locks.deliveries(connection, sorted(old))
            if still := sorted(old & _seqs(connection, values)):
                remove_deliveries(connection, self._writes, still)


def _noted(connection: SqlConnection, planned: PlannedRun) -> datetime | None:
    """Return the next run that the store has noted, None if the planned one is to take its place."""
    row = connection.execute(statements.NOTED, {"handler": planned.handler}).fetchone()
    if row is None:
        return None
    schedule, next_at = row[0], from_micros(row[1])
    return next_at if counts_still(planned, schedule, next_at) else None


def _seqs(connection: SqlConnection, values: Values) -> set[int]:
    return {seq for (seq,) in connection.execute(statements.TOO_MANY, values)}
