"""Monitors, their checks and what they remember of pages, as rows of the emulator's database."""

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from receiver.core.clock import from_micros, to_micros
from receiver.service.emulator.monitors import check_table, progress
from receiver.service.emulator.monitors.check_table import RememberedPage
from receiver.service.emulator.state.database import StateDatabase
from receiver.service.emulator.state.packing import unpack

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
"""
SCHEMA += check_table.SCHEMA + progress.SCHEMA

DELETED = "deleted"


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitorRow:
    """One monitor."""

    id: str
    """UUID."""
    team: str
    """Whose it is."""
    status: str
    """`active`, `paused` or `deleted`."""
    body: Json
    """The fields that requests set, as the answer shows them."""
    created_at: datetime
    """When it was made."""
    updated_at: datetime
    """When it was changed last."""
    last_run_at: datetime | None
    """When its last check began."""
    next_run_at: datetime | None
    """When its next check is due; None while it is paused."""
    current_check_id: str | None
    """The check that is queued or runs."""
    last_summary: Json | None
    """What its last check counted."""


class MonitorTable:
    """Reads and writes monitors. Every method is one transaction."""

    def __init__(self, database: StateDatabase) -> None:
        self._database = database

    async def add(
        self, team: str, monitor_id: str, body: Json, *, now: datetime, next_run_at: datetime | None
    ) -> None:
        """Keep a new monitor."""
        values = (
            monitor_id,
            team,
            body["status"],
            json.dumps(body),
            to_micros(now),
            to_micros(now),
            _at(next_run_at),
        )
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
        """Return the active monitors whose next check is due, in the order in which they are."""
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
            "SELECT record FROM monitor_checks WHERE monitor_id = ? AND (? IS NULL OR status = ?)"
            " ORDER BY seq DESC LIMIT ? OFFSET ?",
            (monitor_id, status, status, limit, offset),
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
            "SELECT record FROM monitor_pages WHERE check_id = ? AND (? IS NULL OR status = ?)"
            " ORDER BY seq LIMIT ? OFFSET ?",
            (check_id, status, status, limit, skip),
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
        id=row["id"],
        team=row["team"],
        status=row["status"],
        body=json.loads(row["body"]),
        created_at=from_micros(row["created_at"]),
        updated_at=from_micros(row["updated_at"]),
        last_run_at=_moment(row["last_run_at"]),
        next_run_at=_moment(row["next_run_at"]),
        current_check_id=row["current_check_id"],
        last_summary=None if row["last_summary"] is None else json.loads(row["last_summary"]),
    )


def _at(moment: datetime | None) -> int | None:
    return None if moment is None else to_micros(moment)


def _moment(micros: int | None) -> datetime | None:
    return None if micros is None else from_micros(micros)
