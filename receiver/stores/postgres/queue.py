"""The worker's side of a PostgreSQL store."""

import asyncio
import secrets
import time
from collections.abc import Sequence
from datetime import datetime, timedelta

from receiver.core.claims import Lease, RoutingBatch
from receiver.core.deliveries import StoredDelivery
from receiver.core.types import WorkerId
from receiver.core.work import NewWork
from receiver.errors import StoreError, StoreRefused
from receiver.runtime.log_lines import event_log
from receiver.stores.postgres.clock import OpenClocks
from receiver.stores.postgres.connection import PostgresConnection
from receiver.stores.postgres.database import PostgresDatabase
from receiver.stores.postgres.dialect import WRITES
from receiver.stores.postgres.log import PostgresJobRows
from receiver.stores.postgres.statements import LATEST_CHANGE, ROUTING, SKIP_IDS, TAKE_TURN
from receiver.stores.sql.connection import SqlConnection
from receiver.stores.sql.queue import SqlQueue
from receiver.stores.sql.writes import Writes

PATIENCE = timedelta(seconds=1)
"""How long a worker keeps its turn in which it routes nothing: it may have died, have no memory for more, or have
claimed so much other work that it takes no more."""


class RoutingTurn:
    """The turns of one worker to route: without turns, all workers would read the same deliveries.

    They only save work: `route` itself lets one worker through.
    """

    def __init__(self, patience: timedelta = PATIENCE) -> None:
        self._patience = patience.total_seconds()
        self._own = secrets.randbits(62) + 1
        self._seen = (0, 0)
        self._seen_at = 0.0

    def may_take(self, holder: int) -> bool:
        """Return whether the turn is free, or this worker's own."""
        return holder in (0, self._own)

    def take(self, connection: PostgresConnection, *, routed: int, holder: int) -> bool:
        """Take the turn if it is free, or if its holder has routed nothing for too long."""
        if holder == self._own:
            return True
        if holder and (self._seen != (routed, holder)):
            # The real clock, whatever clock the worker has: the holder is another process.
            self._seen, self._seen_at = (routed, holder), time.monotonic()
            return False
        if holder and time.monotonic() - self._seen_at < self._patience:
            return False
        return int(connection.execute(TAKE_TURN, {"taker": self._own, "holder": holder}).rowcount) == 1

    def give_back(self, connection: PostgresConnection) -> None:
        """Let others take the turn at once, if this worker has it."""
        connection.execute(TAKE_TURN, {"taker": 0, "holder": self._own})


log = event_log(__name__)

_POLL_SECONDS, _LONGEST_POLL_SECONDS = 0.02, 0.25
_SLOWER = 1.3
"""Factor from one pause to the next while nothing changes."""
_TURN_SECONDS, _TURN_SLOWER = 0.007, 1.05
"""The same while another worker has the turn to route, for some 25 ms each time. With longer pauses that worker has
the next turn too, and of two workers that handled in batches, one did next to nothing for long."""
_FORGOTTEN = 50_000
"""Ids that are given in the time for which commits are not synced, with much to spare."""
_LONGEST_WAIT_SECONDS = 1.0
"""What other workers retry, lose or leave does not stir workers."""


