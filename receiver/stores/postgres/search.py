"""Fill the index of words, a table of tsvectors."""

from collections.abc import Sequence

from receiver.core.batching import BatchSize
from receiver.core.clock import from_micros
from receiver.core.search import SearchReach, Texts, texts_of
from receiver.stores.postgres.connection import PostgresConnection
from receiver.stores.postgres.database import PostgresDatabase
from receiver.stores.postgres.statements import search as statements
from receiver.stores.postgres.vectors import vector
from receiver.stores.sql.connection import number
from receiver.stores.sql.rows import stored_texts
from receiver.stores.sql.statements.columns import INDEXED


class PostgresSearch:
    """A SearchIndex. Its commits are not synced: the mark for its progress is in the same database."""

    def __init__(self, database: PostgresDatabase) -> None:
        self.database = database

    async def make(self) -> None:
        """Make the index if there is none."""
        await self.database.call(lambda connection: connection.execute(statements.CREATE) and None)

    async def index(self, *, limit: int, max_bytes: int) -> int:
        """Index the next deliveries, and return how many there were."""

        def write(connection: PostgresConnection) -> int:
            after = number(connection, INDEXED, {})
            rows = _read(connection, after, limit, max_bytes)
            if not rows:
                return 0
            with self.database.transaction(connection):
                mark = {"last": rows[-1][0], "after": after}
                if connection.execute(statements.ADVANCE_INDEXED, mark).rowcount:
                    insert_words(connection, rows)
            return len(rows)

        return await self.database.call(write)


def reach(connection: PostgresConnection) -> SearchReach | None:
    """Return how far the index reaches, None without one."""
    if not number(connection, statements.EXISTS, {}):
        return None
    behind, through = connection.execute(statements.BEHIND).fetchone()
    return SearchReach(behind, None if through is None else from_micros(through))


def restore(connection: PostgresConnection, seq: int, body: bytes) -> None:
    """Index a delivery whose body was restored, inside a transaction of the caller. Do nothing without an index.

    A delivery that the index has not reached yet is indexed too: the index may be at this place just now.
    """
    if number(connection, statements.EXISTS, {}):
        insert_words(connection, [(seq, texts_of(body))])


def insert_words(connection: PostgresConnection, rows: Sequence[tuple[int, Texts]]) -> None:
    """Index deliveries inside a transaction."""
    found = [(seq, vector(texts)) for seq, texts in rows if texts != Texts()]
    if found:
        values = {"seqs": [seq for seq, _ in found], "vectors": [one for _, one in found]}
        connection.execute(statements.INSERT_WORDS, values)


def _read(connection: PostgresConnection, after: int, limit: int, max_bytes: int) -> list[tuple[int, Texts]]:
    """Read the words of the next bodies, at least of one if there is one."""
    last = after
    taken = BatchSize(limit, max_bytes)
    for seq, size in connection.execute(statements.UNINDEXED, {"after": after, "limit": limit}):
        last = seq
        taken.add(size)
        if taken.is_full:
            break
    if last == after:
        return []
    rows = connection.execute(statements.BODIES, {"after": after, "last": last})
    return [(seq, stored_texts(seq, body, coding)) for seq, body, coding in rows]
