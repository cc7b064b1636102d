"""The worker's side of a store. Each method is one hop to the database's thread, and at most one transaction."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from itertools import chain, compress
from typing import Any

from receiver.core.activity import WorkerSign
from receiver.core.batches import BatchSize
from receiver.core.claims import (
    ClaimLimits,
    DueRun,
    FollowerClaim,
    HandlerClaim,
    HeldItem,
    JobPages,
    Lease,
    RoutingBatch,
    Settlement,
    WorkItem,
)
from receiver.core.clock import from_micros, to_micros
from receiver.core.deliveries import StoredDelivery
from receiver.core.rules import later_work, with_worker
from receiver.core.schedules import FORGOTTEN_AFTER, KEPT_RUNS, PlannedRun, RunOutcome, counts_still, run_keys
from receiver.core.types import DeliveryKey, HandlerName, HandlerSwitch, Trigger, WorkerId
from receiver.core.work import NewWork
from receiver.core.work_states import OPEN
from receiver.stores.sql.connection import SqlConnection, SqlDatabase, Values, number, prefix_bounds
from receiver.stores.sql.maintenance import remove_deliveries
from receiver.stores.sql.rows import delivery_or_reason, switches, written_limits
from receiver.stores.sql.settling import LeaseLost, PendingActivity, SettledBatch
from receiver.stores.sql.statements.columns import ROUTED, in_states
from receiver.stores.sql.statements.deliveries import ITS_WORK
from receiver.stores.sql.writes import Writes

NOTED = "SELECT schedule, next_at FROM schedules WHERE handler = :handler"

NOTE = """
INSERT INTO schedules (handler, schedule, next_at) VALUES (:handler, :schedule, :next_at)
ON CONFLICT (handler) DO UPDATE SET schedule = excluded.schedule, next_at = excluded.next_at
"""

ANY_FORGOTTEN = "SELECT count(*) FROM schedules WHERE next_at < :before"

FORGET = "DELETE FROM schedules WHERE next_at < :before"

NAME_HANDLER = "INSERT INTO handlers (name) VALUES (:handler) ON CONFLICT (name) DO NOTHING"

TAKE = "UPDATE schedules SET next_at = :next_at WHERE handler = :handler AND next_at = :noted"

_RUNS = "FROM deliveries AS d WHERE d.origin = 'schedule' AND d.key >= :first AND d.key < :above"
_OPEN_WORK = f"{ITS_WORK} AND {in_states(OPEN, 'w.state')}"

UNFINISHED = f"SELECT count(*) {_RUNS} AND EXISTS ({_OPEN_WORK} AND w.handler = :handler)"

# A delivery that is not routed yet is new to readers, whatever became of its work.
TOO_MANY = f"""
SELECT d.seq {_RUNS} AND d.seq <= ({ROUTED}) AND NOT EXISTS ({_OPEN_WORK})
ORDER BY d.key DESC LIMIT 100 OFFSET :kept
"""
"""Ended runs beyond the last ones. A store that has more of them than one statement takes loses the rest later."""


class SqlSchedules:
    """A ScheduleQueue."""

    def __init__(self, database: SqlDatabase, writes: Writes) -> None:
        self.database = database
        self._writes = writes

    async def follow_schedules(self, planned: Sequence[PlannedRun], *, now: datetime) -> Sequence[datetime]:
        """Note when handlers run next."""

        def work(connection: SqlConnection) -> Sequence[datetime]:
            before = {"before": to_micros(now - FORGOTTEN_AFTER)}
            forget = number(connection, ANY_FORGOTTEN, before) > 0
            found = [_noted(connection, one) for one in planned]
            if not forget and None not in found:
                return [moment for moment in found if moment is not None]  # most often, without the write lock
            with self.database.transaction(connection):
                connection.execute(FORGET, before)
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
        connection.execute(NOTE, values)
        connection.execute(NAME_HANDLER, {"handler": planned.handler})
        return planned.next_at

    def _make(self, connection: SqlConnection, run: DueRun, now: datetime) -> RunOutcome:
        self._writes.locks.log(connection)
        values: Values = {
            "handler": run.handler,
            "noted": to_micros(run.noted),
            "next_at": to_micros(run.next_at),
        }
        if connection.execute(TAKE, values).rowcount == 0:
            return RunOutcome.TAKEN
        if switches(connection).get(run.handler) is HandlerSwitch.DISABLED:
            return RunOutcome.DISABLED
        runs = prefix_bounds(run_keys(run.handler))
        if number(connection, UNFINISHED, runs | {"handler": run.handler}):
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
    row = connection.execute(NOTED, {"handler": planned.handler}).fetchone()
    if row is None:
        return None
    schedule, next_at = row[0], from_micros(row[1])
    return next_at if counts_still(planned, schedule, next_at) else None


def _seqs(connection: SqlConnection, values: Values) -> set[int]:
    return {seq for (seq,) in connection.execute(TOO_MANY, values)}


class SqlQueue(SqlSchedules):
    """A WorkQueue without `changed`, `enlist` and `expire_dead`: each kind of database does them in its own way."""

    def __init__(self, database: SqlDatabase, writes: Writes) -> None:
        super().__init__(database, writes)
        self._array = writes.dialect.array
        self._activity = PendingActivity(writes.sql.count_minutes, writes.dialect)

    async def routing_batch(self, *, limit: int, max_bytes: int) -> RoutingBatch:
        """Return the oldest deliveries that no worker has routed."""

        def read(connection: SqlConnection) -> RoutingBatch:
            after = number(connection, ROUTED, {})
            found = self.unrouted(connection, after=after, limit=limit, max_bytes=max_bytes)
            return RoutingBatch(after, found, bool(number(connection, self._writes.sql.any_backfilled, {})))

        return await self.database.call(read)

    def unrouted(
        self, connection: SqlConnection, *, after: int, limit: int, max_bytes: int
    ) -> tuple[StoredDelivery, ...]:
        """Return the oldest deliveries after a seq."""
        found: list[StoredDelivery] = []
        taken = BatchSize(limit, max_bytes)
        values = {"after": after, "limit": limit, "max_bytes": max_bytes}
        for row in connection.execute(self._writes.sql.unrouted, values):
            stored = delivery_or_reason(row)
            if not taken.take(len(stored.delivery.body)):
                break
            found.append(stored)
        return tuple(found)

    async def route(
        self, batch: RoutingBatch, work: Sequence[NewWork], *, lease: Lease, now: datetime
    ) -> Sequence[int | None] | None:
        """Make work items and mark the batch as routed, unless another worker was first."""
        mark: Values = {"through": batch.deliveries[-1].seq, "after": batch.after, "server": batch.server}

        def write(connection: SqlConnection) -> Sequence[int | None] | None:
            with self.database.transaction(connection):
                if connection.execute(self._writes.sql.advance_routed, mark).rowcount == 0:
                    return None
                if not work:
                    return ()
                made = self._writes.work_rows.make(connection, work, lease=lease, now=now)
            ours = with_worker(work, [state for _, state in made])
            return [work_id if is_ours else None for (work_id, _), is_ours in zip(made, ours, strict=True)]

        return await self.database.call(write)

    async def claim(
        self,
        claimants: Sequence[HandlerClaim],
        wanted: ClaimLimits,
        *,
        lease: Lease,
        now: datetime,
        steady: datetime | None = None,
    ) -> Sequence[WorkItem]:
        """Claim what is due, after taking back the leases of dead workers."""
        claims, steady = self._writes.claims, steady or now

        def write(connection: SqlConnection) -> Sequence[WorkItem]:
            look = claims.look(connection, claimants, wanted, now, steady)
            if look is None:
                return ()  # most often; asked without the write lock, which acks need too
            if (look.any_lost or look.is_ahead) and not self.is_right(connection):
                return ()  # the caller comes again with the right time
            with self.database.transaction(connection):
                claimable = claims.tidy(connection, look, claimants, now, steady)
                claimed = claims.claim(connection, claimable, wanted, lease, now)
            # The rows are ours by now, and bodies never change: reading them need not hold up an ack.
            return claims.with_followers(connection, claims.read(connection, claimed), claimants, wanted)

        return await self.database.call(write)

    def is_right(self, connection: SqlConnection) -> bool:
        """Return whether the present time can be trusted to end leases, and to see that the clock was set back."""
        return True

    async def suspects_due(self, claimants: Sequence[HandlerClaim], *, now: datetime) -> bool:
        """Return whether an item is due that may have killed its worker."""
        return await self.database.call(
            lambda connection: self._writes.claims.suspect_due(connection, claimants, now)
        )

    async def next_due(
        self, claimants: Sequence[HandlerClaim], *, now: datetime, steady: datetime | None = None
    ) -> datetime | None:
        """Return when there may be something to claim or to check."""
        return await self.database.call(
            lambda connection: self._writes.claims.next_due(connection, claimants, now, steady or now)
        )

    async def settle(
        self, settlements: Sequence[Settlement], followers: Sequence[FollowerClaim] = ()
    ) -> Sequence[bool]:
        """Record attempts and move their work items where the worker still has the lease."""
        if not settlements:
            return [False] * len(followers)

        def write(connection: SqlConnection) -> Sequence[bool]:
            try:
                with self.database.transaction(connection):
                    batch, written = self._settle(connection, settlements, followers)
                leased, claimed = [True] * len(batch or ()), [True] * len(followers)
            except LeaseLost:  # rare; to find out which ones each time would take a third more time
                alone = list(chain.from_iterable([one.apart() for one in settlements]))
                with self.database.transaction(connection):
                    leased, claimed = self._writes.settling.still_leased(connection, alone, followers)
                    batch, written = self._settle(
                        connection, list(compress(alone, leased)), list(compress(followers, claimed))
                    )
            self._activity.committed(batch, written=written)
            return [*leased, *claimed]

        return await self.database.call(write)

    def _settle(
        self, connection: SqlConnection, settlements: Sequence[Settlement], followers: Sequence[FollowerClaim]
    ) -> tuple[SettledBatch | None, bool]:
        """Record attempts and make what they have asked for; return what was counted, and whether it is written."""
        if not settlements:
            return None, False
        batch = self._writes.settling.settle(connection, settlements, followers)
        if work := later_work(settlements):
            self._writes.work_rows.make(connection, work, lease=None, now=from_micros(batch.now))
        return batch, self._activity.write_due(connection, batch, batch.now)

    async def sign_on(self, sign: WorkerSign, *, now: datetime) -> None:
        """Show that a worker lives, and write what is counted."""
        values: Values = {
            "name": sign.name,
            "machine": sign.machine,
            "pid": sign.pid,
            "version": sign.version,
            "started": to_micros(sign.started_at),
            "now": to_micros(now),
            "limits": written_limits(sign),
        }
        await self._write_counts(self._writes.sql.sign_on, values)

    async def sign_off(self, worker: WorkerId) -> None:
        """Show that a worker has ended, and write what is counted."""
        await self._write_counts(self._writes.sql.sign_off, {"name": worker})

    async def _write_counts(self, statement: str, values: Values) -> None:
        def write(connection: SqlConnection) -> None:
            with self.database.transaction(connection):
                connection.execute(statement, values)
                self._activity.write(connection)
            self._activity.committed(written=True)

        await self.database.call(write)

    async def mark_started(self, work_ids: Sequence[int], worker: WorkerId) -> None:
        """Note that items have started."""
        await self._write(self._writes.sql.mark_started, {"ids": self._array(work_ids), "worker": worker})

    async def clear_started(self, work_ids: Sequence[int], worker: WorkerId) -> None:
        """Take back that items have started."""
        await self._write(self._writes.sql.clear_started, {"ids": self._array(work_ids), "worker": worker})

    async def renew(self, work_ids: Sequence[int], lease: Lease) -> None:
        """Move the end of the lease."""
        values: Values = {"ids": self._array(work_ids), "worker": lease.worker, "until": to_micros(lease.until)}
        await self._write(self._writes.sql.renew, values)

    async def release_leases(self, work_ids: Sequence[int], worker: WorkerId, *, now: datetime) -> None:
        """Make items due at once and uncount the attempt."""
        values: Values = {"ids": self._array(work_ids), "worker": worker, "now": to_micros(now)}

        def write(connection: SqlConnection) -> None:
            with self.database.transaction(connection):
                # The items first: everybody else locks them before the latest moment.
                if connection.execute(self._writes.sql.release_leases, values).rowcount:
                    self._writes.latest.note(connection, now)

        await self.database.call(write)

    async def expire_leases_of(self, worker: WorkerId, *, now: datetime) -> int:
        """End all leases of a dead worker."""
        return await self._write(self._writes.sql.expire_leases, {"worker": worker, "now": to_micros(now)})

    async def held(self, handlers: Sequence[HandlerName], *, now: datetime, limit: int) -> Sequence[HeldItem]:
        """Return held items that are due for a check."""

        def read(connection: SqlConnection) -> Sequence[HeldItem]:
            off = switches(connection)
            rows = [
                row
                for handler in handlers
                if handler not in off
                for row in connection.execute(
                    self._writes.sql.held, {"handler": handler, "now": to_micros(now), "limit": limit}
                )
            ]
            return [_held_item(row) for row in sorted(rows)[:limit]]

        return await self.database.call(read)

    async def pages(self, job_id: str, *, page_type: str, handlers: Sequence[HandlerName]) -> JobPages:
        """Return how far these handlers have come with the pages of a job."""
        job = {"job_id": job_id, "page_type": page_type}
        sql = self._writes.sql

        def read(connection: SqlConnection) -> JobPages:
            last = connection.execute(sql.last_page, job).fetchone()
            missing = (
                connection.execute(sql.unrouted_page, job).fetchone()
                or connection.execute(sql.open_page, {**job, "handlers": self._array(handlers)}).fetchone()
            )
            return JobPages(from_micros(last[0]) if last else None, missing[0] if missing else None)

        return await self.database.call(read)

    async def recheck(self, work_id: int, *, at: datetime, note: str) -> None:
        """Keep a held item until the next check."""
        await self._write(self._writes.sql.recheck, {"id": work_id, "at": to_micros(at), "note": note})

    async def release(self, work_id: int, *, now: datetime, note: str) -> None:
        """Make a held item due."""
        values = {"id": work_id, "now": to_micros(now), "note": note}

        def write(connection: SqlConnection) -> None:
            with self.database.transaction(connection):
                self._writes.locks.lanes_of(connection, [work_id])
                if connection.execute(self._writes.sql.release, values).rowcount:
                    self._writes.latest.note(connection, now)
                self._writes.settling.promote(connection, [work_id], now)

        await self.database.call(write)

    async def backfilled(self, keys: Collection[DeliveryKey]) -> frozenset[DeliveryKey]:
        """Return those of the keys under which a backfill stored a delivery."""
        values = {"keys": self._array(sorted(keys))}

        def read(connection: SqlConnection) -> frozenset[DeliveryKey]:
            return frozenset(key for (key,) in connection.execute(self._writes.sql.backfilled, values))

        return await self.database.call(read)

    async def once(self, handler: HandlerName, key: str, *, now: datetime, until: datetime | None = None) -> bool:
        """Return True the first time. That is synced: after a power cut it would be said again."""
        values: Values = {"handler": handler, "key": key, "now": to_micros(now), "until": _micros(until)}

        def write(connection: SqlConnection) -> bool:
            with self.database.synced(connection):
                return connection.execute(self._writes.sql.once, values).rowcount == 1

        return await self.database.call(write)

    async def available_once_keys(
        self, handler: HandlerName, keys: Collection[str], *, now: datetime
    ) -> frozenset[str]:
        """Return those that are unused, or that have expired."""
        values = {"handler": handler, "keys": self._array(sorted(keys)), "now": to_micros(now)}

        def read(connection: SqlConnection) -> frozenset[str]:
            rows = connection.execute(self._writes.sql.available_once_keys, values)
            return frozenset(key for (key,) in rows)

        return await self.database.call(read)

    async def set_once_expiry(self, handler: HandlerName, key: str, *, until: datetime | None) -> None:
        """Change when the key expires."""
        values: Values = {"handler": handler, "key": key, "until": _micros(until)}
        await self._write(self._writes.sql.set_once_expiry, values)

    async def switches(self) -> Mapping[HandlerName, HandlerSwitch]:
        """Return the handlers that are not on."""
        return await self.database.call(switches)

    async def _write(self, statement: str, values: Values) -> int:
        """Run one writing statement and return how many rows it changed."""

        def write(connection: SqlConnection) -> int:
            with self.database.transaction(connection):
                return connection.execute(statement, values).rowcount

        return await self.database.call(write)


def _micros(moment: datetime | None) -> int | None:
    return None if moment is None else to_micros(moment)


def _held_item(row: tuple[Any, ...]) -> HeldItem:
    _, work_id, handler, kind, job_id, received_at, until = row
    return HeldItem(work_id, handler, kind, job_id, from_micros(received_at), from_micros(until))
