"""The credits of teams: what is left, and what was used in each month."""

import sqlite3
from dataclasses import dataclass
from datetime import datetime

from receiver.core.clock import Clock
from receiver.service.emulator.state.database import StateDatabase

SCHEMA = """
CREATE TABLE IF NOT EXISTS team_credits (
    team TEXT PRIMARY KEY,
    remaining INTEGER NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS used_credits (
    team TEXT NOT NULL,
    month TEXT NOT NULL,
    credits INTEGER NOT NULL,
    PRIMARY KEY (team, month)
) STRICT;
"""
MOST_CREDITS = 2**53 - 1
"""The largest number that every JSON reader keeps exactly."""


@dataclass(frozen=True, slots=True)
class MonthOfCredits:
    """The credits that a team used in a month."""

    start: datetime
    """When the month began, in UTC."""
    credits: int
    """How many were used."""


class CreditLedger:
    """The account of every team. A team that was never seen has the `initial` credits."""

    def __init__(self, state: StateDatabase, clock: Clock, *, initial: int) -> None:
        self._state = state
        self._clock = clock
        self._at_start = initial
        self.initial = initial
        """What a team has at the start, which is also the credits of its plan."""

    async def remaining(self, team: str) -> int:
        """Return the credits that are left."""
        return await self._state.run(lambda connection: self._remaining(connection, team))

    async def charge(self, team: str, amount: int) -> None:
        """Take an amount of credits off, never below 0. All of it counts as used."""
        if amount > 0:
            await self._state.run(lambda connection: self.charge_within(connection, team, amount))

    def charge_within(self, connection: sqlite3.Connection, team: str, amount: int) -> None:
        """Do what `charge` does, as a part of the transaction that notes what is paid for."""
        if amount <= 0:
            return
        self._set(connection, team, max(0, self._remaining(connection, team) - amount))
        connection.execute(
            "INSERT INTO used_credits (team, month, credits) VALUES (?, ?, ?)"
            " ON CONFLICT (team, month) DO UPDATE SET credits = credits + excluded.credits",
            (team, f"{self._clock.now():%Y-%m}", amount),
        )

    def refund_within(self, connection: sqlite3.Connection, team: str, amount: int) -> None:
        """Give credits back as a part of a transaction. They do not count as used in this month."""
        if amount <= 0:
            return
        self._set(connection, team, self._remaining(connection, team) + amount)
        connection.execute(
            "UPDATE used_credits SET credits = max(0, credits - ?) WHERE team = ? AND month = ?",
            (amount, team, f"{self._clock.now():%Y-%m}"),
        )

    def pay_within(self, connection: sqlite3.Connection, team: str, amount: int) -> bool:
        """Do what `charge_within` does if as many credits are left; otherwise do nothing, and return False."""
        if amount > self._remaining(connection, team):
            return False
        self.charge_within(connection, team, amount)
        return True

    async def set_remaining(self, team: str | None, amount: int) -> None:
        """Set what a team has left; without a team, what every team has, also those that come later."""

        def work(connection: sqlite3.Connection) -> None:
            if team is None:
                connection.execute("DELETE FROM team_credits")
            else:
                self._set(connection, team, amount)

        await self._state.run(work)
        if team is None:
            self.initial = amount

    def forget_all(self) -> None:
        """Let every team begin with what it had at the start; its tables are emptied by the caller."""
        self.initial = self._at_start

    async def months(self, team: str) -> list[MonthOfCredits]:
        """Return what the team used, the oldest month first; months without use are left out."""

        def work(connection: sqlite3.Connection) -> list[MonthOfCredits]:
            rows = connection.execute(
                "SELECT month, credits FROM used_credits WHERE team = ? ORDER BY month", (team,)
            )
            return [MonthOfCredits(datetime.fromisoformat(f"{month}-01T00:00:00Z"), used) for month, used in rows]

        return await self._state.run(work)

    def _remaining(self, connection: sqlite3.Connection, team: str) -> int:
        row = connection.execute("SELECT remaining FROM team_credits WHERE team = ?", (team,)).fetchone()
        return self.initial if row is None else int(row[0])

    def _set(self, connection: sqlite3.Connection, team: str, amount: int) -> None:
        connection.execute(
            "INSERT INTO team_credits (team, remaining) VALUES (?, ?)"
            " ON CONFLICT (team) DO UPDATE SET remaining = excluded.remaining",
            (team, amount),
        )
