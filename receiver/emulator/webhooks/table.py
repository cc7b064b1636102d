"""The table of webhook deliveries. Every function runs inside of a transaction of the state database."""

import json
import sqlite3
from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from receiver.core.clock import from_micros, iso, to_micros
from receiver.emulator.state.database import pack, unpack
from receiver.service.schedule import EndpointResponse, SenderSchedule, State, after, pause_before

SCHEMA = """
CREATE TABLE IF NOT EXISTS webhook_deliveries (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    url TEXT NOT NULL,
    headers TEXT NOT NULL,
    type TEXT NOT NULL,
    job_id TEXT NOT NULL,
    body BLOB,
    copies INTEGER NOT NULL,
    state TEXT NOT NULL,
    attempts TEXT NOT NULL DEFAULT '[]',
    created_at INTEGER NOT NULL,
    due_at INTEGER
) STRICT;
CREATE INDEX IF NOT EXISTS webhook_deliveries_due ON webhook_deliveries (url, due_at, seq) WHERE due_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS webhook_deliveries_job ON webhook_deliveries (job_id);
"""

LOST = "lost"
"""The state of a delivery that a fault lost: it was never sent."""
SKIPPED = "skipped"
"""The state of a delivery to a private host, when those are not allowed: it was never sent."""
KEPT_ROWS = 100_000
"""How many deliveries are remembered; the oldest that have ended are forgotten."""
_PRUNED_EVERY = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedDelivery:
    """A delivery before it is kept."""

    id: str
    """UUID of the delivery, the same on each retry."""
    url: str
    headers: Mapping[str, str] = field(repr=False)
    type: str
    job_id: str
    """The job or check that it reports."""
    body: bytes | None = field(repr=False)
    """None if it is never sent."""
    copies: int
    state: str
    created_at: datetime
    due_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DueDelivery:
    """A delivery whose next attempt is due."""

    seq: int
    """Its number, in the order of events."""
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    copies: int
    state: State


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryRecord:
    """What became of a delivery so far."""

    seq: int
    """A later delivery has a higher one."""
    id: str
    """The `webhookId` of its body."""
    url: str
    type: str
    job_id: str
    state: str
    """The next attempt, `delivered` or `failed`; `lost` and `skipped` were never sent."""
    attempts: list[dict[str, Any]]
    """Each with `at`, `status` (null without an answer), `answer` and `seconds`."""
    created_at: datetime
    next_attempt_at: datetime | None
    """When the next attempt is due; None if there is none."""


def insert(connection: sqlite3.Connection, one: PreparedDelivery) -> None:
    """Keep a delivery."""
    connection.execute(
        "INSERT INTO webhook_deliveries (id, url, headers, type, job_id, body, copies, state, created_at, due_at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            one.id,
            one.url,
            json.dumps(dict(one.headers)),
            one.type,
            one.job_id,
            None if one.body is None else pack(one.body),
            one.copies,
            one.state,
            to_micros(one.created_at),
            None if one.due_at is None else to_micros(one.due_at),
        ),
    )


def take(
    connection: sqlite3.Connection, url: str, now: datetime, taken: Container[int]
) -> DueDelivery | datetime | None:
    """Return the delivery to `url` that is due first, else when one will be, else None; `taken` do not count."""
    rows = connection.execute(
        "SELECT seq, headers, body, copies, state, due_at FROM webhook_deliveries"
        " WHERE url = ? AND due_at IS NOT NULL ORDER BY due_at, seq",
        (url,),
    )
    row = next((row for row in rows if row["seq"] not in taken), None)
    if row is None:
        return None
    if row["due_at"] > to_micros(now):
        return from_micros(row["due_at"])
    return DueDelivery(
        seq=row["seq"],
        headers=json.loads(row["headers"]),
        body=unpack(row["body"]),
        copies=row["copies"],
        state=State(row["state"]),
    )


def record(
    connection: sqlite3.Connection,
    one: DueDelivery,
    results: list[dict[str, Any]],
    response: EndpointResponse,
    now: datetime,
    schedule: SenderSchedule,
) -> None:
    """Note an attempt, and move the delivery to its next state. In an end state its body is dropped."""
    state = after(one.state, response)
    pause = pause_before(state, schedule)
    attempts = connection.execute("SELECT attempts FROM webhook_deliveries WHERE seq = ?", (one.seq,)).fetchone()
    if attempts is None:
        return  # a reset has forgotten it meanwhile
    connection.execute(
        "UPDATE webhook_deliveries SET state = ?, due_at = ?, attempts = ?, copies = 1,"
        " body = CASE WHEN ? THEN body END WHERE seq = ?",
        (
            state,
            None if pause is None else to_micros(now + pause),
            json.dumps(json.loads(attempts[0]) + results),
            pause is not None,
            one.seq,
        ),
    )
    if one.seq % _PRUNED_EVERY == 0:
        connection.execute(
            "DELETE FROM webhook_deliveries WHERE seq <= ? AND due_at IS NULL", (one.seq - KEPT_ROWS,)
        )


def skip(connection: sqlite3.Connection, one: DueDelivery) -> None:
    """End a delivery without an attempt."""
    connection.execute(
        "UPDATE webhook_deliveries SET state = ?, due_at = NULL, body = NULL WHERE seq = ?", (SKIPPED, one.seq)
    )


def shorten_waits(connection: sqlite3.Connection, now: datetime, schedule: SenderSchedule) -> list[str]:
    """Return the addresses that deliveries wait for.

    No delivery waits longer than its pause from now on: the clock may have been ahead when the state was written.
    """
    for state in State:
        longest = now + (pause_before(state, schedule) or timedelta(0))
        connection.execute(
            "UPDATE webhook_deliveries SET due_at = min(due_at, ?) WHERE due_at IS NOT NULL AND state = ?",
            (to_micros(longest), state),
        )
    return [
        row[0] for row in connection.execute("SELECT DISTINCT url FROM webhook_deliveries WHERE due_at IS NOT NULL")
    ]


def listing(
    connection: sqlite3.Connection, *, job_id: str | None, before: int | None, limit: int
) -> list[DeliveryRecord]:
    """Return deliveries, newest first."""
    rows = connection.execute(
        "SELECT seq, id, url, type, job_id, state, attempts, created_at, due_at FROM webhook_deliveries"
        " WHERE (?1 IS NULL OR job_id = ?1) AND (?2 IS NULL OR seq < ?2) ORDER BY seq DESC LIMIT ?3",
        (job_id, before, limit),
    )
    return [_record_of(row) for row in rows]


def counts(connection: sqlite3.Connection) -> dict[str, int]:
    """Return how many deliveries are in each state."""
    return dict(connection.execute("SELECT state, count(*) FROM webhook_deliveries GROUP BY state"))


def attempt_of(at: datetime, *, status: int | None, answer: str, seconds: float) -> dict[str, Any]:
    """Return an attempt as it is kept and listed."""
    return {"at": iso(at), "status": status, "answer": answer, "seconds": round(seconds, 3)}


def _record_of(row: sqlite3.Row) -> DeliveryRecord:
    return DeliveryRecord(
        **{name: row[name] for name in ("seq", "id", "url", "type", "job_id", "state")},
        attempts=json.loads(row["attempts"]),
        created_at=from_micros(row["created_at"]),
        next_attempt_at=None if row["due_at"] is None else from_micros(row["due_at"]),
    )
