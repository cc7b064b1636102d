"""What operators decide, written into a SQLite store."""

import asyncio
import sqlite3
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from receiver.core.batches import first_batch
from receiver.core.bulk import Imported
from receiver.core.clock import to_micros
from receiver.core.deliveries import Delivery, Receipt
from receiver.core.types import AppendOutcome, DeliveryKey, Origin
from receiver.errors import UnknownRequest
from receiver.stores.sql.columns_of_bodies import PLAIN, headers_text
from receiver.stores.sql.connection import SqlDatabase, number
from receiver.stores.sql.controls import SqlControls
from receiver.stores.sql.copying import set_mark
from receiver.stores.sql.dialect import insert
from receiver.stores.sql.statements import log as shared
from receiver.stores.sql.statements.deliveries import LAST_DELIVERY
from receiver.stores.sql.statements.log import COUNT_NEXT, FREE_REQUEST
from receiver.stores.sqlite import reports, statements
from receiver.stores.sqlite import statements as log_statements
from receiver.stores.sqlite.database import Database, data_version
from receiver.stores.sqlite.delivery_keys import DeliveryKeys
from receiver.stores.sqlite.dialect import DIALECT, WRITES
from receiver.stores.sqlite.log import JobRows, insert_deliveries, same_body
from receiver.stores.sqlite.statements import TAKE_IN

IMPORT_MAX_ITEMS = 500
IMPORT_MAX_BYTES = 1024 * 1024
"""Deliveries in one transaction and bytes of their bodies. 100 deliveries take 7 % more time for each."""
_MAX_ITEMS_BESIDE_OTHERS = 25
_MAX_BYTES_BESIDE_OTHERS = 256 * 1024
"""The same if other processes write. Acks wait for its end: a millisecond."""


def next_part(deliveries: Sequence[Imported], *, beside_others: bool) -> Sequence[Imported]:
    """Return the first of these deliveries, those that one transaction takes."""
    items, size = (
        (_MAX_ITEMS_BESIDE_OTHERS, _MAX_BYTES_BESIDE_OTHERS)
        if beside_others
        else (IMPORT_MAX_ITEMS, IMPORT_MAX_BYTES)
    )
    return first_batch(deliveries, items, size, lambda one: len(one.delivery.body))


def import_deliveries(
    connection: sqlite3.Connection, keys: DeliveryKeys, deliveries: Sequence[Imported]
) -> list[AppendOutcome]:
    """Store the new ones of these deliveries, inside a transaction of the caller."""
    if any(one.origin is Origin.BACKFILL for one in deliveries):
        connection.execute(shared.MARK_BACKFILLED)
    stored = keys.find(connection, (one.delivery.key for one in deliveries))
    new: dict[DeliveryKey, tuple[int, Imported]] = {}
    again: list[bool] = []
    for one in deliveries:
        key = one.delivery.key
        again.append(key in stored)
        if not again[-1]:
            stored[key] = keys.last_seq + len(new) + 1
            new[key] = stored[key], one
    insert(connection, log_statements.import_deliveries, [_row(seq, one) for seq, one in new.values()])
    insert(connection, log_statements.insert_bodies, [_body(seq, one.delivery) for seq, one in new.values()])
    keys.add(connection, ((key, seq) for key, (seq, _) in new.items()))
    return [
        _known(connection, stored[one.delivery.key], one.delivery) if is_stored else AppendOutcome.ACCEPTED
        for one, is_stored in zip(deliveries, again, strict=True)
    ]


def _known(connection: sqlite3.Connection, seq: int, delivery: Delivery) -> AppendOutcome:
    """Compare with the stored delivery of this key. If its body was pruned or cannot be read, restore it."""
    is_same = same_body(connection, seq, delivery)
    if is_same is None:
        connection.execute(TAKE_IN, (delivery.body, seq))
        reports.restore(connection, seq, delivery.body)
        return AppendOutcome.DUPLICATE
    if not is_same:
        return AppendOutcome.CONFLICT
    _, body, _ = connection.execute(log_statements.KEPT, (seq,)).fetchone()
    if body is None:
        insert(connection, log_statements.insert_bodies, [_body(seq, delivery)])
        connection.execute(shared.RESTORED, (seq,))
        reports.restore(connection, seq, delivery.body)
    return AppendOutcome.DUPLICATE


def _row(seq: int, one: Imported) -> tuple[object, ...]:
    delivery = one.delivery
    return (
        *(seq, delivery.key, delivery.type, delivery.job_id, delivery.webhook_id, delivery.success),
        *(to_micros(delivery.received_at), len(delivery.body), one.duplicates, one.origin),
    )


