"""What keeps a SQLite file small. Steps choose what to do first, and hold the write lock only to do it."""

import json
import sqlite3
from collections.abc import Sequence
from datetime import datetime

from receiver.core.batching import BatchSize
from receiver.core.bulk import DeliveryPlan
from receiver.core.clock import to_micros
from receiver.core.retention import PruneRule, Step
from receiver.stores.sqlite import report_statements, statements
from receiver.stores.sqlite.checkpoints import Checkpointer
from receiver.stores.sqlite.compression import DEFLATED, LEAST, deflated
from receiver.stores.sqlite.database import Database
from receiver.stores.sqlite.filters import row_by_row
from receiver.stores.sqlite.plans import plan

_LOOKED_AT = 5_000
"""Deliveries that one step looks at: a few milliseconds, without the write lock."""
MAX_BYTES = 2 * 1024 * 1024
"""Bytes of bodies that one transaction removes or rewrites: acks wait for the write lock."""


class SqliteMaintenance:
    """An Maintenance. Its commits are not synced: after a power cut something may have to be removed again."""

    def __init__(self, database: Database, checkpointer: Checkpointer) -> None:
        self._database = database
        self._checkpointer = checkpointer

    async def prunable(self, rule: PruneRule) -> DeliveryPlan:
        """Return what pruning by this rule would remove now."""
        return await self._database.call(lambda connection: plan(connection, rule.chosen(), with_body=rule.bodies))

    async def prune(self, rule: PruneRule, *, after: int, limit: int, now: datetime) -> Step:
        """Remove deliveries, or their bodies."""
        conditions, values = row_by_row(rule.chosen())
        if rule.bodies:
            conditions += " AND d.pruned_at IS NULL"

        def step(connection: sqlite3.Connection) -> Step:
            (through,) = connection.execute(report_statements.LAST_DELIVERY).fetchone()
            last = min(after + _LOOKED_AT, through)
            found = report_statements.PRUNABLE.format(conditions=conditions)
            rows = connection.execute(found, values | {"after": after, "until_seq": last})
            chosen, ended = _together(rows, limit)
            place = last if ended else chosen[-1]
            count = size = 0
            if chosen:
                with self._database.transaction(connection):
                    # Somebody may have asked for a retry in the meantime.
                    still = report_statements.STILL_PRUNABLE.format(conditions=conditions)
                    left = connection.execute(still, values | {"seqs": json.dumps(chosen)}).fetchall()
                    _remove(connection, [seq for seq, _ in left], now if rule.bodies else None)
                count, size = len(left), sum(length for _, length in left)
                self._checkpointer.after_commit(connection)
            return Step(count, size, place if place < through else None)

        return await self._database.call(step)

    async def forget(self, before: datetime, *, limit: int) -> int:
        """Forget what handlers asked for once."""

        def step(connection: sqlite3.Connection) -> int:
            found = connection.execute(report_statements.ONCE_KEYS_BEFORE, (to_micros(before), limit)).fetchall()
            if found:
                with self._database.transaction(connection):
                    connection.executemany(statements.REMOVE_ONCE_KEY, found)
                self._checkpointer.after_commit(connection)
            return len(found)

        return await self._database.call(step)

    async def compress(self, *, limit: int) -> Step:
        """Write bodies smaller."""

        def step(connection: sqlite3.Connection) -> Step:
            (after,) = connection.execute(statements.COMPRESSED).fetchone()
            (routed,) = connection.execute(statements.ROUTED).fetchone()
            last = min(after + _LOOKED_AT, routed)
            rows = connection.execute(statements.TO_COMPRESS, {"after": after, "last": last, "least": LEAST})
            bodies = _some(rows, limit)
            place = bodies[-1][0] if len(bodies) == limit or _is_heavy(bodies) else last
            smaller = [(small, DEFLATED, seq) for seq, _, body in bodies if (small := deflated(body)) is not None]
            if place > after:
                with self._database.transaction(connection):
                    connection.executemany(statements.COMPRESS, smaller)
                    connection.execute(statements.ADVANCE_COMPRESSED, (place,))
                self._checkpointer.after_commit(connection)
            sizes = {seq: size for seq, size, _ in bodies}
            saved = sum(sizes[seq] - len(small) for small, _, seq in smaller)
            return Step(len(smaller), saved, place if place < routed else None)

        return await self._database.call(step)

    async def shrink(self, pages: int) -> int:
        """Give unused pages back to the file system."""

        def step(connection: sqlite3.Connection) -> int:
            before = _unused(connection)
            if before == 0 or connection.execute("PRAGMA auto_vacuum").fetchone() != (_INCREMENTAL,):
                return 0
            with self._database.transaction(connection):
                for _ in range(min(pages, before)):
                    connection.execute("PRAGMA incremental_vacuum(1)")  # the driver takes one step of it, one page
            self._checkpointer.after_commit(connection)
            return before - _unused(connection)

        return await self._database.call(step)


_INCREMENTAL = 2
"""What PRAGMA auto_vacuum says of files that can shrink in steps; those of earlier versions cannot."""


def _unused(connection: sqlite3.Connection) -> int:
    (pages,) = connection.execute("PRAGMA freelist_count").fetchone()
    return int(pages)


def _together(rows: sqlite3.Cursor, limit: int) -> tuple[list[int], bool]:
    """Return the deliveries that one transaction takes, at least one, and whether those were all."""
    chosen: list[int] = []
    taken = BatchSize(limit, MAX_BYTES)
    for seq, size in rows:
        if not taken.take(size):
            rows.close()
            return chosen, False
        chosen.append(seq)
    return chosen, True


def _some(rows: sqlite3.Cursor, limit: int) -> list[tuple[int, int, bytes]]:
    """Return rows of which the last one may be the one that is too much."""
    found: list[tuple[int, int, bytes]] = []
    for row in rows:
        found.append(row)
        if len(found) == limit or _is_heavy(found):
            rows.close()
            break
    return found


def _is_heavy(bodies: Sequence[tuple[int, int, bytes]]) -> bool:
    return sum(size for _, size, _ in bodies) >= MAX_BYTES


def _remove(connection: sqlite3.Connection, seqs: Sequence[int], pruned_at: datetime | None) -> None:
    """Remove bodies, and unless a moment is given the deliveries with all that hangs on them."""
    chosen = json.dumps(list(seqs))
    connection.execute(statements.REMOVE_BODIES, (chosen,))
    if pruned_at is not None:
        connection.execute(statements.NOTE_PRUNED, {"now": to_micros(pruned_at), "seqs": chosen})
        return
    for statement in (statements.REMOVE_ATTEMPTS, statements.REMOVE_WORK, statements.REMOVE_DELIVERIES):
        connection.execute(statement, (chosen,))
