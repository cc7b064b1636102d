"""A store in a PostgreSQL database, for any number of processes on any number of machines."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial

from receiver.core.clock import Clock
from receiver.core.ports.log import DeliveryLog
from receiver.core.ports.queue import WorkQueue
from receiver.core.ports.reports import Reports
from receiver.core.ports.store import Controls, Maintenance, SearchIndex
from receiver.core.types import Schema, Tell
from receiver.stores.postgres import schema
from receiver.stores.postgres.clock import OpenClocks, database_clock
from receiver.stores.postgres.connection import PostgresConnection, Translation, parse_address
from receiver.stores.postgres.controls import PostgresControls, PostgresMaintenance
from receiver.stores.postgres.database import READING, STATEMENT_DEADLINE, SYNCED, UNSYNCED, PostgresDatabase
from receiver.stores.postgres.log import PostgresLog
from receiver.stores.postgres.queue import PostgresQueue, skip_ids
from receiver.stores.postgres.reports import PostgresReports, PostgresSearch, notes
from receiver.stores.postgres.statements import STIR

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
        return schema.exists(self._address)

    def schema(self) -> Schema:
        """Return the versions of the schema that the database has and that this program needs."""
        return schema.schema(self._address)

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
            await asyncio.to_thread(schema.prepare, self._address)
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
        schema.require_current(connection, self._translate, self._address, or_next=self._was_current)
        self._was_current = True
