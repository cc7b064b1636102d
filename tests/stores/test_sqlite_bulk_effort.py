"""Stored deliveries cost nothing: a page, a step of pruning and an import take as many steps beside many of them.

Counted as in `test_sqlite_effort`.
"""

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from receiver.core.activity import PruneRule
from receiver.core.bulk import Imported
from receiver.core.deliveries import DeliveryFilter
from receiver.stores.sql.connection import SqlDatabase
from receiver.stores.sql.listings import start_reading
from receiver.stores.sqlite import bodies
from receiver.stores.sqlite.controls import SqliteControls
from receiver.stores.sqlite.dialect import READS
from receiver.stores.sqlite.maintenance import SqliteMaintenance
from receiver.stores.sqlite.store import SqliteStore
from tests.doubles import NOON, delivery
from tests.stores.rows import execute
from tests.stores.test_sqlite_effort import FACTOR, fill

SOME, MANY = 12_000, 36_000
"""More than a page or a step examines."""
DONE = "behind done ones"
"""The first is waiting."""
LATER = NOON + timedelta(days=1)


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A database with some deliveries of one job, and one with three times as many."""
    folder = tmp_path_factory.mktemp("stores")
    some, many = folder / "some.db", folder / "many.db"
    fill(some, DONE, SOME)
    fill(many, DONE, MANY)
    for path in (some, many):
        execute(path, "INSERT INTO handlers (name) VALUES ('none')")  # others match nothing without a look
    return some, many


class Steps:
    """Counts the steps of connections."""

    def __init__(self) -> None:
        self.count = 0

    def add(self) -> int:
        """Count ten steps; 0 lets SQLite go on."""
        self.count += 10
        return 0

    def watch(self, connection: sqlite3.Connection) -> None:
        """Count the steps of this connection from now on."""
        connection.set_progress_handler(self.add, 10)

    async def watch_database(self, database: SqlDatabase) -> None:
        """Count the steps of this one."""
        await database.call(self.watch)


def longest_page(path: Path, wanted: DeliveryFilter, *, by_job: bool) -> int:
    """Return the steps of the page that takes most of them, out of all pages of a reading."""
    longest = 0
    with closing(sqlite3.connect(path)) as connection:
        bodies.add_functions(connection, path)
        left = start_reading(connection, READS, wanted, None, by_job)
        while left is not None:
            steps = Steps()
            steps.watch(connection)
            _, left = left.page(connection)
            longest = max(longest, steps.count)
    assert longest > 1_000, "nothing was counted"
    return longest


@pytest.mark.parametrize("by_job", [False, True])
@pytest.mark.parametrize("wanted", [DeliveryFilter(), DeliveryFilter(type="none"), DeliveryFilter(handler="none")])
def test_a_page_takes_no_more_steps_of_a_larger_store(
    stores: tuple[Path, Path], wanted: DeliveryFilter, by_job: bool
) -> None:
    """If nothing matches, it examines its share and leaves the others to the next page."""
    some, many = (longest_page(path, wanted, by_job=by_job) for path in stores)

    assert many <= some * FACTOR


async def pruning(path: Path, tmp_path: Path, rule: PruneRule) -> int:
    """Return how many steps one step of pruning takes on a copy."""
    steps = Steps()
    async with SqliteStore(f"sqlite:///{copied(path, tmp_path)}").maintenance() as maintenance:
        assert isinstance(maintenance, SqliteMaintenance)
        await steps.watch_database(maintenance.database)
        await maintenance.prune(rule, after=0, limit=100, now=LATER)
    return steps.count


@pytest.mark.parametrize(
    "rule", [PruneRule(LATER), PruneRule(LATER, bodies=True), PruneRule(LATER, type="none"), PruneRule(NOON)]
)
async def test_a_step_of_pruning_takes_no_more_steps_of_a_larger_store(
    stores: tuple[Path, Path], tmp_path: Path, rule: PruneRule
) -> None:
    """That holds whether it removes something or finds nothing."""
    some, many = [await pruning(path, tmp_path, rule) for path in stores]

    assert some > 1_000
    assert many <= some * FACTOR


async def importing(path: Path, tmp_path: Path, key: Callable[[int], str]) -> int:
    """Return how many steps it takes to import a hundred deliveries into a copy after another one."""
    steps = Steps()
    async with SqliteStore(f"sqlite:///{copied(path, tmp_path)}").controls() as controls:
        assert isinstance(controls, SqliteControls)
        await controls.import_deliveries([Imported(delivery("first"))])
        await steps.watch_database(controls.database)
        await controls.import_deliveries([Imported(delivery(key(number))) for number in range(1, 101)])
    return steps.count


@pytest.mark.parametrize("key", ["new{}", "k{}"])
async def test_an_import_takes_no_more_steps_into_a_larger_store(
    stores: tuple[Path, Path], tmp_path: Path, key: str
) -> None:
    """Its keys are stored already or not."""
    some, many = [await importing(path, tmp_path, key.format) for path in stores]

    assert some > 1_000
    assert many <= some * FACTOR


def copied(path: Path, folder: Path) -> Path:
    """Return a copy to be changed."""
    return Path(shutil.copy(path, folder / path.name))
