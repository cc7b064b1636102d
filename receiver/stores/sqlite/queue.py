"""The worker's side of a SQLite store."""

import asyncio
import sqlite3
from collections.abc import Sequence
from datetime import datetime

from receiver.core.activity import WorkerSign
from receiver.core.clock import to_micros
from receiver.core.types import WorkerId
from receiver.stores.sql.copying import set_mark
from receiver.stores.sql.queue import SqlQueue
from receiver.stores.sqlite.database import Database, data_version
from receiver.stores.sqlite.dialect import LEASE_HOLDERS, LOCKS_FILE, WRITES
from receiver.stores.sqlite.locks import UNSURE, LivingWorkers, is_fresh

_POLL_SECONDS = 0.02


class SqliteQueue(SqlQueue):
    """A WorkQueue. Its commits are not synced, but for `once`: after a power cut a finished item may run again."""

    most_claimed = 256

    def __init__(self, database: Database, living: LivingWorkers) -> None:
        super().__init__(database, WRITES)
        self._living = living
        self._seen: int | None = None
        self._asked_at = 0.0
        self._times_lost = 0
        self._lost_at: datetime | None = None

    async def enlist(self, worker: WorkerId) -> None:
        """Show that a worker lives."""
        self._living.enlist(worker)

    async def sign_on(self, sign: WorkerSign, *, now: datetime) -> None:
        """Show that a worker lives, with its lock too: those who read the sign may ask for the lock."""
        self._living.enlist(sign.name)
        await super().sign_on(sign, now=now)

    async def expire_dead(self, worker: WorkerId, *, steady: datetime) -> Sequence[WorkerId]:
        """End the leases of all workers that are certainly dead."""
        self._living.enlist(worker)  # again, in case the file of locks was deleted
        if self._living.times_lost != self._times_lost:
            self._times_lost, self._lost_at = self._living.times_lost, steady
        if self._lost_at is not None and steady - self._lost_at < UNSURE:
            return []
        if await self._has_new_file(steady):
            return []
        holders = await self.database.call(lambda connection: connection.execute(LEASE_HOLDERS).fetchall())
        dead = [holder for (holder,) in holders if holder != worker and self._living.is_dead(holder)]
        for one in dead:
            await self.expire_leases_of(one, now=steady)
        return dead

    async def _has_new_file(self, steady: datetime) -> bool:
        """Return whether other workers may still have to take their locks in a new file.

        A worker that has just started never saw the old one; what it finds beside the store may be the new file. So
        the store knows which file its workers use. The first file of a store is no new one: it does not delay a
        takeover for it.
        """
        file, now = self._living.file_identity(), to_micros(steady)
        if file is None:
            return False

        def work(connection: sqlite3.Connection) -> int | None:
            known, since = connection.execute(LOCKS_FILE).fetchone()
            if known == file:
                return None if since is None else int(since)
            with self.database.transaction(connection):
                set_mark(connection, "locks_file", file)
                if known is None:
                    return None
                set_mark(connection, "locks_file_since", now)
            return now

        since = await self.database.call(work)
        return is_fresh(since, now)

    async def changed(self) -> None:
        """Return when another connection has committed since the last call (PRAGMA data_version).

        It asks at least 20 ms after the question before: where deliveries come one by one, a worker takes those of
        that time together, and needs less than half of the processor time for each.
        """
        loop = asyncio.get_running_loop()
        while True:
            # The real clock, whatever clock the worker has: the change comes from another process.
            await asyncio.sleep(self._asked_at + _POLL_SECONDS - loop.time())
            self._asked_at = loop.time()
            version = await self.database.call(data_version)
            if version != self._seen:
                self._seen = version
                return
