"""Monitors, their checks and what they remember of pages, as rows of the emulator's database.

Every function that takes a connection is a part of the caller's transaction.
"""

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from receiver.core.clock import from_micros, to_micros
from receiver.emulator.clock import wire_time
from receiver.emulator.state.database import PatientState, StateDatabase, pack, unpack

Json = dict[str, Any]

SCHEMA = """
CREATE TABLE IF NOT EXISTS monitors (
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    team TEXT NOT NULL,
    status TEXT NOT NULL,
    body TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    last_run_at INTEGER,
    next_run_at INTEGER,
    current_check_id TEXT,
    last_summary TEXT
) STRICT;
CREATE INDEX IF NOT EXISTS monitors_due ON monitors (next_run_at) WHERE status = 'active';
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

DELETED = "deleted"
PAGE_STATUSES = ("same", "changed", "new", "removed", "error")
CHECK_STATUSES = ("queued", "running", "completed", "failed", "partial", "skipped_overlap", "skipped_no_credits")
NO_PAGES = {"totalPages": 0, **dict.fromkeys(PAGE_STATUSES, 0)}
"""The summary of a check without pages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitorRow:
    """One monitor."""

    id: str
    team: str
    status: str
    """`active`, `paused` or `deleted`."""
    body: Json
    """The fields that requests set, as the answer shows them."""
    created_at: datetime
    updated_at: datetime
    last_run_at: datetime | None
    next_run_at: datetime | None
    """When its next check is due; None while it is paused."""
    current_check_id: str | None
    """The check that is queued or runs."""
    last_summary: Json | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RememberedPage:
    """What the last check knew of a page."""

    scrape_id: str
    is_removed: bool
    markdown: str
    data: Any
    """The values that were extracted; None without an extraction."""


@dataclass(frozen=True, slots=True)
class CheckProgress:
    """What is known of a check that has not ended, beside its record."""

    done: list[int]
    """The targets that are done, by their places."""
    errors: list[str]
    """Why targets could not be checked at all."""
    pages: list[Json]
    """The records of its pages, without their differences and values."""


def written(moment: datetime | None) -> str | None:
    """Return a moment as answers have it."""
    return None if moment is None else wire_time(moment)


