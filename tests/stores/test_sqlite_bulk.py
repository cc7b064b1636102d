"""How a SQLite file is kept small: its form, compression, reclaimed pages, and files of schema 3."""

import random
import re
import sqlite3
from contextlib import closing
from importlib import resources
from pathlib import Path

import pytest

from receiver.core.activity import PruneRule
from receiver.core.bulk import Imported
from receiver.core.clock import to_micros
from receiver.core.types import AppendOutcome, DeliveryKey, Origin
from receiver.core.work import NewWork
from receiver.stores.sqlite.controls import MAX_PAUSE_SECONDS, PAUSE_SECONDS, SqliteControls
from receiver.stores.sqlite.database import Database
from receiver.stores.sqlite.files import APPLICATION_ID
from receiver.stores.sqlite.store import SqliteStore
from tests.doubles import NOON, appended, delivery
from tests.stores.conftest import open_all
from tests.stores.opened import DAY, DEAD, MUCH, ONE
from tests.stores.rows import execute, select

LONG = b'{"type": "crawl.page", "text": "' + b"some words of a page " * 5_000 + b'"}'
PAGE = 8192
MIGRATIONS = resources.files("receiver.stores.sqlite") / "migrations"


def make_schema_3(path: Path) -> None:
    """Make a database as the third version left it: one delivery, dead."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        for name in ("0001_deliveries.sql", "0002_work.sql", "0003_dispatch.sql"):
            connection.executescript((MIGRATIONS / name).read_text(encoding="utf-8"))
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute("PRAGMA user_version = 3")
        row = ("old", to_micros(NOON), len(LONG))
        connection.execute("INSERT INTO deliveries VALUES (1, ?, 'crawl.page', 'job', 'old', 1, ?, ?, 2)", row)
        connection.execute('INSERT INTO bodies VALUES (1, \'[["a", "b"]]\', ?)', (LONG,))
        connection.execute(
            "INSERT INTO work_items (delivery_seq, handler, state, attempts, trigger, due_at, last_error) "
            "VALUES (1, 'one', 'dead', 1, 'delivery', 0, 'no')"
        )
        connection.execute("UPDATE marks SET value = 1 WHERE name = 'routed'")
        connection.commit()


async def test_a_file_of_schema_3_is_migrated(path: Path) -> None:
    """Its delivery came from the sender and has its body. It can be compressed, planned for and pruned."""
    make_schema_3(path)

    async with open_all(SqliteStore(f"sqlite:///{path}")) as opened:
        (summary,) = await opened.listed(failed=True)
        assert (summary.key, summary.origin, summary.has_body, summary.duplicates) == (
            "old",
            Origin.SENDER,
            True,
            2,
        )
        assert (await opened.maintenance.compress(limit=9)).count == 1
        detail = await opened.reports.detail(DeliveryKey("old"))
        assert (detail.body, detail.headers) == (LONG, (("a", "b"),))
        assert await opened.add(delivery("old", body=LONG)) == [AppendOutcome.DUPLICATE]
        assert (await opened.seen(1)).state is DEAD
        assert await opened.maintenance.reclaim(MUCH) == 0, "an old file keeps its size"
    assert select(path, "PRAGMA integrity_check") == [("ok",)]


async def test_a_new_file_has_large_pages_and_can_shrink(made: Path) -> None:
    """Both are decided when a file is made, and cannot change."""
    assert select(made, "PRAGMA page_size") == [(8192,)]
    assert select(made, "PRAGMA auto_vacuum") == [(2,)]


async def test_long_bodies_are_compressed_once_routed(sqlite_store: SqliteStore, path: Path) -> None:
    """Bodies that are new, short, or gain nothing stay unchanged. A step examines each only once."""
    noise = random.Random(1).randbytes(20_000)
    async with open_all(sqlite_store) as opened:
        await opened.add(
            delivery("long", body=LONG), delivery("short", body=b"x" * 8_000), delivery("noise", body=noise)
        )
        await opened.route()
        await opened.add(delivery("new", body=LONG))

        steps = [await opened.maintenance.compress(limit=9), await opened.maintenance.compress(limit=9)]

    codings = select(path, "SELECT d.key, b.coding FROM deliveries AS d JOIN bodies AS b USING (seq)")
    assert dict(codings) == {"long": 1, "short": 0, "noise": 0, "new": 2}
    assert steps[1].count == 0
    assert steps[0].size > len(LONG) * 0.6


async def test_the_error_of_a_damaged_body_names_its_delivery(sqlite_store: SqliteStore, path: Path) -> None:
    """It also says what to do."""
    async with open_all(sqlite_store) as opened:
        await opened.add(delivery("a", body=LONG))
        await opened.route()
        await opened.maintenance.compress(limit=9)
        execute(path, "UPDATE bodies SET body = x'789c00'")

        detail = await opened.reports.detail(DeliveryKey("a"))
        assert detail.body is None
        assert re.search(r"body of delivery a is damaged; .*import the delivery", detail.unreadable)


async def test_pruning_gives_room_back(sqlite_store: SqliteStore, path: Path) -> None:
    """A step gives back at most as much as asked for, until no page is unused."""
    async with open_all(sqlite_store) as opened:
        await opened.add(*[delivery(f"{n}", body=b"x" * 8_000) for n in range(130)])
        await opened.route(claim=False)
        after: int | None = 0
        while after is not None:
            step = await opened.maintenance.prune(PruneRule(NOON + DAY), after=after, limit=1_000, now=NOON + DAY)
            after = step.after
        (unused,) = select(path, "PRAGMA freelist_count")[0]

        freed = [await opened.maintenance.reclaim(50 * PAGE)]
        while freed[-1]:
            freed.append(await opened.maintenance.reclaim(50 * PAGE))

        assert freed[0] == 50 * PAGE
        assert sum(freed) == unused * PAGE
        assert max(freed) == 50 * PAGE
    assert select(path, "PRAGMA page_count")[0][0] < 100
    assert select(path, "PRAGMA integrity_check") == [("ok",)]


async def test_bodies_are_found_by_handler_of_failed_work(sqlite_store: SqliteStore, path: Path) -> None:
    """The index of failed work is used, so that a few failures among very many are found at once."""
    async with sqlite_store.log():
        pass
    sql = "SELECT delivery_seq FROM work_items AS w WHERE (w.state = 'dead' OR w.last_error IS NOT NULL)"
    assert any("work_failed" in row[3] for row in select(path, f"EXPLAIN QUERY PLAN {sql} AND w.handler = '{ONE}'"))


async def test_an_import_takes_smaller_steps_while_others_write(sqlite_store: SqliteStore, path: Path) -> None:
    """Acks wait for the end of a step, so the one after a write of theirs is smaller than the others."""
    begun: list[str] = []
    async with sqlite_store.log() as log, sqlite_store.controls() as controls:
        assert isinstance(controls, SqliteControls)
        await controls.database.call(lambda connection: connection.set_trace_callback(begun.append))

        async def steps(name: str) -> int:
            begun.clear()
            await controls.import_deliveries([Imported(delivery(f"{name}{number}")) for number in range(1_000)])
            return begun.count("BEGIN IMMEDIATE")

        assert await steps("alone") == 2

        await appended(log, delivery("other"))
        assert await steps("beside") == 3, "500, then 25 because of the other one, and then the rest"
    assert select(path, "SELECT count(*) FROM deliveries") == [(2_001,)]


async def test_who_writes_much_pauses_while_others_write(sqlite_store: SqliteStore) -> None:
    """Others ask for the lock at short intervals, and need the processors. Alone, nobody waits."""
    pauses: list[float] = []
    used = 0.0

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    async with sqlite_store.log() as log, sqlite_store.controls() as opened:
        assert isinstance(opened, SqliteControls)
        assert isinstance(opened.database, Database)
        controls = SqliteControls(opened.database, sleep=sleep, used=lambda: used)
        await controls.enqueue([NewWork(1, ONE)], now=NOON)
        await controls.enqueue([NewWork(1, ONE)], now=NOON)
        assert pauses == []

        for number, worked in enumerate((PAUSE_SECONDS / 4, PAUSE_SECONDS, 2 * PAUSE_SECONDS, 60)):
            await appended(log, delivery(f"key-{number}"))
            used += worked
            await (controls.record([], now=NOON) if number % 2 else controls.enqueue([NewWork(1, ONE)], now=NOON))
        assert pauses == pytest.approx([PAUSE_SECONDS, 2 * PAUSE_SECONDS, 4 * PAUSE_SECONDS, MAX_PAUSE_SECONDS])

        used += 60
        await controls.record([], now=NOON)
        assert len(pauses) == 4
