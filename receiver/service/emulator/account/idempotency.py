"""Idempotency keys: a start with a key that was used before is refused."""

import sqlite3
import uuid

from receiver.service.emulator.failures import CallRefused
from receiver.service.emulator.state.database import StateDatabase

HEADER = "x-idempotency-key"
SCHEMA = """
CREATE TABLE IF NOT EXISTS idempotency_keys (
    team TEXT NOT NULL,
    key TEXT NOT NULL,
    PRIMARY KEY (team, key)
) STRICT;
"""


class IdempotencyKeys:
    """The keys that each team has used."""

    def __init__(self, state: StateDatabase) -> None:
        self._state = state

    async def use(self, team: str, key: str) -> None:
        """Keep a key. CallRefused with status 400 if it is no UUID, with 409 if the team has used it."""
        try:
            known = str(uuid.UUID(key))
        except ValueError:
            raise CallRefused(400, f"Invalid idempotency key: {HEADER} has to be a UUID") from None

        def work(connection: sqlite3.Connection) -> bool:
            cursor = connection.execute(
                "INSERT INTO idempotency_keys (team, key) VALUES (?, ?) ON CONFLICT DO NOTHING", (team, known)
            )
            return cursor.rowcount == 1

        if not await self._state.run(work):
            raise CallRefused(409, "Idempotency key already used")

    async def give_back(self, team: str, key: str) -> None:
        """Forget a key, because the call that used it started nothing."""
        known = str(uuid.UUID(key))
        await self._state.run(
            lambda connection: connection.execute(
                "DELETE FROM idempotency_keys WHERE team = ? AND key = ?", (team, known)
            )
        )
