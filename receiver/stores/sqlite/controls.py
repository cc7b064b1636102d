"""What operators decide, written into a SQLite store."""

import json
import sqlite3
from collections.abc import Sequence
from datetime import datetime
from functools import partial

from receiver.clock import to_micros
from receiver.keeping import Imported
from receiver.stores.sqlite import imports, statements
from receiver.stores.sqlite.checkpoints import Checkpointer
from receiver.stores.sqlite.database import Database
from receiver.types import HandlerName, HandlerSwitch, Outcome


class SqliteControls:
    """Controls. Workers see each commit at once."""

    def __init__(self, database: Database, checkpointer: Checkpointer) -> None:
        self._database = database
        self._checkpointer = checkpointer

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

    async def bring_in(self, deliveries: Sequence[Imported]) -> Sequence[Outcome]:
        """Store deliveries from outside whose keys are not stored."""
        outcomes: list[Outcome] = []
        for part in imports.parts(deliveries):
            outcomes += await self._database.call(partial(self._bring_in, part))
        return outcomes

    def _bring_in(self, deliveries: Sequence[Imported], connection: sqlite3.Connection) -> list[Outcome]:
        with self._database.transaction(connection):
            outcomes = imports.bring_in(connection, deliveries)
        self._checkpointer.after_commit(connection)
        return outcomes

    async def _decide(self, statement: str, work_ids: Sequence[int], values: dict[str, object]) -> int:
        """Change items, then let the next ones of their lanes come forward; return how many were changed."""
        values["ids"] = json.dumps(list(work_ids))

        def write(connection: sqlite3.Connection) -> int:
            with self._database.transaction(connection):
                changed = connection.execute(statement, values).rowcount
                connection.execute(statements.PROMOTE, {"ids": values["ids"], "now": values["now"]})
            return changed

        return await self._database.call(write)
