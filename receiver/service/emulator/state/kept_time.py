"""The emulator's time over a restart: how far its clock is ahead stands in the state."""

import sqlite3
from datetime import timedelta

from receiver.service.emulator.clock import EmulatorClock

SCHEMA = """
CREATE TABLE IF NOT EXISTS clock_ahead (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    micros INTEGER NOT NULL
) STRICT;
"""

_MICROSECOND = timedelta(microseconds=1)
_LEAST = 1_000
"""Microseconds. Two readings of clocks are never the same; less than this is not worth a write."""


class KeptTime:
    """Keeps how far a clock is ahead of the real one, in the transactions that write what happened at its time.

    So no time in a state lies ahead of the clock of the emulator that opens it next, whatever ended the last one.
    """

    def __init__(self, clock: EmulatorClock) -> None:
        self._clock = clock

    def restore(self, connection: sqlite3.Connection) -> None:
        """Move the clock forward to where it stood. It never moves back."""
        row = connection.execute("SELECT micros FROM clock_ahead").fetchone()
        if row is not None:
            self._clock.be_ahead(timedelta(microseconds=row[0]))

    def keep(self, connection: sqlite3.Connection) -> None:
        """Note how far the clock is ahead, if it is further ahead than was noted."""
        micros = self._clock.ahead // _MICROSECOND
        if micros >= _LEAST:
            connection.execute(
                "INSERT INTO clock_ahead (id, micros) VALUES (1, ?) ON CONFLICT (id)"
                " DO UPDATE SET micros = excluded.micros WHERE excluded.micros >= micros + ?",
                (micros, _LEAST),
            )
