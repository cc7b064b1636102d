"""Feedback of callers on answers. It is kept and changes nothing; the first on a search gives a credit back."""

import sqlite3
from dataclasses import dataclass
from datetime import timedelta

from receiver.core.clock import Clock, to_micros
from receiver.emulator.account.account import CreditLedger
from receiver.emulator.ids import IdSource
from receiver.emulator.state.database import StateDatabase

SCHEMA = """
CREATE TABLE IF NOT EXISTS answered_calls (
    id TEXT PRIMARY KEY,
    team TEXT NOT NULL,
    endpoint TEXT NOT NULL,
    answered_at INTEGER NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS answered_calls_by_age ON answered_calls (answered_at);
CREATE TABLE IF NOT EXISTS feedback (
    team TEXT NOT NULL,
    job_id TEXT NOT NULL,
    feedback_id TEXT NOT NULL,
    day TEXT NOT NULL,
    refunded INTEGER NOT NULL,
    PRIMARY KEY (team, job_id)
) STRICT;
CREATE INDEX IF NOT EXISTS feedback_by_day ON feedback (day, team);
"""
KEPT_FOR = timedelta(hours=24)
"""How long feedback on an answer is taken."""
REFUND = 1
"""Credits that the first feedback on a search gives back."""
MOST_REFUNDS = 100
"""Credits that a team gets back on one day, in UTC."""
_NOTE = "INSERT OR IGNORE INTO answered_calls (id, team, endpoint, answered_at) VALUES (?, ?, ?, ?)"
_FORGET = "DELETE FROM answered_calls WHERE answered_at <= ?"
_KNOWN = "SELECT 1 FROM answered_calls WHERE id = ? AND team = ? AND endpoint = ? AND answered_at > ?"
_GIVEN = "SELECT feedback_id FROM feedback WHERE team = ? AND job_id = ?"
_REFUNDED = "SELECT COALESCE(sum(refunded), 0) FROM feedback WHERE day = ? AND team = ?"
_KEEP = "INSERT INTO feedback (team, job_id, feedback_id, day, refunded) VALUES (?, ?, ?, ?, ?)"


@dataclass(frozen=True, slots=True)
class FeedbackReceipt:
    """What became of feedback on an answer."""

    id: str
    """UUID of the first feedback on this answer."""
    refunded: int
    """Credits that it gave back."""
    refunded_today: int
    """Credits that the team got back today."""
    is_repeated: bool
    """Whether there was feedback before."""


class FeedbackBook:
    """The answers of a day, and the feedback on them."""

    def __init__(self, state: StateDatabase, clock: Clock, ids: IdSource, ledger: CreditLedger) -> None:
        self._state = state
        self._clock = clock
        self._ids = ids
        self._ledger = ledger

    async def note(self, team: str, job_id: str, endpoint: str) -> None:
        """Note that a call was answered, so that feedback on it can be taken."""
        now = self._clock.now()

        def work(connection: sqlite3.Connection) -> None:
            connection.execute(_FORGET, (to_micros(now - KEPT_FOR),))
            connection.execute(_NOTE, (job_id, team, endpoint, to_micros(now)))

        await self._state.run(work)

    async def knows(self, team: str, job_id: str, endpoint: str) -> bool:
        """Return whether such a call of the team was answered within a day."""
        since = to_micros(self._clock.now() - KEPT_FOR)
        values = (job_id, team, endpoint, since)
        return await self._state.run(lambda connection: connection.execute(_KNOWN, values).fetchone() is not None)

    async def take(self, team: str, job_id: str, *, pays: bool) -> FeedbackReceipt:
        """Keep feedback on an answer. The first gives a credit back if it `pays`, up to MOST_REFUNDS on one day."""
        return await self._state.run(lambda connection: self._take(connection, team, job_id, pays))

    def _take(self, connection: sqlite3.Connection, team: str, job_id: str, pays: bool) -> FeedbackReceipt:
        day = f"{self._clock.now():%Y-%m-%d}"
        today = int(connection.execute(_REFUNDED, (day, team)).fetchone()[0])
        known = connection.execute(_GIVEN, (team, job_id)).fetchone()
        if known is not None:
            return FeedbackReceipt(known["feedback_id"], 0, today, is_repeated=True)
        refund = REFUND if pays and today + REFUND <= MOST_REFUNDS else 0
        self._ledger.refund_within(connection, team, refund)
        feedback_id = self._ids.new()
        connection.execute(_KEEP, (team, job_id, feedback_id, day, refund))
        return FeedbackReceipt(feedback_id, refund, today + refund, is_repeated=False)
