"""The worker's side of a SQLite store. Each method is one hop to the database thread, and one transaction."""

import asyncio
import json
import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from receiver.clock import from_micros, to_micros
from receiver.records import LOST, Lease, NewWork, Settlement, Unrouted, Wanted, WorkItem
from receiver.stores.sqlite import statements
from receiver.stores.sqlite.checkpoints import Checkpointer
from receiver.stores.sqlite.database import Database
from receiver.stores.sqlite.rows import stored_delivery
from receiver.types import HandlerName, Trigger, WorkerId

_POLL_SECONDS = 0.02


class SqliteQueue:
    """A WorkQueue. Its commits are not synced: after a power cut a finished work item may run again."""

    def __init__(self, database: Database, checkpointer: Checkpointer) -> None:
        self._database = database
        self._checkpointer = checkpointer
        self._seen: int | None = None

    async def unrouted(self, *, limit: int, max_bytes: int) -> Unrouted:
        """Return the oldest deliveries that no worker has routed."""

        def read(connection: sqlite3.Connection) -> Unrouted:
            (after,) = connection.execute(statements.ROUTED).fetchone()
            wanted = {"after": after, "limit": limit, "max_bytes": max_bytes}
            rows = connection.execute(statements.UNROUTED, wanted).fetchall()
            return Unrouted(after, tuple(stored_delivery(row) for row in rows))

        return await self._database.call(read)

    async def route(self, batch: Unrouted, work: Sequence[NewWork], *, lease: Lease) -> Sequence[int] | None:
        """Make claimed work items and mark the batch as routed, unless another worker was first."""
        through = batch.deliveries[-1].seq
        values = {
            "work": json.dumps([(one.seq, one.handler) for one in work]),
            "due_at": to_micros(lease.until),
            "worker": lease.worker,
        }

        def write(connection: sqlite3.Connection) -> Sequence[int] | None:
            with self._database.transaction(connection):
                if connection.execute(statements.ADVANCE_ROUTED, (through, batch.after)).rowcount == 0:
                    return None
                if not work:
                    return ()
                # Under the write lock the ids of one statement follow each other.
                connection.execute(statements.INSERT_WORK, values)
                (last,) = connection.execute("SELECT last_insert_rowid()").fetchone()
            self._checkpointer.after_commit(connection)
            return range(last - len(work) + 1, last + 1)

        return await self._database.call(write)

    async def claim(
        self, handlers: Sequence[HandlerName], wanted: Wanted, *, lease: Lease, now: datetime
    ) -> Sequence[WorkItem]:
        """Claim what is due or has lost its worker."""

        def write(connection: sqlite3.Connection) -> Sequence[WorkItem]:
            if not _due(connection, handlers, replace(wanted, limit=1), now):
                return ()  # most often; asked without the write lock, which acks need too
            with self._database.transaction(connection):
                due = _due(connection, handlers, wanted, now)
                ids = json.dumps([work_id for work_id, _ in due])
                if lost := [work_id for work_id, state in due if state == "running"]:
                    _record_lost(connection, lost, now)
                claim = {"ids": ids, "worker": lease.worker, "due_at": to_micros(lease.until)}
                connection.execute(statements.CLAIM, claim)
            # The rows are ours by now, and bodies never change: reading them need not hold up an ack.
            rows = connection.execute(statements.CLAIMED, {"ids": ids}).fetchall()
            self._checkpointer.after_commit(connection)
            return [_work_item(row) for row in rows]

        return await self._database.call(write)

    async def renew(self, work_ids: Sequence[int], lease: Lease) -> None:
        """Move the end of the lease."""
        values = {"ids": json.dumps(list(work_ids)), "worker": lease.worker, "due_at": to_micros(lease.until)}
        await self._write(statements.RENEW, values)

    async def settle(self, settlements: Sequence[Settlement]) -> Sequence[bool]:
        """Record attempts and move their work items where the worker still holds them."""

        def write(connection: sqlite3.Connection) -> Sequence[bool]:
            with self._database.transaction(connection):
                moves = json.dumps([_move(one) for one in settlements])
                held = set(connection.execute(statements.SETTLE, (moves,)).fetchall())
                settled = [(one.work_id, one.attempt.number) in held for one in settlements]
                records = [_attempt_row(one) for one, done in zip(settlements, settled, strict=True) if done]
                connection.execute(statements.INSERT_ATTEMPTS, (json.dumps(records),))
            self._checkpointer.after_commit(connection)
            return settled

        return await self._database.call(write)

    async def give_back(self, work_ids: Sequence[int], worker: WorkerId, *, now: datetime) -> None:
        """Make items due at once and uncount the attempt."""
        values = {"ids": json.dumps(list(work_ids)), "worker": worker, "now": to_micros(now)}
        await self._write(statements.GIVE_BACK, values)

    async def take_over(self, worker: WorkerId, *, now: datetime) -> int:
        """End all leases of a dead worker."""
        values = {"worker": worker, "now": to_micros(now)}
        return await self._write(statements.TAKE_OVER, values)

    async def next_due(self, handlers: Sequence[HandlerName], *, lost: range) -> datetime | None:
        """Return when the next item becomes due or loses its lease."""

        def read(connection: sqlite3.Connection) -> datetime | None:
            statement = statements.NEXT_DUE_LOST if lost.start > 1 else statements.NEXT_DUE
            bounds = (lost.start, lost.stop - 1)
            found = (connection.execute(statement, (name, *bounds)).fetchone() for name in handlers)
            first = min((due_at for (due_at,) in filter(None, found)), default=None)
            return None if first is None else from_micros(first)

        return await self._database.call(read)

    async def changed(self) -> None:
        """Return when another connection has committed since the last call (PRAGMA data_version)."""
        while True:
            version = await self._database.call(_data_version)
            if version != self._seen:
                self._seen = version
                return
            # The real clock, whatever clock the worker has: the change comes from another process.
            await asyncio.sleep(_POLL_SECONDS)

    async def _write(self, statement: str, values: dict[str, object]) -> int:
        """Run one writing statement and return how many rows it changed."""

        def write(connection: sqlite3.Connection) -> int:
            with self._database.transaction(connection):
                return connection.execute(statement, values).rowcount

        return await self._database.call(write)


