"""API keys, with the team that each belongs to, and idempotency keys."""

import hashlib
import hmac
import sqlite3
import uuid
from collections.abc import Sequence

from receiver.emulator.failures import CallRefused
from receiver.emulator.state.database import StateDatabase

_SCHEME = "bearer "
_NO_KEY = "None"
"""What the service's SDK sends in place of a key in version 1, when it has none."""
HEADER = "x-idempotency-key"
SCHEMA = """
CREATE TABLE IF NOT EXISTS idempotency_keys (
    team TEXT NOT NULL,
    key TEXT NOT NULL,
    PRIMARY KEY (team, key)
) STRICT;
"""
OPEN_TEAM = "00000000-0000-4000-8000-000000000000"
"""The team of calls without a key, where those pass."""

_ANY_KEY = (
    "This emulator of the service takes every key: send any text in the header `Authorization: Bearer fc-any`, or "
    "POST email, agent_name and accept_terms to /v2/agent-signup for a key of your own."
)
_KNOWN_KEYS = (
    "This emulator of the service takes the keys that it was started with, by `receiver emulate --key`. "
    "It makes none itself: ask whoever started it."
)


class ApiKeys:
    """Without configured keys every key passes. Each key has a team of its own."""

    def __init__(self, keys: Sequence[str] = (), *, open_access: bool = False) -> None:
        self._keys = tuple(key.encode() for key in keys)
        self._open_access = open_access

    @property
    def anyone_passes(self) -> bool:
        """Whether a caller passes who knows no key."""
        return self._open_access or not self._keys

    @property
    def advice(self) -> str:
        """How a caller without a key gets one, for people and agents."""
        return _ANY_KEY if self.anyone_passes else _KNOWN_KEYS

    def team_of(self, authorization: str | None) -> str:
        """Return the id of the team for an Authorization header. CallRefused with status 401 refuses it."""
        text = (authorization or "").strip()
        key = text[len(_SCHEME) :].strip() if text.lower().startswith(_SCHEME) else ""
        given = key.encode("utf-8", "surrogateescape")
        if self._open_access and (not key or (key == _NO_KEY and given not in self._keys)):
            return OPEN_TEAM
        if not key:
            raise CallRefused(401, "Unauthorized: Token missing", hints=[self.advice])
        fitting = [known for known in self._keys if hmac.compare_digest(given, known)]
        if self._keys and not fitting:
            raise CallRefused(401, "Unauthorized: Invalid token", hints=[self.advice])
        return team_of_key(given)


def team_of_key(key: bytes) -> str:
    """Return the id of a key's team, from which nobody can get the key."""
    return str(uuid.UUID(bytes=hashlib.sha256(b"team of " + key).digest()[:16], version=4))


class IdempotencyKeys:
    """The idempotency keys that each team has used. A start with one of them is refused."""

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
