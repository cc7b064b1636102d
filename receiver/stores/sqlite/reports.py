"""The readers' side of a SQLite store."""

import asyncio
import json
import shutil
import sqlite3
from collections.abc import Collection, Iterable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from receiver.core.activity import WorkerReport
from receiver.core.batches import BatchSize
from receiver.core.clock import SystemClock, to_micros
from receiver.core.subjects import Texts, texts_of
from receiver.core.types import WorkerId
from receiver.core.work import StoreFacts
from receiver.errors import StoreError
from receiver.stores.sql.connection import number
from receiver.stores.sql.listings import SCAN_LIMIT
from receiver.stores.sql.reports import SqlReports
from receiver.stores.sql.rows import stored_texts
from receiver.stores.sql.statements.columns import INDEXED_TO
from receiver.stores.sqlite import dialect, statements
from receiver.stores.sqlite.bodies import body_files
from receiver.stores.sqlite.database import Database, data_version, file_at, same_file
from receiver.stores.sqlite.dialect import READS, require_module
from receiver.stores.sqlite.locks import LivingWorkers, is_fresh
from receiver.stores.sqlite.write_ahead_log import log_path


class SqliteSearch:
    """A SearchIndex. Its commits are not synced: the mark for its progress is in the same database."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def make(self) -> None:
        """Make the index if there is none. Raises ConfigurationError where SQLite has no full text search."""

        def write(connection: sqlite3.Connection) -> None:
            require_module(connection)
            with self.database.transaction(connection):
                connection.execute(statements.CREATE_WORDS)
                connection.execute(statements.FORGET)

        await self.database.call(write)

    async def index(self, *, limit: int, max_bytes: int) -> int:
        """Index the next deliveries, and return how many there were."""

        def write(connection: sqlite3.Connection) -> int:
            after = number(connection, INDEXED_TO, {})
            rows = _read(connection, after, limit, max_bytes)
            if not rows:
                return 0
            with self.database.transaction(connection):
                if connection.execute(statements.ADVANCE_INDEXED, (rows[-1][0], after)).rowcount:
                    connection.execute(statements.INSERT_WORDS, (_as_json(rows),))
            return len(rows)

        return await self.database.call(write)


def restore(connection: sqlite3.Connection, seq: int, body: bytes) -> None:
    """Index a delivery whose body was restored, inside a transaction of the caller. Do nothing without an index.

    A delivery that the index has not reached yet is indexed too: the index may be at this place just now.
    """
    if connection.execute(statements.HAS_WORDS).fetchone()[0]:
        connection.execute(statements.INSERT_WORDS, (_as_json([(seq, texts_of(body))]),))


def _as_json(rows: Sequence[tuple[int, Texts]]) -> str:
    return json.dumps([(seq, one.url, one.title, one.error) for seq, one in rows if one != Texts()])


def _read(connection: sqlite3.Connection, after: int, limit: int, max_bytes: int) -> list[tuple[int, Texts]]:
    """Read the words of the next bodies, at least of one if there is one."""
    rows: list[tuple[int, Texts]] = []
    taken = BatchSize(limit, max_bytes)
    with closing(connection.execute(statements.UNINDEXED, (after, limit))) as cursor:
        for seq, body, coding in cursor:
            rows.append((seq, stored_texts(seq, body, coding)))
            taken.add(len(body))
            if taken.is_full:
                break
    return rows


_POLL_SECONDS = 0.1
"""People read what comes of it."""


class SqliteReports(SqlReports):
    """A Reports."""

    def __init__(
        self, database: Database, path: Path, living: LivingWorkers, *, narrow_limit: int = SCAN_LIMIT
    ) -> None:
        super().__init__(database, READS, narrow_limit=narrow_limit)
        self._path = path
        self._living = living
        self._opened_as = path.stat()
        self._seen: int | None = None

    async def facts(self) -> StoreFacts:
        """Return how large the file, its log and the files of bodies are."""
        files = map(file_at, (self._path, log_path(self._path), *body_files(self._path)))
        size = sum(one.st_size for one in files if one is not None)
        return StoreFacts(size, free=shutil.disk_usage(self._path.resolve().parent).free)

    async def workers(self) -> Sequence[WorkerReport]:
        """Return the workers that have not signed off, and which of them are dead."""
        shown = await super().workers()
        names = [one.sign.name for one in shown]
        dead = await self.database.call(lambda connection: self._dead_among(connection, names))
        if not dead:
            return shown
        # One that has signed off meanwhile has no lock any more either, and it is not dead.
        return [replace(one, is_dead=one.sign.name in dead) for one in await super().workers()]

    def _dead_among(self, connection: sqlite3.Connection, workers: Iterable[WorkerId]) -> Collection[WorkerId]:
        """Return those that are certainly dead."""
        try:
            file = self._living.file_identity()
            known, since = connection.execute(dialect.LOCKS_FILE).fetchone()
            # In another file than the workers have noted, and at first in a new one, locks may be missing.
            if file is None or file != known or is_fresh(since, to_micros(SystemClock().steady())):
                return ()
            return [one for one in workers if self._living.is_dead(one)]
        except StoreError:  # the file is not there, or belongs to another user: nothing is certain
            return ()

    async def changed(self) -> None:
        """Return when another connection has committed since the last call."""
        while True:
            version = await self.database.call(self._version)
            if version != self._seen:
                self._seen = version
                return
            # The real clock: the change comes from another process.
            await asyncio.sleep(_POLL_SECONDS)

    async def require_present(self) -> None:
        """Raise StoreError when another file has replaced the one that was opened."""
        await self.database.call(lambda _: self._require_same_file())

    def _version(self, connection: sqlite3.Connection) -> int:
        self._require_same_file()
        return data_version(connection)

    def _require_same_file(self) -> None:
        if not same_file(self._path, self._opened_as):
            raise StoreError(f"the database {self._path} was moved or deleted")