def _data_version(connection: sqlite3.Connection) -> int:
    (version,) = connection.execute("PRAGMA data_version").fetchone()
    return int(version)


def _due(
    connection: sqlite3.Connection, handlers: Sequence[HandlerName], wanted: Wanted, now: datetime
) -> list[tuple[int, str]]:
    """Return id and state of what may be claimed, the longest due first within each handler."""
    statement = statements.DUE_LOST if wanted.lost.start > 1 else statements.DUE
    due: list[tuple[int, str]] = []
    total = 0
    for handler in handlers:
        values = {
            "handler": handler,
            "now": to_micros(now),
            "limit": wanted.limit - len(due),
            "least_lost": wanted.lost.start,
            "most_lost": wanted.lost.stop - 1,
        }
        for work_id, state, size in connection.execute(statement, values).fetchall():
            total += size
            if due and total > wanted.max_bytes:
                return due
            due.append((work_id, state))
        if len(due) >= wanted.limit:
            break
    return due


def _record_lost(connection: sqlite3.Connection, ids: Sequence[int], now: datetime) -> None:
    values = {"ids": json.dumps(ids), "now": to_micros(now), "error": LOST}
    connection.execute(statements.LOSE_ATTEMPTS, values)
    connection.execute(statements.COUNT_LOST, values)


def _work_item(row: tuple[Any, ...]) -> WorkItem:
    work_id, handler, attempts, lost, trigger, *stored = row
    return WorkItem(
        id=work_id,
        handler=handler,
        attempt=attempts,
        lost=lost,
        trigger=Trigger(trigger) if attempts == 1 else Trigger.RETRY,
        source=stored_delivery(tuple(stored)),
    )


def _move(one: Settlement) -> tuple[object, ...]:
    return one.work_id, one.worker, one.attempt.number, one.state, to_micros(one.due_at), one.attempt.error


def _attempt_row(one: Settlement) -> tuple[object, ...]:
    attempt = one.attempt
    return (
        one.work_id,
        attempt.number,
        attempt.trigger,
        to_micros(attempt.started_at),
        to_micros(attempt.ended_at),
        attempt.outcome,
        attempt.error,
        attempt.traceback,
        int(attempt.overdue),
    )
