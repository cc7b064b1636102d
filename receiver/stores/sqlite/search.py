"""Fill the index of words, which is SQLite's own full text search (FTS5)."""

import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing

from receiver.core.batching import BatchSize
from receiver.core.clock import from_micros
from receiver.core.search import SearchReach, Texts, texts_of
from receiver.stores.sql.connection import number
from receiver.stores.sql.rows import stored_texts
from receiver.stores.sql.statements.columns import INDEXED
from receiver.stores.sqlite.database import Database
from receiver.stores.sqlite.dialect import require_module
from receiver.stores.sqlite.statements import search as statements


class SqliteSearch:
    """A SearchIndex. Its commits are not synced: the mark for its progress is in the same database."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def make(self) -> None:
        """Make the index if there is none. Raises ConfigurationError where SQLite has no full text search."""

        def write(connection: sqlite3.Connection) -> None:
            require_module(connection)
            with self.database.transaction(connection):
                connection.execute(statements.CREATE)
                connection.execute(statements.FORGET)

        await self.database.call(write)

    async def index(self, *, limit: int, max_bytes: int) -> int:
        """Index the next deliveries, and return how many there were."""

        def write(connection: sqlite3.Connection) -> int:
            after = number(connection, INDEXED, {})
            rows = _read(connection, after, limit, max_bytes)
            if not rows:
                return 0
            with self.database.transaction(connection):
                if connection.execute(statements.ADVANCE_INDEXED, (rows[-1][0], after)).rowcount:
                    connection.execute(statements.INSERT_WORDS, (_as_json(rows),))
            return len(rows)

        return await self.database.call(write)


def reach(connection: sqlite3.Connection) -> SearchReach | None:
    """Return how far the index reaches, None without one."""
    if not connection.execute(statements.EXISTS).fetchone()[0]:
        return None
    behind, through = connection.execute(statements.BEHIND).fetchone()
    return SearchReach(behind, None if through is None else from_micros(through))


def restore(connection: sqlite3.Connection, seq: int, body: bytes) -> None:
    """Index a delivery whose body was restored, inside a transaction of the caller. Do nothing without an index.

    A delivery that the index has not reached yet is indexed too: the index may be at this place just now.
    """
    if connection.execute(statements.EXISTS).fetchone()[0]:
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
