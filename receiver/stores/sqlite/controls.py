"""What operators decide, written into a SQLite store."""

import asyncio
import json
import sqlite3
from collections.abc import Sequence
from datetime import datetime
from functools import partial

from receiver.core.bulk import Imported
from receiver.core.clock import to_micros
from receiver.core.deliveries import Delivery, Receipt
from receiver.core.rules import as_replay
from receiver.core.types import AppendOutcome, HandlerName, HandlerSwitch
from receiver.core.work import NewWork, RecordedRun
from receiver.errors import UnknownRequest
from receiver.stores.sqlite import imports, statements
from receiver.stores.sqlite.checkpoints import Checkpointer
from receiver.stores.sqlite.database import Database, data_version
from receiver.stores.sqlite.log import insert_deliveries, same_body
from receiver.stores.sqlite.work_rows import make, record, with_bodies

_ROOM_SECONDS = 0.004
"""Between two transactions of many, while other processes write: they ask now and then whether the lock is free."""


class SqliteControls:
    """Controls. Workers see each commit at once."""

    def __init__(self, database: Database, checkpointer: Checkpointer) -> None:
        self._database = database
        self._checkpointer = checkpointer
        self._seen: int | None = None

    async def retry(self, work_ids: Sequence[int], *, now: datetime) -> int:
        """Make items due at once, with a fresh schedule."""
        return await self._decide(statements.RETRY, work_ids, {"now": to_micros(now)})

    async def bury(self, work_ids: Sequence[int], reason: str, *, now: datetime) -> int:
        """Make items dead, and release their lanes."""
        return await self._decide(statements.BURY, work_ids, {"now": to_micros(now), "reason": reason})

    async def switch(self, handler: HandlerName, to: HandlerSwitch) -> None:
        """Set a handler's switch."""

        def write(connection: sqlite3.Connection) -> None:
            with self._database.transaction(connection):
                connection.execute(statements.SWITCH, (handler, to))

        await self._database.call(write)

    async def import_deliveries(self, deliveries: Sequence[Imported]) -> Sequence[AppendOutcome]:
        """Store deliveries from outside whose keys are not stored."""
        outcomes: list[AppendOutcome] = []
        parts = list(imports.parts(deliveries))
        for number, part in enumerate(parts, start=1):
            # A sync is one of everything that was committed before: the last one is enough for the call.
            synced = "FULL" if number == len(parts) else "NORMAL"
            stored, others_write = await self._database.call(partial(self._bring_in, part, synced))
            outcomes += stored
            if others_write:
                await asyncio.sleep(_ROOM_SECONDS)
        return outcomes

    def _bring_in(
        self, deliveries: Sequence[Imported], synced: str, connection: sqlite3.Connection
    ) -> tuple[list[AppendOutcome], bool]:
        """Store them in one transaction; and tell whether others have committed since the last."""
        seen, self._seen = self._seen, data_version(connection)
        connection.execute(f"PRAGMA synchronous = {synced}")
        try:
            with self._database.transaction(connection):
                outcomes = imports.import_deliveries(connection, deliveries)
        finally:
            connection.execute("PRAGMA synchronous = FULL")
        self._checkpointer.after_commit(connection)
        return outcomes, seen is not None and seen != self._seen

    async def enqueue(self, work: Sequence[NewWork], *, now: datetime) -> int:
        """Make new work items."""

        def write(connection: sqlite3.Connection) -> int:
            with self._database.transaction(connection):
                there = with_bodies(connection, [one.seq for one in work])
                wanted = [as_replay(one) for one in work if one.seq in there]
                make(connection, wanted, lease=None, now=now)
            self._checkpointer.after_commit(connection)
            return len(wanted)

        return await self._database.call(write)

    async def record(self, results: Sequence[RecordedRun], *, now: datetime) -> None:
        """Keep work items that have run elsewhere."""

        def write(connection: sqlite3.Connection) -> None:
            with self._database.transaction(connection):
                there = with_bodies(connection, [one.seq for one in results])
                record(connection, [one for one in results if one.seq in there])
            self._checkpointer.after_commit(connection)

        await self._database.call(write)

    async def release_request(self, request_id: int, delivery: Delivery) -> Receipt:
        """Make a request in quarantine a delivery."""

        def write(connection: sqlite3.Connection) -> Receipt:
            with self._database.transaction(connection):
                known = connection.execute(statements.KEPT, (delivery.key,)).fetchone() is not None
                if known and not same_body(connection, delivery):
                    return Receipt(delivery.key, AppendOutcome.CONFLICT)
                if connection.execute(statements.FREE, (request_id,)).rowcount == 0:
                    raise UnknownRequest(f"there is no request {request_id} in quarantine")
                (receipt,) = insert_deliveries(connection, [delivery])
            return receipt

        return await self._database.call(write)

    async def _decide(self, statement: str, work_ids: Sequence[int], values: dict[str, object]) -> int:
        """Change items, then let the next ones of their lanes come forward; return how many were changed."""
        values["ids"] = json.dumps(list(work_ids))

        def write(connection: sqlite3.Connection) -> int:
            with self._database.transaction(connection):
                changed = connection.execute(statement, values).rowcount
                connection.execute(statements.PROMOTE, {"ids": values["ids"], "now": values["now"]})
            return changed

        return await self._database.call(write)
