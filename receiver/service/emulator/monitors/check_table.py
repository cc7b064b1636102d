"""Checks, their pages, and what monitors remember of pages.

Every function is a part of the caller's transaction.
"""

import json
import sqlite3
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from receiver.core.clock import to_micros
from receiver.service.emulator.state.packing import pack

Json = dict[str, Any]

SCHEMA = """
CREATE TABLE IF NOT EXISTS monitor_checks (
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    monitor_id TEXT NOT NULL,
    status TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    record TEXT NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS monitor_checks_of_monitor ON monitor_checks (monitor_id, seq);
CREATE TABLE IF NOT EXISTS monitor_pages (
    seq INTEGER PRIMARY KEY,
    check_id TEXT NOT NULL,
    status TEXT NOT NULL,
    record TEXT NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS monitor_pages_of_check ON monitor_pages (check_id, seq);
CREATE TABLE IF NOT EXISTS monitor_memory (
    monitor_id TEXT NOT NULL,
    target_id TEXT NOT NULL,
    url TEXT NOT NULL,
    check_id TEXT NOT NULL,
    scrape_id TEXT NOT NULL,
    is_removed INTEGER NOT NULL,
    markdown BLOB NOT NULL,
    data TEXT NOT NULL,
    PRIMARY KEY (monitor_id, target_id, url)
) STRICT;
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RememberedPage:
    """What the last check knew of a page."""

    scrape_id: str
    """The scrape it was taken from."""
    is_removed: bool
    """Whether it was gone then."""
    markdown: str
    """Its Markdown."""
    data: Any
    """The values that were extracted; None without an extraction."""


def insert_check(connection: sqlite3.Connection, check: Json) -> None:
    """Keep a new check."""
    created = to_micros(datetime.fromisoformat(check["createdAt"]))
    connection.execute(
        "INSERT INTO monitor_checks (id, monitor_id, status, created_at, record) VALUES (?, ?, ?, ?, ?)",
        (check["id"], check["monitorId"], check["status"], created, json.dumps(check)),
    )


def update_check(connection: sqlite3.Connection, check: Json) -> None:
    """Keep the present state of a check."""
    values = (check["status"], json.dumps(check), check["id"])
    connection.execute("UPDATE monitor_checks SET status = ?, record = ? WHERE id = ?", values)


def set_current(connection: sqlite3.Connection, check: Json) -> None:
    """Let a check be the current one of its monitor."""
    values = (check["id"], check["monitorId"])
    connection.execute("UPDATE monitors SET current_check_id = ? WHERE id = ?", values)


def plan_run(
    connection: sqlite3.Connection, monitor_id: str, due_at: datetime | None, next_run_at: datetime | None
) -> bool:
    """Set when the next check of a monitor is due, in place of `due_at`; False if somebody else has set it."""
    at = None if next_run_at is None else to_micros(next_run_at)
    before = None if due_at is None else to_micros(due_at)
    planned = connection.execute(
        "UPDATE monitors SET next_run_at = ? WHERE id = ? AND status = 'active' AND next_run_at = ?",
        (at, monitor_id, before),
    )
    return planned.rowcount == 1


def end_check(connection: sqlite3.Connection, check: Json, *, begun_at: datetime, keep_from: datetime) -> None:
    """Keep the end of a check, in its monitor too; checks that were made before `keep_from` are forgotten."""
    update_check(connection, check)
    connection.execute(
        "UPDATE monitors SET current_check_id = NULL, last_summary = ?, last_run_at = ?"
        " WHERE id = ? AND current_check_id = ?",
        (json.dumps(check["summary"]), to_micros(begun_at), check["monitorId"], check["id"]),
    )
    _forget_checks(connection, check["monitorId"], to_micros(keep_from))


def skip_check(connection: sqlite3.Connection, check: Json) -> None:
    """Keep a check that is over before it began."""
    update_check(connection, check)
    connection.execute(
        "UPDATE monitors SET current_check_id = NULL WHERE id = ? AND current_check_id = ?",
        (check["monitorId"], check["id"]),
    )


def add_page(
    connection: sqlite3.Connection, check: Json, page: Json, memory: RememberedPage | None, markdown: bytes
) -> None:
    """Keep the result of a page, and what the next check compares it with; None leaves that as it is."""
    connection.execute(
        "INSERT INTO monitor_pages (check_id, status, record) VALUES (?, ?, ?)",
        (check["id"], page["status"], json.dumps(page)),
    )
    place = (check["monitorId"], page["targetId"], page["url"])
    if memory is None:  # it was seen, so it is not gone
        connection.execute(
            "UPDATE monitor_memory SET check_id = ? WHERE monitor_id = ? AND target_id = ? AND url = ?",
            (check["id"], *place),
        )
        return
    connection.execute(
        "INSERT OR REPLACE INTO monitor_memory (monitor_id, target_id, url, check_id, scrape_id,"
        " is_removed, markdown, data) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (*place, check["id"], memory.scrape_id, memory.is_removed, markdown, json.dumps(memory.data)),
    )


def packed_markdown(memory: RememberedPage | None) -> bytes:
    """Return the Markdown of a memory as it is kept. This compresses it, which takes a while."""
    return b"" if memory is None else pack(memory.markdown.encode("utf-8", "surrogatepass"))


def _forget_checks(connection: sqlite3.Connection, monitor_id: str, before: int) -> None:
    old = "monitor_checks WHERE monitor_id = ? AND created_at < ? AND status NOT IN ('queued', 'running')"
    pages = f"DELETE FROM monitor_pages WHERE check_id IN (SELECT id FROM {old})"  # noqa: S608 - a constant
    connection.execute(pages, (monitor_id, before))
    connection.execute(f"DELETE FROM {old}", (monitor_id, before))  # noqa: S608
