"""The readers' side of a PostgreSQL store."""

import asyncio
from collections.abc import Iterator, Sequence
from datetime import timedelta

from receiver.core.batches import BatchSize
from receiver.core.subjects import Texts, texts_of
from receiver.core.text import counted
from receiver.core.units import in_words
from receiver.core.work import StoreFacts
from receiver.errors import StoreError
from receiver.stores.postgres import statements
from receiver.stores.postgres.connection import PostgresConnection
from receiver.stores.postgres.database import PostgresDatabase
from receiver.stores.postgres.dialect import READS, vector
from receiver.stores.sql import listings
from receiver.stores.sql.connection import number
from receiver.stores.sql.reports import SqlReports
from receiver.stores.sql.rows import stored_texts
from receiver.stores.sql.statements.columns import INDEXED_TO


class PostgresSearch:
    """A SearchIndex. Its commits are not synced: the mark for its progress is in the same database."""

    def __init__(self, database: PostgresDatabase) -> None:
        self.database = database

    async def make(self) -> None:
        """Make the index if there is none."""
        await self.database.call(lambda connection: connection.execute(statements.CREATE_WORDS) and None)

    async def index(self, *, limit: int, max_bytes: int) -> int:
        """Index the next deliveries, and return how many there were."""

        def write(connection: PostgresConnection) -> int:
            after = number(connection, INDEXED_TO, {})
            rows = _read(connection, after, limit, max_bytes)
            if not rows:
                return 0
            with self.database.transaction(connection):
                mark = {"last": rows[-1][0], "after": after}
                if connection.execute(statements.ADVANCE_INDEXED, mark).rowcount:
                    insert_words(connection, rows)
            return len(rows)

        return await self.database.call(write)


def restore(connection: PostgresConnection, seq: int, body: bytes) -> None:
    """Index a delivery whose body was restored, inside a transaction of the caller. Do nothing without an index.

    A delivery that the index has not reached yet is indexed too: the index may be at this place just now.
    """
    if number(connection, statements.HAS_WORDS, {}):
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


_OLD_SNAPSHOT = timedelta(minutes=10)
_MANY_DEAD_ROWS = 100_000


def facts(connection: PostgresConnection, schema: str) -> StoreFacts:
    """Return the size of the store, and how the server keeps up."""
    size, dead = connection.execute(statements.SIZE, {"schema": schema}).fetchone()
    (oldest,) = connection.execute(statements.OLDEST_SNAPSHOT).fetchone()
    (lag,) = connection.execute(statements.STANDBY_LAG).fetchone()
    return StoreFacts(size, dead, _seconds(oldest), _seconds(lag))


def notes(connection: PostgresConnection, schema: str) -> Sequence[str]:
    """Return what could harm a store on this server, each with what to do."""
    return [*setting_notes(connection), *load_notes(facts(connection, schema))]


def setting_notes(connection: PostgresConnection) -> Iterator[str]:
    """Yield what the settings of the server put at risk."""
    full_pages, standbys, synchronous = connection.execute(statements.SETTINGS).fetchone()
    if full_pages == "off":
        yield (
            "the server has full_page_writes=off, and a crash can damage it: set it to on, unless its file system "
            "never writes half a page"
        )
    if standbys and not synchronous:
        yield (
            "the server does not wait for its standby: a failover loses the deliveries that were acknowledged "
            "last; set synchronous_standby_names"
        )


def load_notes(found: StoreFacts) -> Iterator[str]:
    """Yield why the server cannot tidy up."""
    if found.oldest_snapshot is not None and found.oldest_snapshot > _OLD_SNAPSHOT:
        yield (
            f"a transaction on the server has been open for {in_words(found.oldest_snapshot)}: what died since "
            "then cannot be tidied up, and claims become slower; pg_stat_activity shows whose it is"
        )
    elif found.dead_rows is not None and found.dead_rows > _MANY_DEAD_ROWS:
        yield (
            f"the store has {counted(found.dead_rows, 'dead row')}: autovacuum is off or does not keep up with the "
            "load; claims become slower"
        )


def _seconds(value: int | None) -> timedelta | None:
    return None if value is None else timedelta(seconds=value)


_POLL_SECONDS = 0.1
"""People read what comes of it."""


class PostgresReports(SqlReports):
    """A Reports."""

    def __init__(self, database: PostgresDatabase, schema: str, *, narrow_limit: int = listings.SCAN_LIMIT) -> None:
        super().__init__(database, READS, narrow_limit=narrow_limit)
        self._schema = schema
        self._identity: int | None = None
        self._seen: int | None = None

    async def facts(self) -> StoreFacts:
        """Return how large the store is, and how its server keeps up."""
        return await self.database.call(lambda connection: facts(connection, self._schema))

    async def changed(self) -> None:
        """Return when there was a commit since the last call, in any database of the server."""
        while True:
            place = await self.database.call(self._place)
            if place != self._seen:
                self._seen = place
                return
            # The real clock: the change comes from another process.
            await asyncio.sleep(_POLL_SECONDS)

    async def require_present(self) -> None:
        """Raise StoreError when another store has replaced the one that was opened first."""
        await self.database.call(self._place)

    def _place(self, connection: PostgresConnection) -> int:
        """Return a number that every commit moves."""
        identity, place = connection.execute(statements.PLACE).fetchone()
        if self._identity is None:
            self._identity = identity
        if identity != self._identity:
            raise StoreError("the database was replaced by another store")
        return int(place)
