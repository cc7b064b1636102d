"""Pruning. A step chooses first what to remove, and holds the write lock only to remove it."""

from collections.abc import Sequence
from datetime import datetime

from receiver.core.activity import PruneRule, Step, to_minute
from receiver.core.batches import BatchSize
from receiver.core.bulk import DeliveryPlan
from receiver.core.clock import to_micros
from receiver.core.types import DeliveryState
from receiver.stores.sql.connection import SqlConnection, SqlDatabase, SqlRows, number
from receiver.stores.sql.listings import plan
from receiver.stores.sql.statements.deliveries import LAST_DELIVERY, STOPS_LANE
from receiver.stores.sql.statements.filters import Reads
from receiver.stores.sql.statements.work import ANY_ACTIVITY, ANY_OLD_ACTION, FORGET_ACTIONS, FORGET_ACTIVITY
from receiver.stores.sql.writes import Writes

SCAN_LIMIT = 5_000
"""Deliveries that one step looks at: a few milliseconds, without the write lock."""
MAX_BYTES = 2 * 1024 * 1024
"""Bytes of bodies that one transaction removes or rewrites: acks wait for the write lock."""


class SqlMaintenance:
    """Maintenance, but for `compress` and `reclaim`, which each kind of database does in its own way."""

    def __init__(self, database: SqlDatabase, reads: Reads, writes: Writes) -> None:
        self.database = database
        self._reads = reads
        self._writes = writes
        self._sql = writes.sql
        self._locks = writes.locks
        self._array = writes.dialect.array

    async def prunable(self, rule: PruneRule) -> DeliveryPlan:
        """Return what pruning by this rule would remove now."""
        return await self.database.call(
            lambda connection: plan(connection, self._reads, rule.chosen(), only=_further_conditions(rule))
        )

    async def prune(self, rule: PruneRule, *, after: int, limit: int, now: datetime) -> Step:
        """Remove deliveries, or their bodies."""
        conditions, values = self._reads.filters.row_by_row(rule.chosen())
        conditions = " AND ".join([conditions, *_further_conditions(rule)])

        def step(connection: SqlConnection) -> Step:
            through = number(connection, LAST_DELIVERY, {})
            last = min(after + SCAN_LIMIT, through)
            found = self._reads.deliveries.prunable.format(conditions=conditions)
            rows = connection.execute(found, values | {"after": after, "until_seq": last})
            chosen, ended = _together(rows, limit)
            place = last if ended else chosen[-1]
            count = size = 0
            if chosen:
                with self.database.transaction(connection):
                    self._locks.deliveries(connection, chosen)
                    # Somebody may have asked for a retry in the meantime.
                    still = self._reads.deliveries.still_prunable.format(conditions=conditions)
                    left = connection.execute(still, values | {"seqs": self._array(chosen)}).fetchall()
                    seqs = [seq for seq, _ in left]
                    if rule.bodies:
                        self._remove_bodies(connection, seqs, now)
                    else:
                        remove_deliveries(connection, self._writes, seqs)
                count, size = len(left), sum(length for _, length in left)
            return Step(count, size, place if place < through else None)

        return await self.database.call(step)

    async def forget(self, before: datetime, *, limit: int) -> int:
        """Forget what handlers asked for once."""

        def step(connection: SqlConnection) -> int:
            values = {"before": to_micros(before), "limit": limit}
            found = connection.execute(self._sql.once_keys_before, values).fetchall()
            if found:
                with self.database.transaction(connection):
                    for handler, key in found:
                        connection.execute(self._sql.remove_once_key, {"handler": handler, "key": key})
            return len(found)

        return await self.database.call(step)

    async def forget_workers(self, before: datetime) -> None:
        """Forget workers that were last seen before."""

        def step(connection: SqlConnection) -> None:
            with self.database.transaction(connection):
                connection.execute(self._sql.forget_workers, {"before": to_micros(before)})

        await self.database.call(step)

    async def forget_activity(self, before: datetime) -> int:
        """Forget how many deliveries came, and what handlers did."""

        def step(connection: SqlConnection) -> int:
            if not number(connection, ANY_ACTIVITY, {"before": to_minute(before)}):
                return 0
            with self.database.transaction(connection):
                return sum(
                    int(connection.execute(one, {"before": to_minute(before)}).rowcount) for one in FORGET_ACTIVITY
                )

        return await self.database.call(step)

    async def forget_actions(self, before: datetime, *, keep: int, limit: int) -> int:
        """Forget what people did."""
        values = {"before": to_micros(before), "keep": keep}

        def step(connection: SqlConnection) -> int:
            if not number(connection, ANY_OLD_ACTION, values):
                return 0
            with self.database.transaction(connection):
                return int(connection.execute(FORGET_ACTIONS, {**values, "limit": limit}).rowcount)

        return await self.database.call(step)

    def _remove_bodies(self, connection: SqlConnection, seqs: Sequence[int], pruned_at: datetime) -> None:
        chosen = {"seqs": self._array(seqs)}
        connection.execute(self._sql.remove_bodies, chosen)
        connection.execute(self._sql.note_pruned, {**chosen, "now": to_micros(pruned_at)})


def remove_deliveries(connection: SqlConnection, writes: Writes, seqs: Sequence[int]) -> None:
    """Remove deliveries with all that hangs on them, inside a transaction."""
    chosen = {"seqs": writes.dialect.array(seqs)}
    for statement in (writes.sql.remove_bodies, *writes.sql.remove_all):
        connection.execute(statement, chosen)


def _further_conditions(rule: PruneRule) -> Sequence[str]:
    """Return the conditions on deliveries, called `d`, that a filter does not have."""
    conditions = ["d.pruned_at IS NULL"] if rule.bodies else []
    if rule.state is DeliveryState.DEAD:
        conditions.append(f"NOT {STOPS_LANE}")
    return conditions


def _together(rows: SqlRows, limit: int) -> tuple[list[int], bool]:
    """Return the deliveries that one transaction takes, at least one, and whether those were all."""
    chosen: list[int] = []
    taken = BatchSize(limit, MAX_BYTES)
    for seq, size in rows:
        if not taken.take(size):
            rows.close()
            return chosen, False
        chosen.append(seq)
    return chosen, True
