"""What operators decide, written into a SQLite store."""

import asyncio
import sqlite3
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TypeVar

from receiver.core.bulk import Imported
from receiver.core.deliveries import Delivery, Receipt
from receiver.core.types import AppendOutcome
from receiver.errors import UnknownRequest
from receiver.stores.sql.controls import SqlControls
from receiver.stores.sqlite import imports
from receiver.stores.sqlite.database import Database, data_version
from receiver.stores.sqlite.delivery_keys import DeliveryKeys
from receiver.stores.sqlite.dialect import WRITES
from receiver.stores.sqlite.job_rows import JobRows
from receiver.stores.sqlite.log import insert_deliveries, same_body
from receiver.stores.sqlite.statements.controls import FREE_REQUEST

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
            part = imports.next_part(deliveries[len(outcomes) :], beside_others=self._others_write)
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
                outcomes = imports.import_deliveries(connection, self._keys, deliveries)
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
