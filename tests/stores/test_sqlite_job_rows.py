"""The rows of jobs say what the deliveries up to the mark say. A listing is the same with them and without."""

import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from random import Random

import pytest

from receiver.core.activity import PruneRule
from receiver.core.bulk import Imported
from receiver.core.deliveries import Delivery
from receiver.core.jobs import JobFilter, JobState, JobSummary
from receiver.stores.sqlite.log import BEHIND, JobRows
from receiver.stores.sqlite.store import SqliteStore
from tests.doubles import NOON, delivery
from tests.stores.conftest import open_all
from tests.stores.opened import DAY, ONE, TWO
from tests.stores.rows import execute, select
from tests.stores.test_pruning import LATER, prune

JOBS, DELIVERIES = 30, 3 * BEHIND
KINDS = ("crawl.started", "crawl.page", "crawl.page", "crawl.completed", "extract.failed", "agent.cancelled", "odd")
FILTERS = [
    JobFilter(),
    JobFilter(limit=0),
    JobFilter(limit=4),
    *[JobFilter(state=state) for state in JobState],
    *[JobFilter(type=kind) for kind in ("crawl", "extract.*", "none")],
    *[JobFilter(job_id=f"job-{number}") for number in range(JOBS)],
    JobFilter(since=NOON + 9 * DAY),
    JobFilter(until=NOON + 5 * DAY, state=JobState.ENDED),
]
EXPECTED = """
SELECT
    j.last_seq, (SELECT f.received_at FROM deliveries AS f WHERE f.seq = j.first_seq),
    (SELECT l.received_at FROM deliveries AS l WHERE l.seq = j.last_seq),
    (
        SELECT e.type FROM deliveries AS e
        WHERE e.job_id = j.job_id AND e.type IN ('crawl.completed', 'extract.failed', 'agent.cancelled')
        ORDER BY e.seq LIMIT 1
    )
FROM (
    SELECT job_id, min(seq) AS first_seq, max(seq) AS last_seq FROM deliveries
    WHERE seq <= (SELECT value FROM marks WHERE name = 'summed') AND job_id IS NOT NULL GROUP BY job_id
) AS j ORDER BY 1
"""
NEWER = """
SELECT last_seq FROM jobs JOIN deliveries AS d ON d.seq = last_seq WHERE EXISTS (
    SELECT 1 FROM deliveries AS n WHERE n.job_id = d.job_id AND n.seq > (
        SELECT value FROM marks WHERE name = 'summed'
    )
)
"""


def of_some_job(number: int, rng: Random) -> Delivery:
    """Return a delivery of a job, or of none. Jobs may have ended, and the clock jumps."""
    job = rng.choice([None, *[f"job-{rng.randrange(1 + number // 20) % JOBS}"] * 9])
    moment = NOON + timedelta(minutes=20 * rng.randrange(1 + number))
    return delivery(f"k{number}", kind=rng.choice(KINDS), job_id=job, received_at=moment)


async def listings(path: Path) -> list[list[JobSummary]]:
    """Return what every filter finds."""
    async with SqliteStore(f"sqlite:///{path}").reports() as reports:
        return [[one async for one in reports.jobs(wanted)] for wanted in FILTERS]


async def check(path: Path, tmp_path: Path) -> None:
    """Compare the rows with the deliveries, and the listings with those of a store without rows."""
    newer = {seq for (seq,) in select(path, NEWER)}
    rows, expected = (
        [row for row in select(path, sql) if row[0] not in newer]
        for sql in ("SELECT last_seq, first_at, last_at, end_type FROM jobs ORDER BY 1", EXPECTED)
    )
    assert rows == expected
    without = tmp_path / "without.db"
    with closing(sqlite3.connect(path)) as connection, closing(sqlite3.connect(without)) as copy:
        connection.backup(copy)
    execute(without, "DELETE FROM jobs", "UPDATE marks SET value = 0 WHERE name = 'summed'")
    found = await listings(path)
    assert found == await listings(without)
    assert len(found[0]) > JOBS / 2