class PostgresQueue(SqlQueue):
    """A WorkQueue. Its commits are not synced: after a crash of the server a finished work item may run again."""

    most_claimed = 1_000

    def __init__(
        self,
        database: PostgresDatabase,
        clocks: OpenClocks | None = None,
        *,
        writes: Writes = WRITES,
        turn: RoutingTurn | None = None,
    ) -> None:
        """`clocks` are those that show the moments which the methods are given, if they are the database's."""
        super().__init__(database, writes)
        self._database = database
        self._clocks = clocks or OpenClocks()
        self._turn = turn or RoutingTurn()
        self._jobs = PostgresJobRows(database)
        self._seen: Sequence[int] | None = None
        self._answered_at = 0.0
        self._awaits_turn = False

    async def routing_batch(self, *, limit: int, max_bytes: int) -> RoutingBatch:
        """Return the oldest deliveries that no worker has routed; none while another worker is about to do so."""

        def read(connection: PostgresConnection) -> RoutingBatch:
            routed, holder, any_new, any_backfilled, server = self._clocks.watched(connection, ROUTING)
            found: tuple[StoredDelivery, ...] = ()
            self._awaits_turn = any_new and not self._turn.take(connection, routed=routed, holder=holder)
            if any_new and not self._awaits_turn:
                found = self.unrouted(connection, after=routed, limit=limit, max_bytes=max_bytes)
            elif holder and not any_new and self._turn.may_take(holder):
                self._turn.give_back(connection)  # another worker has routed what this one took it for
            return RoutingBatch(routed, found, any_backfilled, server)

        return await self.database.call(read)

    async def route(
        self, batch: RoutingBatch, work: Sequence[NewWork], *, lease: Lease, now: datetime
    ) -> Sequence[int | None] | None:
        """Make work items and mark the batch as routed, unless another worker was first."""
        made = await super().route(batch, work, lease=lease, now=now)
        if made is not None:
            await self._keep_job_rows(batch.deliveries[-1].seq)
        return made

    async def _keep_job_rows(self, last_seq: int) -> None:
        """Let the rows of jobs follow. If that fails, they follow later: what was routed is this worker's."""
        try:
            await self.database.call(lambda connection: self._jobs.follow(connection, last_seq))
        except (StoreError, StoreRefused) as exc:
            log.warning("job_rows_behind", extra={"reason": str(exc)})

    async def enlist(self, worker: WorkerId) -> None:
        """Do nothing: no machine can see whether a worker of another one lives."""

    async def sign_off(self, worker: WorkerId) -> None:
        """Show that a worker has ended. Whoever says so is about to route nothing."""
        await super().sign_off(worker)
        await self.database.call(self._turn.give_back)

    async def expire_dead(self, worker: WorkerId, *, steady: datetime) -> Sequence[WorkerId]:
        """Return none: it is never certain that a worker died."""
        return []

    def _has_changed(self, connection: PostgresConnection) -> bool:
        """Return whether there may be something to do, besides what another worker is about to route."""
        *latest, holder = self._clocks.watched(connection, LATEST_CHANGE)
        last, stirred, routed = latest
        before, any_new, waited = self._seen, (last or 0) > routed, self._awaits_turn
        self._awaits_turn = any_new and not self._turn.may_take(holder)
        changed = before is None or stirred != before[1]
        if not changed and (latest != before or (waited and any_new)):
            # With the turn: of several workers that ask at a time one comes back, and the others need not look.
            changed = not any_new or self._turn.take(connection, routed=routed, holder=holder)
            self._awaits_turn = not changed
        if changed:
            self._seen = latest
        return changed

    def is_right(self, connection: SqlConnection) -> bool:
        """Compare the clocks with the database's. A machine that was paused is behind, and cannot know it."""
        return not self._clocks.compare(connection)

    async def changed(self) -> None:
        """Return when a delivery was appended or the workers were stirred since the last call, or after 1 s.

        It asks again and again: listening needs a session of its own, which a pooler does not give, and a hundred
        listeners slow every commit down. It asks 20 ms after the answer before, then more and more seldom; while it
        waits for its turn to route, 7 ms after it at first.
        """
        loop = asyncio.get_running_loop()
        pause, waited = _TURN_SECONDS if self._awaits_turn else _POLL_SECONDS, 0.0
        while waited < _LONGEST_WAIT_SECONDS:
            # The real clock, whatever clock the worker has: the change comes from another process.
            began, awaited_turn = loop.time(), self._awaits_turn
            await asyncio.sleep(self._answered_at + pause - began)
            changed = await self.database.call(self._has_changed)
            self._answered_at = loop.time()
            if changed:
                return
            waited += max(pause, self._answered_at - began)
            if not self._awaits_turn:
                pause = min(pause * _SLOWER, _LONGEST_POLL_SECONDS)
            else:
                pause = pause * _TURN_SLOWER if awaited_turn else _TURN_SECONDS


def skip_ids(schema: str, connection: PostgresConnection) -> None:
    """Let the ids of new work items begin far above those that a crash of the server may have forgotten.

    This worker may still run some of those, and would else end the attempts of other items with their results.
    """
    connection.execute(SKIP_IDS, {"table": f'"{schema}".work_items', "count": _FORGOTTEN}).fetchall()
