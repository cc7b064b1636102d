"""How far a check has come, so that it can go on after the process has ended.

Every function is a part of the caller's transaction.
"""

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]

SCHEMA = """
CREATE TABLE IF NOT EXISTS monitor_work (
    check_id TEXT PRIMARY KEY,
    body TEXT NOT NULL,
    done TEXT NOT NULL DEFAULT '[]',
    errors TEXT NOT NULL DEFAULT '[]'
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS monitor_visits (
    check_id TEXT NOT NULL,
    target INTEGER NOT NULL,
    position INTEGER NOT NULL,
    PRIMARY KEY (check_id, target, position)
) STRICT, WITHOUT ROWID;
"""


@dataclass(frozen=True, slots=True)
class CheckProgress:
    """What is known of a check that has not ended, beside its record."""

    done: list[int]
    """The targets that are done, by their places."""
    errors: list[str]
    """Why targets could not be checked at all."""
    pages: list[Json]
    """The records of its pages, without their differences and values."""


def insert_work(connection: sqlite3.Connection, check_id: str, body: Json) -> None:
    """Keep what a check will do: a change of its monitor does not reach it."""
    connection.execute("INSERT INTO monitor_work (check_id, body) VALUES (?, ?)", (check_id, json.dumps(body)))


def body_of(connection: sqlite3.Connection, check_id: str) -> Json | None:
    """Return the monitor as it was when a check was queued; None if that was not kept."""
    row = connection.execute("SELECT body FROM monitor_work WHERE check_id = ?", (check_id,)).fetchone()
    return None if row is None else dict(json.loads(row["body"]))


def end_targets(connection: sqlite3.Connection, check_id: str, done: Sequence[int], errors: Sequence[str]) -> None:
    """Note which targets are done, and why some could not be checked."""
    connection.execute(
        "UPDATE monitor_work SET done = ?, errors = ? WHERE check_id = ?",
        (json.dumps(list(done)), json.dumps(list(errors)), check_id),
    )


def visit(connection: sqlite3.Connection, check_id: str, target: int, position: int) -> bool:
    """Note that a page of a target's list of URLs is done; False if it was."""
    noted = connection.execute(
        "INSERT OR IGNORE INTO monitor_visits VALUES (?, ?, ?)", (check_id, target, position)
    )
    return noted.rowcount == 1


def visited(connection: sqlite3.Connection, check_id: str, target: int) -> set[int]:
    """Return the positions of the pages that are done."""
    rows = connection.execute(
        "SELECT position FROM monitor_visits WHERE check_id = ? AND target = ?", (check_id, target)
    )
    return {row[0] for row in rows}


def read_progress(connection: sqlite3.Connection, check_id: str) -> CheckProgress:
    """Return how far a check has come."""
    row = connection.execute("SELECT * FROM monitor_work WHERE check_id = ?", (check_id,)).fetchone()
    rows = connection.execute("SELECT record FROM monitor_pages WHERE check_id = ? ORDER BY seq", (check_id,))
    pages = [_short(json.loads(record)) for (record,) in rows]
    if row is None:
        return CheckProgress([], [], pages)
    return CheckProgress(json.loads(row["done"]), json.loads(row["errors"]), pages)


def forget_work(connection: sqlite3.Connection, check_id: str) -> None:
    """Forget how far a check had come, because it has ended."""
    for name in ("monitor_work", "monitor_visits"):
        connection.execute(f"DELETE FROM {name} WHERE check_id = ?", (check_id,))  # noqa: S608 - constants


def _short(record: Json) -> Json:
    return {key: record[key] for key in ("targetId", "url", "status", "currentScrapeId")}
