"""The worker's side of a SQLite store. Each method is one hop to the database thread, and one transaction."""

import asyncio
import json
import sqlite3
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from receiver.core.batching import BatchSize
from receiver.core.claims import (
    ClaimLimits,
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
from receiver.core.types import DeliveryKey, HandlerName, HandlerSwitch, Trigger, WorkerId, WorkState
from receiver.core.work import NewWork
from receiver.stores.sqlite import claims, statements
from receiver.stores.sqlite.checkpoints import Checkpointer
from receiver.stores.sqlite.database import Database, data_version
from receiver.stores.sqlite.rows import stored_delivery
from receiver.stores.sqlite.work_rows import attempt_row, insert, make

_POLL_SECONDS = 0.02


class SqliteQueue:
    """A WorkQueue. Its commits are not synced: after a power cut a finished work item may run again."""

    def __init__(self, database: Database, checkpointer: Checkpointer) -> None:
        self._database = database
        self._checkpointer = checkpointer
        self._seen: int | None = None

    async def routing_batch(self, *, limit: int, max_bytes: int) -> RoutingBatch:
        """Return the oldest deliveries that no worker has routed."""

        def read(connection: sqlite3.Connection) -> RoutingBatch:
            (after,) = connection.execute(statements.ROUTED).fetchone()
            found: list[StoredDelivery] = []
            taken = BatchSize(limit, max_bytes)
            for size, *row in connection.execute(statements.UNROUTED, {"after": after, "limit": limit}):
                if not taken.take(size):
                    break
                found.append(stored_delivery(row))
            (backfilled,) = connection.execute(statements.ANY_BACKFILLED).fetchone()
            return RoutingBatch(after, tuple(found), bool(backfilled))

        return await self._database.call(read)

    async def route(
        self, batch: RoutingBatch, work: Sequence[NewWork], *, lease: Lease, now: datetime
    ) -> Sequence[int | None] | None:
        """Make work items and mark the batch as routed, unless another worker was first."""
        through = batch.deliveries[-1].seq

        def write(connection: sqlite3.Connection) -> Sequence[int | None] | None:
            with self._database.transaction(connection):
                if connection.execute(statements.ADVANCE_ROUTED, (through, batch.after)).rowcount == 0:
                    return None
                if not work:
                    return ()
                made = make(connection, work, lease=lease, now=now)
            self._checkpointer.after_commit(connection)
            return [work_id if state is WorkState.RUNNING else None for work_id, state in made]

        return await self._database.call(write)

    async def claim(
        self, claimants: Sequence[HandlerClaim], wanted: ClaimLimits, *, lease: Lease, now: datetime
    ) -> Sequence[WorkItem]:
        """Claim what is due, after taking back what dead workers held."""

        def write(connection: sqlite3.Connection) -> Sequence[WorkItem]:
            if not claims.anything_to_do(connection, claimants, wanted, now):
                return ()  # most often; asked without the write lock, which acks need too
            with self._database.transaction(connection):
                claims.tidy(connection, claimants, now)
                chosen = claims.choose(connection, claimants, wanted, now)
                ids = json.dumps(chosen)
                claim = {
                    "ids": ids,
                    "starting": json.dumps(chosen[: wanted.starting]),
                    "worker": lease.worker,
                    "until": to_micros(lease.until),
                }
                connection.execute(statements.CLAIM, claim)
            # The rows are ours by now, and bodies never change: reading them need not hold up an ack.
            rows = connection.execute(statements.CLAIMED, {"ids": ids}).fetchall()
            self._checkpointer.after_commit(connection)
            return [_work_item(row) for row in rows]

        return await self._database.call(write)

    async def suspects_due(self, claimants: Sequence[HandlerClaim], *, now: datetime) -> bool:
        """Tell whether an item is due that may have killed its worker."""

        def read(connection: sqlite3.Connection) -> bool:
            due = (
                connection.execute(statements.SUSPECT_DUE, (one.handler, to_micros(now))).fetchone()
                for one in claims.claimable(connection, claimants)
            )
            return any(due)

        return await self._database.call(read)

    async def mark_started(self, work_ids: Sequence[int], worker: WorkerId) -> None:
        """Note that items have begun."""
        await self._write(statements.MARK_STARTED, {"ids": json.dumps(list(work_ids)), "worker": worker})

    async def clear_started(self, work_ids: Sequence[int], worker: WorkerId) -> None:
        """Take back that items have begun."""
        await self._write(statements.CLEAR_STARTED, {"ids": json.dumps(list(work_ids)), "worker": worker})

    async def renew(self, work_ids: Sequence[int], lease: Lease) -> None:
        """Move the end of the lease."""
        values = {"ids": json.dumps(list(work_ids)), "worker": lease.worker, "until": to_micros(lease.until)}
        await self._write(statements.RENEW, values)

    async def settle(self, settlements: Sequence[Settlement]) -> Sequence[bool]:
        """Record attempts and move their work items where the worker still holds them."""
        if not settlements:
            return ()
        now = max(one.attempt.ended_at for one in settlements)

        def write(connection: sqlite3.Connection) -> Sequence[bool]:
            with self._database.transaction(connection):
                lanes = _still_held(connection, settlements)
                ended = [settlements[place] for place in lanes]
                move(connection, ended)
                if in_lanes := [settlements[place].work_id for place, lane in lanes.items() if lane is not None]:
                    promote(connection, in_lanes, now)
                insert(
                    connection, statements.insert_attempts, [attempt_row(one.work_id, one.attempt) for one in ended]
                )
            self._checkpointer.after_commit(connection)
            return [place in lanes for place in range(len(settlements))]

        return await self._database.call(write)

    async def release_leases(self, work_ids: Sequence[int], worker: WorkerId, *, now: datetime) -> None:
        """Make items due at once and uncount the attempt."""
        values = {"ids": json.dumps(list(work_ids)), "worker": worker, "now": to_micros(now)}
        await self._write(statements.RELEASE_LEASES, values)

    async def expire_leases_of(self, worker: WorkerId, *, now: datetime) -> int:
        """End all leases of a dead worker."""
        values = {"worker": worker, "now": to_micros(now)}
        return await self._write(statements.EXPIRE_LEASES, values)

    async def next_due(self, claimants: Sequence[HandlerClaim], *, now: datetime) -> datetime | None:
        """Return when there may be something to claim or to look at."""
        return await self._database.call(lambda connection: claims.next_due(connection, claimants, now))

    async def held(self, handlers: Sequence[HandlerName], *, now: datetime, limit: int) -> Sequence[HeldItem]:
        """Return held items that are due for a look."""

        def read(connection: sqlite3.Connection) -> Sequence[HeldItem]:
            off = claims.switches(connection)
            rows = [
                row
                for handler in handlers
                if handler not in off
                for row in connection.execute(statements.HELD, (handler, to_micros(now), limit))
            ]
            return [_held_item(row) for row in sorted(rows)[:limit]]

        return await self._database.call(read)

    async def backfilled(self, keys: Collection[DeliveryKey]) -> frozenset[DeliveryKey]:
        """Return those of the keys that a backfill has brought in."""
        wanted = json.dumps(sorted(keys))

        def read(connection: sqlite3.Connection) -> frozenset[DeliveryKey]:
            return frozenset(key for (key,) in connection.execute(statements.BACKFILLED, (wanted,)))

        return await self._database.call(read)

    async def pages(self, job_id: str, *, page_type: str, handlers: Sequence[HandlerName]) -> JobPages:
        """Return how far these handlers have come with the pages of a job."""

        def read(connection: sqlite3.Connection) -> JobPages:
            job = (job_id, page_type)
            last = connection.execute(statements.LAST_PAGE, job).fetchone()
            missing = (
                connection.execute(statements.UNROUTED_PAGE, job).fetchone()
                or connection.execute(statements.OPEN_PAGE, (*job, json.dumps(list(handlers)))).fetchone()
            )
            return JobPages(from_micros(last[0]) if last else None, missing[0] if missing else None)

        return await self._database.call(read)

    async def recheck(self, work_id: int, *, at: datetime, note: str) -> None:
        """Keep a held item until the next look."""
        await self._write(statements.RECHECK, (to_micros(at), note, work_id))

    async def release(self, work_id: int, *, now: datetime, note: str) -> None:
        """Make a held item due."""

        def write(connection: sqlite3.Connection) -> None:
            with self._database.transaction(connection):
                connection.execute(statements.RELEASE, {"now": to_micros(now), "note": note, "id": work_id})
                promote(connection, [work_id], now)

        await self._database.call(write)

    async def once(self, handler: HandlerName, key: str, *, now: datetime, until: datetime | None = None) -> bool:
        """Return True the first time."""
        lapses = None if until is None else to_micros(until)
        return await self._write(statements.ONCE, (handler, key, to_micros(now), lapses)) == 1

    async def available_once_keys(
        self, handler: HandlerName, keys: Collection[str], *, now: datetime
    ) -> frozenset[str]:
        """Return those that nobody has asked for, or that have lapsed."""
        values = {"handler": handler, "keys": json.dumps(sorted(keys)), "now": to_micros(now)}

        def read(connection: sqlite3.Connection) -> frozenset[str]:
            return frozenset(key for (key,) in connection.execute(statements.AVAILABLE_ONCE_KEYS, values))

        return await self._database.call(read)

    async def set_once_expiry(self, handler: HandlerName, key: str, *, until: datetime | None) -> None:
        """Change when that lapses."""
        await self._write(statements.SET_ONCE_EXPIRY, (None if until is None else to_micros(until), handler, key))

    async def switches(self) -> Mapping[HandlerName, HandlerSwitch]:
        """Return the handlers that are not on."""
        return await self._database.call(claims.switches)

    async def changed(self) -> None:
        """Return when another connection has committed since the last call (PRAGMA data_version)."""
        while True:
            version = await self._database.call(data_version)
            if version != self._seen:
                self._seen = version
                return
            # The real clock, whatever clock the worker has: the change comes from another process.
            await asyncio.sleep(_POLL_SECONDS)

    async def _write(self, statement: str, values: dict[str, object] | tuple[object, ...]) -> int:
        """Run one writing statement and return how many rows it changed."""

        def write(connection: sqlite3.Connection) -> int:
            with self._database.transaction(connection):
                return connection.execute(statement, values).rowcount

        return await self._database.call(write)


def move(connection: sqlite3.Connection, ended: Sequence[Settlement]) -> None:
    """Bring the items of these attempts to their next states."""
    done = [one.work_id for one in ended if one.state is WorkState.DONE]
    if done:
        connection.execute(statements.FINISH, (json.dumps(done),))
    if len(done) < len(ended):
        others = [_move(one) for one in ended if one.state is not WorkState.DONE]
        connection.execute(statements.SETTLE, (json.dumps(others),))


def promote(connection: sqlite3.Connection, work_ids: Sequence[int], now: datetime) -> None:
    """Let the next ones of these items' lanes come forward where nobody is at the head."""
    connection.execute(statements.PROMOTE, {"ids": json.dumps(list(work_ids)), "now": to_micros(now)})


def _held_item(row: tuple[Any, ...]) -> HeldItem:
    _, work_id, handler, kind, job_id, received_at, until = row
    return HeldItem(work_id, handler, kind, job_id, from_micros(received_at), from_micros(until))


def _work_item(row: tuple[Any, ...]) -> WorkItem:
    work_id, handler, attempts, uncounted, deaths, trigger, *stored = row
    return WorkItem(
        id=work_id,
        handler=handler,
        attempt=attempts,
        uncounted=uncounted,
        deaths=deaths,
        trigger=Trigger(trigger) if attempts == 1 else Trigger.RETRY,
        source=stored_delivery(tuple(stored)),
    )


def _still_held(connection: sqlite3.Connection, settlements: Sequence[Settlement]) -> Mapping[int, str | None]:
    """Return the lanes of the items whose attempts their workers still hold, by the place of the settlement.

    Of an attempt that ended twice it is the first one's: the record of attempts would refuse the second one, and
    the whole batch with it.
    """
    ids = json.dumps([one.work_id for one in settlements])
    holders = {work_id: held for work_id, *held in connection.execute(statements.HOLDERS, (ids,))}
    lanes: dict[int, str | None] = {}
    for place, one in enumerate(settlements):
        worker, number, lane = holders.get(one.work_id, (None, None, None))
        if (worker, number) == (one.worker, one.attempt.number):
            del holders[one.work_id]
            lanes[place] = lane
    return lanes


def _move(one: Settlement) -> tuple[object, ...]:
    due_at = to_micros(one.due_at) if one.state is WorkState.WAITING else None
    return one.work_id, one.state, due_at, one.attempt.error, int(one.holds_lane), int(one.died)