def _body(seq: int, delivery: Delivery) -> tuple[object, ...]:
    return seq, headers_text(delivery.headers), delivery.body, PLAIN


T = TypeVar("T")

PAUSE_SECONDS, MAX_PAUSE_SECONDS = 0.004, 0.05
"""Between two transactions, if other processes write. They try to take the lock at short intervals."""
_PAUSES_PER_WORK = 2
"""A pause is so many times as long as the processor time since the last one, which acks need too. With short pauses
0.79 of them were left beside `replay --enqueue`, and so 0.87."""


class SqliteControls(SqlControls):
    """Controls. Workers see each commit at once."""

    def __init__(
        self,
        database: Database,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        used: Callable[[], float] = time.process_time,
    ) -> None:
        super().__init__(database, WRITES)
        self._sleep = sleep
        self._used = used
        self._keys = DeliveryKeys()
        self._jobs = JobRows()
        self._seen: int | None = None
        self._others_write = False
        self._used_before = used()

    async def import_deliveries(self, deliveries: Sequence[Imported]) -> Sequence[AppendOutcome]:
        """Store deliveries from outside whose keys are not stored."""
        outcomes: list[AppendOutcome] = []
        while len(outcomes) < len(deliveries):
            part = next_part(deliveries[len(outcomes) :], beside_others=self._others_write)
            # A sync covers all earlier commits, so the last part alone needs one.
            synced = "FULL" if len(outcomes) + len(part) == len(deliveries) else "NORMAL"
            outcomes += await self.write(partial(self._import_part, part, synced))
        return outcomes

    def _import_part(
        self, deliveries: Sequence[Imported], synced: str, connection: sqlite3.Connection
    ) -> list[AppendOutcome]:
        """Store them in one transaction."""
        connection.execute(f"PRAGMA synchronous = {synced}")
        try:
            with self._keys.changes(connection), self.database.transaction(connection):
                outcomes = import_deliveries(connection, self._keys, deliveries)
                self._jobs.follow(connection, self._keys.last_seq)
        finally:
            connection.execute("PRAGMA synchronous = FULL")
        return outcomes

    async def release_request(self, request_id: int, delivery: Delivery) -> Receipt:
        """Make a request in quarantine a delivery."""

        def write(connection: sqlite3.Connection) -> Receipt:
            with self._keys.changes(connection), self.database.transaction(connection):
                stored = self._keys.find(connection, [delivery.key])
                if stored and not same_body(connection, stored[delivery.key], delivery):
                    return Receipt(delivery.key, AppendOutcome.CONFLICT)
                if connection.execute(FREE_REQUEST, {"id": request_id}).rowcount == 0:
                    raise UnknownRequest(request_id)
                (receipt,) = insert_deliveries(connection, self._keys, [delivery])
            return receipt

        return await self.write(write)

    async def write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run a function that writes, and then let others write that have written since the last one."""

        def write(connection: sqlite3.Connection) -> tuple[T, int]:
            return work(connection), data_version(connection)

        seen = self._seen
        result, self._seen = await self.database.call(write)
        self._others_write = seen is not None and seen != self._seen
        if self._others_write:
            wanted = (self._used() - self._used_before) * _PAUSES_PER_WORK
            await self._sleep(min(max(wanted, PAUSE_SECONDS), MAX_PAUSE_SECONDS))
        self._used_before = self._used()
        return result


class SqliteCopySide:
    """A CopySide."""

    dialect = DIALECT
    identity_mark = "store"

    def __init__(self, database: SqlDatabase) -> None:
        self.database = database

    def continue_behind(self, connection: Any, table: str, last: int) -> None:
        """Let the numbers of new rows begin after this one."""
        connection.execute(statements.ADD_SEQUENCE, {"table": table})
        connection.execute(statements.CONTINUE_BEHIND, {"table": table, "last": last})

    def finish(self, connection: Any) -> None:
        """Make the index of keys, the rows of jobs and the counts of arrivals from the deliveries."""
        last = number(connection, LAST_DELIVERY, {})
        for statement in (statements.NO_KEYS, statements.ADD_KEYS, statements.NO_JOBS, statements.NO_MINUTES):
            connection.execute(statement)
        for statement in (log_statements.JOB_ROWS.add_next, COUNT_NEXT):
            connection.execute(statement, {"after": 0, "through": last})
        for name in ("keyed", "summed"):
            set_mark(connection, name, last)
        connection.execute(log_statements.NOTE_MOVING, {"moving": 0, "place": 0, "part": 0})
