"""The rows of jobs on PostgreSQL say what deliveries say, while workers route and others prune."""

import asyncio
from contextlib import AsyncExitStack
from random import Random

import pytest

from receiver.core.activity import PruneRule
from receiver.core.claims import Lease
from receiver.core.jobs import JobSummary
from receiver.core.ports.queue import WorkQueue
from receiver.core.work import NewWork
from receiver.stores.postgres.log import BEHIND
from receiver.stores.postgres.store import PostgresStore
from tests.doubles import NOON
from tests.stores.conftest import open_all
from tests.stores.opened import AFTER, MUCH, ONE, A
from tests.stores.outside import PostgresTables
from tests.stores.test_pruning import LATER, prune
from tests.stores.test_sqlite_job_rows import EXPECTED, FILTERS, NEWER, of_some_job

DELIVERIES = 3 * BEHIND


async def route_all(queue: WorkQueue) -> None:
    """Route everything in small batches, as far as it is this worker's turn."""
    while (batch := await queue.routing_batch(limit=50, max_bytes=MUCH)).deliveries:
        await queue.route(batch, [], lease=Lease(A, AFTER), now=NOON)


async def listings(url: str) -> list[list[JobSummary]]:
    """Return what every filter finds."""
    async with PostgresStore(url).reports() as reports:
        return [[one async for one in reports.jobs(wanted)] for wanted in FILTERS]


async def check(url: str) -> None:
    """Compare the rows with the deliveries, and the listings with those without rows."""
    tables = PostgresTables(url)
    newer = {seq for (seq,) in tables.select(NEWER)}
    rows, expected = (
        [row for row in tables.select(sql) if row[0] not in newer]
        for sql in ("SELECT last_seq, first_at, last_at, end_type FROM jobs ORDER BY 1", EXPECTED)
    )
    assert rows == expected
    found = await listings(url)
    kept = tables.select("SELECT * FROM jobs")
    [(summed,)] = tables.select("SELECT value FROM marks WHERE name = 'summed'")
    tables.run("DELETE FROM jobs; UPDATE marks SET value = 0 WHERE name = 'summed'")
    assert found == await listings(url)
    with tables.connect() as connection:
        connection.cursor().executemany("INSERT INTO jobs VALUES (%s, %s, %s, %s)", kept)
    tables.run(f"UPDATE marks SET value = {summed} WHERE name = 'summed'")


@pytest.mark.parametrize("seed", range(2))
async def test_rows_follow_workers_and_pruning(postgres_url: str, seed: int) -> None:
    """They stay right when the first, the last or all deliveries of a job go, and when a job goes on afterwards."""
    rng = Random(seed)
    deliveries = [of_some_job(number, rng) for number in range(2 * DELIVERIES)]
    async with open_all(PostgresStore(postgres_url)) as opened:
        await opened.add(*deliveries[:DELIVERIES])
        await route_all(opened.queue)
        [(summed,)] = PostgresTables(postgres_url).select("SELECT value FROM marks WHERE name = 'summed'")
        assert DELIVERIES - 2 * BEHIND < summed <= DELIVERIES
        await check(postgres_url)
        assert await prune(opened, PruneRule(LATER, type="crawl.completed"), limit=7) > 0
        await check(postgres_url)
        await opened.add(*deliveries[DELIVERIES:])
        await route_all(opened.queue)
        await check(postgres_url)


async def test_rows_that_cannot_follow_take_no_work_from_a_worker(
    postgres_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The items are its own when the rows fail, and would else lie idle until their leases end."""
    rng, tables = Random(4), PostgresTables(postgres_url)
    async with open_all(PostgresStore(postgres_url)) as opened:
        await opened.add(*[of_some_job(number, rng) for number in range(DELIVERIES)])
        tables.run("ALTER TABLE jobs RENAME TO jobs_away")
        batch = await opened.queue.routing_batch(limit=2 * BEHIND, max_bytes=MUCH)
        work = [NewWork(one.seq, ONE) for one in batch.deliveries]
        made = await opened.queue.route(batch, work, lease=Lease(A, AFTER), now=NOON)
        assert made is not None
        assert None not in made
        assert "job_rows_behind" in caplog.text

        tables.run("ALTER TABLE jobs_away RENAME TO jobs")
        await route_all(opened.queue)
    await check(postgres_url)


async def test_workers_and_pruning_at_one_time_keep_them_right(postgres_url: str) -> None:
    """Two workers follow while a third program removes what they have just counted."""
    rng = Random(9)
    store = PostgresStore(postgres_url)
    async with open_all(store) as opened, AsyncExitStack() as stack:
        await opened.add(*[of_some_job(number, rng) for number in range(2 * DELIVERIES)])
        third = await stack.enter_async_context(store.queue())
        async with asyncio.TaskGroup() as group:
            for queue in (opened.queue, opened.other, third):
                group.create_task(route_all(queue))
            group.create_task(prune(opened, PruneRule(LATER, type="crawl.page"), limit=40))
    await check(postgres_url)
