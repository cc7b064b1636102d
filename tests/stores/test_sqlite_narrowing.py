"""A selective filter is listed without reading all deliveries, and finds the same."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from receiver.core.clock import to_micros
from receiver.core.deliveries import DeliveryFilter
from receiver.core.jobs import JobFilter, JobState
from receiver.core.types import DeliveryState, WorkState
from receiver.core.work import WorkFilter
from receiver.stores.sql.jobs import job_listing
from receiver.stores.sqlite.database import Database
from receiver.stores.sqlite.dialect import READS
from receiver.stores.sqlite.files import prepare
from receiver.stores.sqlite.locks import LivingWorkers
from receiver.stores.sqlite.log import BEHIND, JobRows
from receiver.stores.sqlite.reports import SqliteReports
from receiver.stores.sqlite.store import SqliteStore
from tests.doubles import NOON
from tests.stores.rows import MOMENTS, moments
from tests.stores.test_sqlite_bulk_effort import Steps
from tests.stores.test_sqlite_effort import FACTOR, fill

SOME, MANY = 2_000, 30_000
EVERY = [
    DeliveryFilter(state=state, failed=failed, handler=handler)
    for state in (None, *DeliveryState)
    for failed in (False, True)
    for handler in (None, "on*", "two")
]
RARE = [wanted for wanted in EVERY if wanted.failed or wanted.state not in (None, DeliveryState.DONE)]
_STATES = ("done", "dead", "waiting", "queued", "held", "running", "skipped")


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    """Deliveries with two work items each, of every two states and with and without an error, and new ones."""
    path = tmp_path / "mixed.db"
    prepare(path, create=True)
    moment = to_micros(NOON)
    pairs = [(one, two) for one in _STATES for two in _STATES]
    with closing(sqlite3.connect(path)) as connection:
        for seq, states in enumerate([*pairs, *pairs, ()], 1):
            connection.execute(
                "INSERT INTO deliveries (seq, key, type, job_id, received_at, size) VALUES (?, ?, 'a', ?, ?, 2)",
                (seq, f"k{seq}", f"j{seq % 5}", moment),
            )
            connection.execute("INSERT INTO bodies (seq, headers, body) VALUES (?, '[]', x'7b7d')", (seq,))
            connection.executemany(
                f"INSERT INTO work_items (delivery_seq, handler, state, attempts, trigger, {MOMENTS}, last_error) "
                f"VALUES (?1, ?2, ?3, 1, 'delivery', {moments('?3', str(moment))}, ?4)",
                [
                    (seq, handler, state, "ValueError" if seq > len(pairs) and seq % 3 else None)
                    for handler, state in zip(("one", "two"), states, strict=False)
                ],
            )
        connection.execute("UPDATE marks SET value = ? WHERE name = 'routed'", (2 * len(pairs),))
        connection.commit()
    return path


async def found(path: Path, wanted: DeliveryFilter, *, narrow_limit: int) -> tuple[list[Any], ...]:
    """Return what is listed, and what is read in both orders."""
    async with Database(path, read_only=True) as database:
        reports = SqliteReports(database, path, LivingWorkers(path, asks=True), narrow_limit=narrow_limit)
        listed = [one async for one in reports.deliveries(wanted)]
        read = [[one async for one in reports.iter_deliveries(wanted, by_job=by_job)] for by_job in (False, True)]
    return listed, *read


async def test_a_narrowed_filter_finds_what_reading_all_finds(mixed: Path) -> None:
    """All filters agree, whether few or many deliveries match."""
    among_few = [await found(mixed, wanted, narrow_limit=10_000) for wanted in EVERY]
    among_all = [await found(mixed, wanted, narrow_limit=0) for wanted in EVERY]

    assert among_few == among_all
    assert sum(0 < len(listed) < 50 for listed, *_ in among_all) > len(RARE) / 2


async def found_work(path: Path, wanted: WorkFilter, *, narrow_limit: int) -> list[Any]:
    """Return what is listed in pages of three, and how many items a plan counts."""
    async with Database(path, read_only=True) as database:
        reports = SqliteReports(database, path, LivingWorkers(path, asks=True), narrow_limit=narrow_limit)
        rows: list[Any] = [one async for one in reports.work_items(wanted)]
        assert rows == sorted(rows, key=lambda one: -one.id)
        middle = rows[len(rows) // 2].id if rows else 1
        older = [one async for one in reports.work_items(replace(wanted, limit=3), before=middle)]
        assert older == [one for one in rows if one.id < middle][:3]
        return [*rows, (await reports.work_plan(wanted)).count]


async def test_narrowed_work_is_what_reading_all_of_it_finds(mixed: Path) -> None:
    """Whether few items or many are in a state, and whichever index finds them."""
    states = [(), (WorkState.DEAD, WorkState.SKIPPED), (WorkState.WAITING, WorkState.HELD), tuple(WorkState)]
    filters = [
        *[WorkFilter(state=state, handler=handler) for state in WorkState for handler in (None, "on*", "none")],
        *[WorkFilter(among=among, handler=handler) for among in states for handler in (None, "two")],
        WorkFilter(state=WorkState.DEAD, job_id="j1"),
        WorkFilter(state=WorkState.HELD, type="a"),
    ]
    async with Database(mixed, read_only=True) as database:
        everything = [
            one
            async for one in SqliteReports(database, mixed, LivingWorkers(mixed, asks=True)).work_items(
                WorkFilter()
            )
        ]
    for wanted in filters:
        few, many = [await found_work(mixed, wanted, narrow_limit=limit) for limit in (10_000, 0)]
        expected = [
            one
            for one in everything
            if wanted.state in (None, one.state)
            and (not wanted.among or one.state in wanted.among)
            and (wanted.handler is None or one.handler == {"on*": "one", "two": "two"}.get(str(wanted.handler)))
            and wanted.job_id in (None, one.job_id)
        ]
        assert few == many == [*expected, len(expected)], wanted


async def listing(path: Path, wanted: DeliveryFilter) -> int:
    """Return how many steps it takes to list what is wanted."""
    steps = Steps()
    async with SqliteStore(f"sqlite:///{path}").reports() as reports:
        assert isinstance(reports, SqliteReports)
        await steps.watch_database(reports.database)
        assert len([one async for one in reports.deliveries(wanted)]) <= 1
    return steps.count


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Path]:
    """Stores of deliveries whose work is done, but for one that waits."""
    folder = tmp_path_factory.mktemp("done")

    def make(count: int) -> Path:
        path = folder / f"{count}.db"
        if not path.exists():
            fill(path, "behind done ones", count)
        return path

    return make


@pytest.mark.parametrize("wanted", RARE, ids=str)
async def test_a_listing_of_few_takes_no_more_steps_of_a_larger_store(
    done: Callable[[int], Path], wanted: DeliveryFilter
) -> None:
    """A filter for failed, dead, open or new deliveries needs few steps where none match."""
    some, many = [await listing(done(count), wanted) for count in (SOME, MANY)]

    assert many <= some * FACTOR


@pytest.mark.parametrize("state", [None, *JobState])
async def test_a_listing_of_long_jobs_takes_no_more_steps_of_a_larger_store(
    done: Callable[[int], Path], state: JobState | None
) -> None:
    """Behind the newest deliveries it goes from job to job, and not through the pages of each."""
    some, many = [await listing_jobs(done(count), JobFilter(state=state)) for count in (SOME, MANY)]

    assert many <= some * FACTOR


async def listing_jobs(path: Path, wanted: JobFilter) -> int:
    """Return how many steps it takes to find jobs, without the counts of each job."""
    steps = Steps()
    *statements, values = job_listing(READS, wanted)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        (last,) = connection.execute("SELECT max(seq) FROM deliveries").fetchone()
        for _ in range(last // BEHIND):
            JobRows().follow(connection, last)
        steps.watch(connection)
        for sql in statements:
            connection.execute(sql, values).fetchall()
    assert steps.count, "nothing was counted"
    return steps.count
