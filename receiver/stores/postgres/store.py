"""A store in a PostgreSQL database: its tables, which are found, created and migrated here, and its faces."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta
from functools import partial

from receiver.core.clock import Clock
from receiver.core.ports.log import DeliveryLog
from receiver.core.ports.queue import WorkQueue
from receiver.core.ports.reports import Reports
from receiver.core.ports.store import Controls, Maintenance, SearchIndex
from receiver.core.types import Schema, Tell
from receiver.errors import StoreError, StoreRefused
from receiver.runtime.log_lines import event_log
from receiver.stores.postgres.clock import OpenClocks, database_clock
from receiver.stores.postgres.connection import (
    Address,
    PostgresConnection,
    StatementDeadline,
    Translation,
    parse_address,
)
from receiver.stores.postgres.controls import PostgresControls, PostgresMaintenance
from receiver.stores.postgres.database import (
    READING,
    STATEMENT_DEADLINE,
    SYNCED,
    UNSYNCED,
    PostgresDatabase,
    translated,
)
from receiver.stores.postgres.log import PostgresLog
from receiver.stores.postgres.queue import PostgresQueue, skip_ids
from receiver.stores.postgres.reports import PostgresReports, PostgresSearch, notes
from receiver.stores.postgres.statements import STIR
from receiver.stores.sql.migrations import migrations_of, require_released

log = event_log(__name__)

_PATIENCE = timedelta(minutes=10)
"""How long a statement of a migration may take."""
# A function such as to_regclass may answer from a cache, which does not know yet what another process has made.
_HAS_TABLES = """
SELECT count(*) > 0 FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = :schema AND c.relname = 'schema_version'
"""
_HAS_SCHEMA = "SELECT count(*) > 0 FROM pg_catalog.pg_namespace WHERE nspname = :schema"
_VERSION = "SELECT max(version) FROM schema_version"
_TURN = "SELECT pg_advisory_xact_lock(migrate_lock, 0)".replace("migrate_lock", ":migrate_lock")
# The turn of another process may take long.
_BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = 0; SET LOCAL synchronous_commit = on"
_LOCK_PATIENCE = timedelta(seconds=5)
"""How long a migration waits for others that hold locks on the tables, while all others wait for it."""


def newest() -> int:
    """Return the version of the schema that this program needs."""
    return max(_migrations())


def stored_version(connection: PostgresConnection, translate: Translation) -> int:
    """Return the version of the schema, 0 where there are no tables."""
    (has_tables,) = connection.execute(_HAS_TABLES, {"schema": translate.schema}).fetchone()
    return int(connection.execute(_VERSION).fetchone()[0] or 0) if has_tables else 0


def schema(address: Address) -> Schema:
    """Return the versions of the schema that the database has and that this program needs. Nothing is changed."""
    with _connected(address, writes=False) as (connection, translate):
        version = stored_version(connection, translate)
    if version == 0:
        raise _no_store(address)
    require_known(version, address)
    return Schema(version, newest())


def exists(address: Address) -> bool:
    """Return whether the tables are there."""
    with _connected(address, writes=False) as (connection, translate):
        return stored_version(connection, translate) > 0


def prepare(address: Address, *, lock_patience: timedelta = _LOCK_PATIENCE) -> None:
    """Create the tables, or migrate those of an older version. Refuses those of a newer one.

    Processes that do so at the same time take turns, and all but the first find nothing to do.
    """
    with _connected(address, writes=True) as (connection, translate):
        if stored_version(connection, translate) == newest():
            return
        connection.command(_BEGIN)
        connection.execute(_TURN)
        connection.command(f"SET LOCAL lock_timeout = {lock_patience // timedelta(milliseconds=1)}")
        version = stored_version(connection, translate)
        require_known(version, address)
        if version == 0:
            _make_schema(connection, translate.schema)
        for number, script in _migrations().items():
            if number > version:
                connection.command(script.replace("{schema}", f'"{translate.schema}"'))
                connection.execute("INSERT INTO schema_version (version) VALUES (:version)", {"version": number})
        connection.command("COMMIT")
        if version:
            log.info("schema_migrated", extra={"store": address.name, "before": version, "after": newest()})


def _make_schema(connection: PostgresConnection, name: str) -> None:
    """Make the schema unless it is there: whoever owns one need not be allowed to make others."""
    if not connection.execute(_HAS_SCHEMA, {"schema": name}).fetchone()[0]:
        connection.command(f'CREATE SCHEMA "{name}"')
    connection.command(f'CREATE TABLE "{name}".schema_version (version integer PRIMARY KEY)')


def require_current(
    connection: PostgresConnection, translate: Translation, address: Address, *, or_next: bool = False
) -> None:
    """Raise an error unless the tables are of this version, or with `or_next` of the next one."""
    version = stored_version(connection, translate)
    if version == 0:
        raise _no_store(address)
    if or_next and version == newest() + 1:
        return
    require_known(version, address)
    if version < newest():
        raise StoreRefused(
            f"the database {address.name} has schema {version}, and this version needs {newest()}: start "
            "`receiver serve` or `receiver work`, which migrates it. Nothing was changed"
        )


def require_known(version: int, address: Address) -> None:
    """Raise StoreRefused for tables of a newer version, or from before the first release."""
    require_released(version, f"the database {address.name}")
    if version > newest():
        raise StoreRefused(
            f"the database {address.name} was made by a newer version (schema {version}, this version knows "
            f"{newest()}). Nothing was changed"
        )


def _no_store(address: Address) -> StoreError:
    return StoreError(f"the database {address.name} has no tables of ours; `receiver store migrate` creates them")


@contextmanager
def _connected(address: Address, *, writes: bool) -> Iterator[tuple[PostgresConnection, Translation]]:
    """Connect for a block."""
    translate = Translation(address.schema)
    deadline = StatementDeadline(_PATIENCE, f"deadline {address.name}")
    try:
        with translated(address.name):
            connection = PostgresConnection(address, translate, deadline, writes=writes)
            try:
                yield connection, translate
            finally:
                connection.close()
    finally:
        deadline.stop()


def _migrations() -> Mapping[int, str]:
    return migrations_of("receiver.stores.postgres")


APPEND_DEADLINE = timedelta(seconds=3)
"""How long an append may wait for the server: senders get their answers before `ack_deadline`."""
READ_DEADLINE = timedelta(minutes=5)
"""How long a statement of a report or of pruning may take."""


class PostgresStore:
    """A Store. `append_deadline` is how long an append waits for a server that does not answer."""

    def __init__(self, url: str, *, append_deadline: timedelta = APPEND_DEADLINE) -> None:
        self._address = parse_address(url)
        self._translate = Translation(self._address.schema)
        self._append_deadline = append_deadline
        self._clocks = OpenClocks()
        self._was_current = False

    def exists(self) -> bool:
        """Return whether the database has our tables. Raises StoreError if it cannot be reached."""
        return exists(self._address)

    def schema(self) -> Schema:
        """Return the versions of the schema that the database has and that this program needs."""
        return schema(self._address)

    async def health_notes(self) -> Sequence[str]:
        """Return what could harm the database, each with what to do."""
        if not await asyncio.to_thread(self.exists):
            return ()
        async with self._open(create=False, writes=False) as database:
            return await database.call(lambda connection: notes(connection, self._address.schema))

    async def require_search(self) -> None:
        """Return: there can always be an index."""

    @asynccontextmanager
    async def clock(self, clock: Clock) -> AsyncIterator[Clock]:
        """Open the clock of the database. The queues of this store compare it when its time surprises them."""
        connect = partial(PostgresDatabase, self._address, writes=False, deadline=self._append_deadline)
        async with database_clock(connect, clock, self._clocks) as shown:
            yield shown

    @asynccontextmanager
    async def log(self) -> AsyncIterator[DeliveryLog]:
        """Open for appending; creates the tables if there are none."""
        async with self._open(create=True, begin=SYNCED, deadline=self._append_deadline) as database:
            log = PostgresLog(database)
            try:
                yield log
            finally:
                await log.aclose()

    @asynccontextmanager
    async def queue(self) -> AsyncIterator[WorkQueue]:
        """Open for working; creates the tables if there are none."""
        skip = partial(skip_ids, self._address.schema)
        async with self._open(create=True, begin=UNSYNCED, on_reconnect=skip) as database:
            yield PostgresQueue(database, self._clocks)

    @asynccontextmanager
    async def search(self) -> AsyncIterator[SearchIndex]:
        """Open for indexing; creates the tables if there are none."""
        async with self._open(create=True, begin=UNSYNCED, deadline=READ_DEADLINE) as database:
            index = PostgresSearch(database)
            await index.make()
            yield index

    @asynccontextmanager
    async def controls(self) -> AsyncIterator[Controls]:
        """Open for deciding."""
        async with self._open(create=False, begin=SYNCED, before_commit=STIR) as database:
            yield PostgresControls(database)

    @asynccontextmanager
    async def maintenance(self, *, tell: Tell | None = None) -> AsyncIterator[Maintenance]:
        """Open for pruning. There is nothing to report: the disk is the server's."""
        async with self._open(create=False, begin=UNSYNCED, deadline=READ_DEADLINE) as database:
            yield PostgresMaintenance(database)

    @asynccontextmanager
    async def reports(self) -> AsyncIterator[Reports]:
        """Open for reading."""
        async with self._open(create=False, writes=False, around=READING, deadline=READ_DEADLINE) as database:
            yield PostgresReports(database, self._address.schema)

    @asynccontextmanager
    async def _open(
        self,
        *,
        create: bool,
        writes: bool = True,
        begin: str = UNSYNCED,
        around: str = "",
        before_commit: str = "",
        deadline: timedelta = STATEMENT_DEADLINE,
        on_reconnect: Callable[[PostgresConnection], None] = lambda connection: None,
    ) -> AsyncIterator[PostgresDatabase]:
        if create and not self._was_current:
            await asyncio.to_thread(prepare, self._address)
        database = PostgresDatabase(
            self._address,
            writes=writes,
            begin=begin,
            around=around,
            before_commit=before_commit,
            deadline=deadline,
            on_connect=self._check_and_tame if create else self._require_current,
            on_reconnect=on_reconnect,
        )
        async with database:
            yield database

    def _check_and_tame(self, connection: PostgresConnection) -> None:
        self._require_current(connection)
        connection.tame_planner()

    def _require_current(self, connection: PostgresConnection) -> None:
        # Each version works with the tables of the next one. So a process continues when another one has migrated.
        require_current(connection, self._translate, self._address, or_next=self._was_current)
        self._was_current = True
