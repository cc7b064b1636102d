"""The ids of jobs, scrapes and deliveries."""

import random
import sqlite3
import uuid

from receiver.core.clock import Clock
from receiver.emulator.state.database import StateDatabase


class IdSource:
    """Makes UUIDs of version 7 (RFC 9562, section 5.7). With a seed they are reproducible."""

    def __init__(self, clock: Clock, seed: int | None = None) -> None:
        self._clock = clock
        self._random: random.Random = random.SystemRandom() if seed is None else random.Random(seed)  # noqa: S311 - ids, not secrets

    def new(self) -> str:
        """Return a new id."""
        milliseconds = int(self._clock.now().timestamp() * 1000) & (1 << 48) - 1
        bits = self._random.getrandbits(74)
        number = milliseconds << 80 | 0x7 << 76 | bits >> 62 << 64 | 0b10 << 62 | bits & (1 << 62) - 1
        return str(uuid.UUID(int=number))

    def new_delivery(self) -> str:
        """Return an id for a delivery: a UUID of version 4, as the service has them."""
        return str(uuid.UUID(int=self._random.getrandbits(128), version=4))


async def open_ids(state: StateDatabase, clock: Clock, seed: int | None) -> IdSource:
    """Return a source of ids that a state does not have yet.

    With a seed, the ids are reproducible, and differ from start to start.
    """

    def count_start(connection: sqlite3.Connection) -> int:
        # A number that no reset of the tables takes away: https://www.sqlite.org/pragma.html#pragma_user_version
        starts = int(connection.execute("PRAGMA user_version").fetchone()[0])
        connection.execute(f"PRAGMA user_version = {starts + 1}")
        return starts

    return IdSource(clock, None if seed is None else seed + (await state.run(count_start) << 64))