def new_check(
    check_id: str,
    monitor_id: str,
    *,
    now: datetime,
    trigger: str,
    status: str = "queued",
    scheduled_for: datetime | None = None,
    estimated: int = 0,
) -> Json:
    """Return the record of a check that has not begun. One with another status than `queued` never will."""
    is_over = status != "queued"
    return {
        "id": check_id,
        "monitorId": monitor_id,
        "status": status,
        "trigger": trigger,
        "scheduledFor": written(scheduled_for),
        "startedAt": None,
        "finishedAt": written(now) if is_over else None,
        "estimatedCredits": estimated,
        "reservedCredits": 0,
        "actualCredits": 0,
        "billingStatus": "not_applicable",
        "summary": dict(NO_PAGES),
        "targetResults": [],
        "notificationStatus": {},
        "error": None,
        "createdAt": written(now),
        "updatedAt": written(now),
    }


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
    """Set when the next check of a monitor is due, in place of `due_at`; False if it was changed meanwhile."""
    planned = connection.execute(
        "UPDATE monitors SET next_run_at = ? WHERE id = ? AND status = 'active' AND next_run_at = ?",
        (_at(next_run_at), monitor_id, _at(due_at)),
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
    old = "monitor_checks WHERE monitor_id = ? AND created_at < ? AND status NOT IN ('queued', 'running')"
    values = (check["monitorId"], to_micros(keep_from))
    pages = f"DELETE FROM monitor_pages WHERE check_id IN (SELECT id FROM {old})"  # noqa: S608 - a constant
    connection.execute(pages, values)
    connection.execute(f"DELETE FROM {old}", values)  # noqa: S608


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


def insert_work(connection: sqlite3.Connection, check_id: str, body: Json) -> None:
    """Keep what a check will do: later changes of its monitor do not affect it."""
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
    kept = ("targetId", "url", "status", "currentScrapeId")
    pages = [{key: record[key] for key in kept} for record in (json.loads(text) for (text,) in rows)]
    if row is None:
        return CheckProgress([], [], pages)
    return CheckProgress(json.loads(row["done"]), json.loads(row["errors"]), pages)


def forget_work(connection: sqlite3.Connection, check_id: str) -> None:
    """Forget how far a check had come, because it has ended."""
    for name in ("monitor_work", "monitor_visits"):
        connection.execute(f"DELETE FROM {name} WHERE check_id = ?", (check_id,))  # noqa: S608 - constants


class MonitorTable:
    """Reads and writes monitors. Every method is one transaction."""

    def __init__(self, database: StateDatabase | PatientState) -> None:
        self._database = database

    async def add(
        self, team: str, monitor_id: str, body: Json, *, now: datetime, next_run_at: datetime | None
    ) -> None:
        """Keep a new monitor."""
        at = to_micros(now)
        values = (monitor_id, team, body["status"], json.dumps(body), at, at, _at(next_run_at))
        await self._write(
            "INSERT INTO monitors (id, team, status, body, created_at, updated_at, next_run_at)"
            " VALUES (?, ?, ?, ?, ?, ?, ?)",
            values,
        )

    async def change(self, monitor_id: str, body: Json, *, now: datetime, next_run_at: datetime | None) -> None:
        """Replace what requests set."""
        await self._write(
            "UPDATE monitors SET status = ?, body = ?, updated_at = ?, next_run_at = ?"
            " WHERE id = ? AND status <> ?",
            (body["status"], json.dumps(body), to_micros(now), _at(next_run_at), monitor_id, DELETED),
        )

    async def delete(self, monitor_id: str) -> None:
        """Mark a monitor as deleted, and forget the pages it remembers."""

        def work(connection: sqlite3.Connection) -> None:
            connection.execute(
                "UPDATE monitors SET status = ?, next_run_at = NULL WHERE id = ?", (DELETED, monitor_id)
            )
            connection.execute("DELETE FROM monitor_memory WHERE monitor_id = ?", (monitor_id,))

        await self._database.run(work)

    async def find(self, team: str, monitor_id: str) -> MonitorRow | None:
        """Return a monitor of a team that is not deleted."""
        rows = await self._read(
            "SELECT * FROM monitors WHERE id = ? AND team = ? AND status <> ?", (monitor_id, team, DELETED)
        )
        return _monitor(rows[0]) if rows else None

    async def newest(self, team: str, limit: int, offset: int) -> list[MonitorRow]:
        """Return monitors of a team, the newest first."""
        rows = await self._read(
            "SELECT * FROM monitors WHERE team = ? AND status <> ? ORDER BY seq DESC LIMIT ? OFFSET ?",
            (team, DELETED, limit, offset),
        )
        return [_monitor(row) for row in rows]

    async def due(self, now: datetime) -> list[MonitorRow]:
        """Return the active monitors whose next check is due, the most overdue first."""
        rows = await self._read(
            "SELECT * FROM monitors WHERE status = 'active' AND next_run_at <= ?"
            " ORDER BY next_run_at, seq LIMIT 100",
            (to_micros(now),),
        )
        return [_monitor(row) for row in rows]

    async def active(self) -> list[MonitorRow]:
        """Return all monitors that are active."""
        rows = await self._read("SELECT * FROM monitors WHERE status = 'active' ORDER BY seq", ())
        return [_monitor(row) for row in rows]

    async def next_due(self) -> datetime | None:
        """Return when the next check of any monitor is due."""
        rows = await self._read("SELECT min(next_run_at) AS at FROM monitors WHERE status = 'active'", ())
        return _moment(rows[0]["at"])

    async def unfinished_checks(self) -> list[tuple[MonitorRow, Json]]:
        """Return the checks that are queued or running, with their monitors."""
        rows = await self._read(
            "SELECT m.*, c.record AS record FROM monitor_checks c JOIN monitors m ON m.id = c.monitor_id"
            " WHERE c.status IN ('queued', 'running') ORDER BY c.seq",
            (),
        )
        return [(_monitor(row), json.loads(row["record"])) for row in rows]

    async def checks(self, monitor_id: str, limit: int, offset: int, status: str | None) -> list[Json]:
        """Return checks of a monitor, the newest first."""
        rows = await self._read(
            "SELECT record FROM monitor_checks WHERE monitor_id = ?1 AND (?2 IS NULL OR status = ?2)"
            " ORDER BY seq DESC LIMIT ?3 OFFSET ?4",
            (monitor_id, status, limit, offset),
        )
        return [json.loads(row["record"]) for row in rows]

    async def check(self, monitor_id: str, check_id: str) -> Json | None:
        """Return one check of a monitor."""
        rows = await self._read(
            "SELECT record FROM monitor_checks WHERE monitor_id = ? AND id = ?", (monitor_id, check_id)
        )
        return json.loads(rows[0]["record"]) if rows else None

    async def pages(self, check_id: str, limit: int, skip: int, status: str | None) -> list[Json]:
        """Return pages of a check, in the order in which they were checked."""
        rows = await self._read(
            "SELECT record FROM monitor_pages WHERE check_id = ?1 AND (?2 IS NULL OR status = ?2)"
            " ORDER BY seq LIMIT ?3 OFFSET ?4",
            (check_id, status, limit, skip),
        )
        return [json.loads(row["record"]) for row in rows]

    async def remembered(self, monitor_id: str, target_id: str, url: str) -> RememberedPage | None:
        """Return what the last check knew of a page."""
        rows = await self._read(
            "SELECT * FROM monitor_memory WHERE monitor_id = ? AND target_id = ? AND url = ?",
            (monitor_id, target_id, url),
        )
        if not rows:
            return None
        return RememberedPage(
            scrape_id=rows[0]["scrape_id"],
            is_removed=bool(rows[0]["is_removed"]),
            markdown=unpack(rows[0]["markdown"]).decode("utf-8", "surrogatepass"),
            data=json.loads(rows[0]["data"]),
        )

    async def not_seen(self, monitor_id: str, target_id: str, check_id: str) -> list[tuple[str, str]]:
        """Return URL and scrape of up to 100 pages that an earlier check saw and this one did not."""
        rows = await self._read(
            "SELECT url, scrape_id FROM monitor_memory WHERE monitor_id = ? AND target_id = ? AND check_id <> ?"
            " AND NOT is_removed ORDER BY url LIMIT 100",
            (monitor_id, target_id, check_id),
        )
        return [(row["url"], row["scrape_id"]) for row in rows]

    async def _read(self, statement: str, values: Sequence[Any]) -> list[sqlite3.Row]:
        return await self._database.run(lambda connection: connection.execute(statement, values).fetchall())

    async def _write(self, statement: str, values: Sequence[Any]) -> None:
        await self._database.run(lambda connection: connection.execute(statement, values))


def _monitor(row: sqlite3.Row) -> MonitorRow:
    return MonitorRow(
        **{name: row[name] for name in ("id", "team", "status", "current_check_id")},
        body=json.loads(row["body"]),
        created_at=from_micros(row["created_at"]),
        updated_at=from_micros(row["updated_at"]),
        last_run_at=_moment(row["last_run_at"]),
        next_run_at=_moment(row["next_run_at"]),
        last_summary=None if row["last_summary"] is None else json.loads(row["last_summary"]),
    )


def _at(moment: datetime | None) -> int | None:
    return None if moment is None else to_micros(moment)


def _moment(micros: int | None) -> datetime | None:
    return None if micros is None else from_micros(micros)
