"""What operators decide about work, and what is recorded of their actions."""

import json
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TypeVar

from receiver.core.clock import to_micros
from receiver.core.recorded_actions import NewAction
from receiver.core.rules import as_replay
from receiver.core.types import HandlerName, HandlerSwitch
from receiver.core.work import NewWork, RecordedRun
from receiver.stores.sql.connection import SqlConnection, SqlDatabase, number
from receiver.stores.sql.statements import work as statements
from receiver.stores.sql.writes import Writes

T = TypeVar("T")


class SqlActionLog:
    """An ActionLog."""

    def __init__(self, database: SqlDatabase) -> None:
        self.database = database

    async def begin_action(self, action: NewAction, *, now: datetime) -> int:
        """Record that an action begins."""
        values = {
            "actor": action.actor,
            "verb": action.verb,
            "about": action.about,
            "choice": json.dumps(dict(action.choice)),
            "planned": action.planned,
            "now": to_micros(now),
        }

        def write(connection: SqlConnection) -> int:
            with self.database.transaction(connection):
                return number(connection, statements.BEGIN_ACTION, values)

        return await self.database.call(write)

    async def advance_action(self, action: int, *, seen: int, changed: int, now: datetime) -> None:
        """Add to what it has looked at and changed."""

        def write(connection: SqlConnection) -> None:
            with self.database.transaction(connection):
                count_for(connection, action, seen=seen, changed=changed, now=now)

        await self.database.call(write)

    async def end_action(self, action: int, *, now: datetime, error: str | None = None) -> None:
        """Record that it has ended."""

        def write(connection: SqlConnection) -> None:
            with self.database.transaction(connection):
                connection.execute(statements.END_ACTION, {"action": action, "now": to_micros(now), "error": error})

        await self.database.call(write)


class SqlControls(SqlActionLog):
    """Controls, but for what brings deliveries in, which each kind of database does in its own way."""

    def __init__(self, database: SqlDatabase, writes: Writes) -> None:
        super().__init__(database)
        self._writes = writes

    async def retry(self, work_ids: Sequence[int], *, now: datetime, action: int | None = None) -> int:
        """Make items due at once, with a fresh schedule."""
        return await self._decide(self._writes.sql.retry, work_ids, now, action)

    async def bury(self, work_ids: Sequence[int], reason: str, *, now: datetime, action: int | None = None) -> int:
        """Make items dead, and release their lanes."""
        return await self._decide(self._writes.sql.bury, work_ids, now, action, reason=reason)

    async def take_back(
        self, work_ids: Sequence[int], reason: str, *, now: datetime, action: int | None = None
    ) -> int:
        """Make items dead that were never attempted."""
        return await self._decide(self._writes.sql.take_back, work_ids, now, action, reason=reason)

    async def switch(self, handler: HandlerName, to: HandlerSwitch) -> None:
        """Set a handler's switch."""

        def write(connection: SqlConnection) -> None:
            with self.database.transaction(connection):
                # A claim that skips what waits for a disabled handler ends first.
                self._writes.locks.handlers(connection, [handler])
                connection.execute(self._writes.sql.switch, {"handler": handler, "to": to})

        await self.write(write)

    async def enqueue(
        self, work: Sequence[NewWork], *, now: datetime, action: int | None = None, seen: int = 0
    ) -> int:
        """Make new work items."""
        rows = self._writes.work_rows

        def write(connection: SqlConnection) -> int:
            with self.database.transaction(connection):
                there = rows.with_bodies(connection, [one.seq for one in work])
                wanted = [as_replay(one) for one in work if one.seq in there]
                rows.make(connection, wanted, lease=None, now=now, action=action)
                count_for(connection, action, seen=seen, changed=len(wanted), now=now)
            return len(wanted)

        return await self.write(write)

    async def record(
        self, results: Sequence[RecordedRun], *, now: datetime, action: int | None = None, seen: int = 0
    ) -> None:
        """Keep work items that have run elsewhere."""
        rows = self._writes.work_rows

        def write(connection: SqlConnection) -> None:
            with self.database.transaction(connection):
                there = rows.with_bodies(connection, [one.seq for one in results])
                wanted = [one for one in results if one.seq in there]
                rows.record(connection, wanted)
                count_for(connection, action, seen=seen, changed=len(wanted), now=now)

        await self.write(write)

    async def write(self, work: Callable[[SqlConnection], T]) -> T:
        """Run a function that writes. Every decision goes through here."""
        return await self.database.call(work)

    async def _decide(
        self,
        statement: str,
        work_ids: Sequence[int],
        now: datetime,
        action: int | None,
        **values: object,
    ) -> int:
        """Change items, then let the next ones of their lanes come forward; return how many were changed."""
        values |= {"ids": self._writes.dialect.array(work_ids), "now": to_micros(now), "action": action}

        def write(connection: SqlConnection) -> int:
            with self.database.transaction(connection):
                self._writes.locks.lanes_of(connection, work_ids)
                self._writes.locks.keep_deliveries_of(connection, work_ids)
                changed = connection.execute(statement, values).rowcount
                self._writes.latest.note(connection, now)
                self._writes.settling.promote(connection, work_ids, now)
                count_for(connection, action, seen=len(work_ids), changed=changed, now=now)
            return changed

        return await self.write(write)


def count_for(connection: SqlConnection, action: int | None, *, seen: int, changed: int, now: datetime) -> None:
    """Add to an action inside a transaction; None is no action."""
    if action is not None:
        values = {"action": action, "seen": seen, "changed": changed, "now": to_micros(now)}
        connection.execute(statements.ADVANCE_ACTION, values)
