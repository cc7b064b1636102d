"""How a SQLite file is kept small: its form, compression, and reclaimed pages."""

import random
import re
from pathlib import Path

import pytest

from receiver.core.activity import PruneRule
from receiver.core.bulk import Imported
from receiver.core.types import DeliveryKey
from receiver.core.work import NewWork
from receiver.stores.sqlite.controls import MAX_PAUSE_SECONDS, PAUSE_SECONDS, SqliteControls
from receiver.stores.sqlite.database import Database
from receiver.stores.sqlite.store import SqliteStore
from tests.doubles import NOON, appended, delivery
from tests.stores.conftest import open_all
from tests.stores.opened import DAY, ONE
from tests.stores.rows import execute, select

LONG = b'{"type": "crawl.page", "text": "' + b"some words of a page " * 5_000 + b'"}'
PAGE = 8192


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
