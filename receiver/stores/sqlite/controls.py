"""What operators decide, written into a SQLite store."""

import json
import sqlite3
from collections.abc import Sequence
from datetime import datetime

from receiver.clock import to_micros
from receiver.stores.sqlite import statements
from receiver.stores.sqlite.database import Database
from receiver.types import HandlerName, HandlerSwitch


class SqliteControls:
    """Controls. Workers see each commit at once."""

    def __init__(self, database: Database) -> None:
        self._database = database

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

    async def _decide(self, statement: str, work_ids: Sequence[int], values: dict[str, object]) -> int:
        """Change items, then let the next ones of their lanes come forward; return how many were changed."""
        values["ids"] = json.dumps(list(work_ids))

        def write(connection: sqlite3.Connection) -> int:
            with self._database.transaction(connection):
                changed = connection.execute(statement, values).rowcount
                connection.execute(statements.PROMOTE, {"ids": values["ids"], "now": values["now"]})
            return changed

        return await self._database.call(write)
