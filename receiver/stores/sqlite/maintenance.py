"""What keeps a SQLite file small. Steps choose what to do first, and hold the write lock only to do it."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from receiver.core.activity import Step
from receiver.core.batches import BatchSize
from receiver.stores.sql.columns_of_bodies import BESIDE, DEFLATED, MIN_BYTES, PLAIN, decoded, deflated
from receiver.stores.sql.connection import number
from receiver.stores.sql.maintenance import MAX_BYTES, SCAN_LIMIT, SqlMaintenance
from receiver.stores.sql.statements.columns import ROUTED
from receiver.stores.sqlite import statements
from receiver.stores.sqlite.bodies import UnusedFiles, body_files
from receiver.stores.sqlite.database import Database
from receiver.stores.sqlite.dialect import READS, WRITES
from receiver.stores.sqlite.reports import restore

_UNUSED_PAGES = "PRAGMA freelist_count"


class SqliteMaintenance(SqlMaintenance):
    """A Maintenance. Its commits are not synced: after a power cut something may have to be removed again."""

    def __init__(self, database: Database, path: Path, unused: UnusedFiles) -> None:
        super().__init__(database, READS, WRITES)
        self._path = path
        self._unused = unused

    async def compress(self, *, limit: int) -> Step:
        """Write bodies smaller, and move those into the database that are in files beside it.

        That takes room at first. Where the disk has little, everything stays where it is.
        """

        def step(connection: sqlite3.Connection) -> Step:
            if self._has_little_room():
                return Step(0, 0, None)
            after, routed = (number(connection, sql, {}) for sql in (statements.COMPRESSED, ROUTED))
            last = min(after + SCAN_LIMIT, routed)
            rows = connection.execute(statements.TO_COMPRESS, {"after": after, "last": last, "least": MIN_BYTES})
            bodies, ended = _batch(rows, limit)
            place = last if ended else bodies[-1].seq
            late = _left_behind(connection, after, limit) if place == routed else []  # once in each pass
            bodies += late
            smaller = [new for one in bodies if (new := _smaller(one)) is not None]
            if place > after or smaller:
                with self.database.transaction(connection):
                    connection.executemany(statements.COMPRESS, smaller)
                    for one in late:
                        restore(connection, one.seq, decoded(one.body, PLAIN, key=str(one.seq)))
                    connection.execute(statements.ADVANCE_COMPRESSED, (place,))
            sizes = {one.seq: one.size for one in bodies}
            saved = sum(sizes[seq] - len(body) for body, _, seq in smaller)
            return Step(len(smaller), saved, place if place < routed else None)

        return await self.database.call(step)

    def _has_little_room(self) -> bool:
        return shutil.disk_usage(self._path.resolve().parent).free < _LITTLE_ROOM

    async def reclaim(self, limit: int) -> int:
        """Give unused pages back to the file system."""

        def step(connection: sqlite3.Connection) -> int:
            if files := body_files(self._path):
                with self.database.transaction(connection):
                    removed = self._unused.remove_one(connection, files, at_once=self._has_little_room())
                if removed:
                    return removed
            before = number(connection, _UNUSED_PAGES, {})
            if before == 0:
                return 0
            page_size = number(connection, "PRAGMA page_size", {})
            with self.database.transaction(connection):
                for _ in range(min(max(1, limit // page_size), before)):
                    connection.execute("PRAGMA incremental_vacuum(1)")  # the driver takes one step of it, one page
            return (before - number(connection, _UNUSED_PAGES, {})) * page_size

        return await self.database.call(step)


_LITTLE_ROOM = 4 * MAX_BYTES
"""A step needs its bytes in the log first, and then in the database."""


class _StoredBody(NamedTuple):
    seq: int
    size: int
    body: bytes | str
    coding: int


def _left_behind(connection: sqlite3.Connection, after: int, limit: int) -> list[_StoredBody]:
    """Return bodies that could not be read from their files when it was their turn, and can be now."""
    found: list[_StoredBody] = []
    taken = BatchSize(limit, MAX_BYTES)
    with closing(connection.execute(statements.LEFT_BEHIND, {"after": after})) as rows:
        for one in map(_StoredBody._make, rows):
            if isinstance(one.body, bytes):
                found.append(one)
                taken.add(one.size)
            if taken.is_full:
                break
    return found


def _smaller(one: _StoredBody) -> tuple[bytes, int, int] | None:
    """Return body, coding and seq as they shall be from now on, None if they stay as they are."""
    if isinstance(one.body, str):  # it cannot be read
        return None
    if (small := deflated(one.body)) is not None:
        return small, DEFLATED, one.seq
    return (one.body, PLAIN, one.seq) if one.coding == BESIDE else None


def _batch(rows: sqlite3.Cursor, limit: int) -> tuple[list[_StoredBody], bool]:
    """Return the bodies that one transaction rewrites, and whether those were all."""
    found: list[_StoredBody] = []
    taken = BatchSize(limit, MAX_BYTES)
    for row in rows:
        found.append(_StoredBody(*row))
        taken.add(found[-1].size)
        if taken.is_full:
            rows.close()
            return found, False
    return found, True