@pytest.mark.parametrize("seed", range(3))
async def test_rows_follow_appends_imports_and_pruning(path: Path, tmp_path: Path, seed: int) -> None:
    """They stay right when the first, the last or all deliveries of a job go, and when a job goes on afterwards."""
    rng = Random(seed)
    deliveries = [of_some_job(number, rng) for number in range(2 * DELIVERIES)]
    async with open_all(SqliteStore(f"sqlite:///{path}")) as opened:
        half = DELIVERIES // 2
        await opened.add(*deliveries[:half])
        await opened.controls.import_deliveries([Imported(one) for one in deliveries[half:DELIVERIES]])
        (summed,) = select(path, "SELECT value FROM marks WHERE name = 'summed'")
        assert DELIVERIES - 2 * BEHIND < summed[0] < DELIVERIES
        await check(path, tmp_path)

        await opened.route(ONE, claim=False)
        await opened.controls.bury([one.id for one in await opened.work() if one.id % 3 == 0], "no", now=NOON)
        rows = select(path, "SELECT id FROM work_items WHERE state = 'waiting' AND id % 3 = 1")
        execute(path, *[f"UPDATE work_items SET state = 'done', due_at = NULL WHERE id = {one}" for (one,) in rows])
        assert await prune(opened, PruneRule(LATER, type="crawl.completed"), limit=7) > 0
        await check(path, tmp_path)
        assert await prune(opened, PruneRule(LATER)) > DELIVERIES / 5
        await check(path, tmp_path)

        await opened.add(*deliveries[DELIVERIES:])
        await check(path, tmp_path)


async def test_a_job_whose_deliveries_are_all_pruned_has_no_row(path: Path, tmp_path: Path) -> None:
    """A later delivery of it makes a new one."""
    async with open_all(SqliteStore(f"sqlite:///{path}")) as opened:
        await opened.add(*[delivery(f"k{number}", job_id=f"job-{number % 2}") for number in range(BEHIND)])
        await opened.add(delivery("next"))
        assert len(select(path, "SELECT * FROM jobs")) == 2
        await opened.route()
        await prune(opened, PruneRule(LATER))
        assert select(path, "SELECT * FROM jobs") == []

        await opened.add(*[delivery(f"l{number}", job_id="job-0") for number in range(BEHIND)])
        await opened.add(delivery("last"))

    rows = [("job-0", 2 * BEHIND + 1)]
    assert select(path, "SELECT job_id, last_seq FROM jobs JOIN deliveries ON seq = last_seq") == rows


def test_rows_of_many_deliveries_follow_in_steps(made: Path) -> None:
    """Acks wait for a step, so it takes a limited number; after an error the rows go on where they are."""
    count = 2_500
    with closing(sqlite3.connect(made, isolation_level=None)) as connection:
        connection.execute(
            "INSERT INTO deliveries (seq, key, type, job_id, received_at, size) WITH RECURSIVE n(value) AS "
            f"(SELECT 1 UNION ALL SELECT value + 1 FROM n WHERE value < {count}) "
            "SELECT value, 'k' || value, 'crawl.page', 'job-' || (value % 7), 1, 2 FROM n"
        )
        rows = JobRows()
        marks = []
        for undone in (False, True, False, False, False):
            connection.execute("BEGIN")
            rows.follow(connection, count)
            connection.execute("ROLLBACK" if undone else "COMMIT")
            marks += connection.execute("SELECT value FROM marks WHERE name = 'summed'").fetchone()
        assert marks == [1_024, 1_024, 2_048, 2_500, 2_500]
        assert connection.execute("SELECT count(*), max(last_seq) FROM jobs").fetchone() == (7, count)


async def test_a_handler_that_ever_had_work_is_known(path: Path) -> None:
    """Others are known to match nothing, without a look at the work items."""
    async with open_all(SqliteStore(f"sqlite:///{path}")) as opened:
        assert await opened.reports.handler_names() == []
        await opened.items(2, ONE)
        await opened.items(1, TWO)
        assert await opened.reports.handler_names() == [ONE, TWO]
        assert [one.handler for one in await opened.work(handler="o*")] == [ONE, ONE]
        assert await opened.work(handler="three") == []
