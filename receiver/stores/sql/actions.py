"""What people did, in an SQL store."""

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from receiver.core.clock import from_micros, to_micros
from receiver.core.recorded_actions import NewAction, RecordedAction
from receiver.errors import UnknownAction
from receiver.stores.sql.connection import SqlConnection, SqlDatabase, number
from receiver.stores.sql.jobs import NEWEST
from receiver.stores.sql.statements import work as statements


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


class ActionReports:
    """An ActionReader."""

    def __init__(self, database: SqlDatabase) -> None:
        self.database = database

    async def actions(self, *, limit: int, before: int | None = None) -> Sequence[RecordedAction]:
        """Return recorded actions, the newest first."""
        values = {"before": NEWEST if before is None else before, "rows": limit}
        return await self.database.call(
            lambda connection: [_recorded(row) for row in connection.execute(statements.ACTIONS, values)]
        )

    async def action(self, number: int) -> RecordedAction:
        """Return a recorded action."""
        row = await self.database.call(
            lambda connection: connection.execute(statements.ACTION, {"id": number}).fetchone()
        )
        if row is None:
            raise UnknownAction(number)
        return _recorded(row)


def count_for(connection: SqlConnection, action: int | None, *, seen: int, changed: int, now: datetime) -> None:
    """Add to an action inside a transaction; None is no action."""
    if action is not None:
        values = {"action": action, "seen": seen, "changed": changed, "now": to_micros(now)}
        connection.execute(statements.ADVANCE_ACTION, values)


def _recorded(row: Sequence[Any]) -> RecordedAction:
    number, actor, verb, about, choice, planned, began_at, seen_at, ended_at, seen, changed, error = row
    return RecordedAction(
        number,
        NewAction(actor, verb, about, planned, json.loads(choice)),
        from_micros(began_at),
        from_micros(seen_at),
        None if ended_at is None else from_micros(ended_at),
        seen,
        changed,
        error,
    )
