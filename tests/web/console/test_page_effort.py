"""A page takes no more steps of a store that holds four times as many deliveries.

The steps are instructions of SQLite's virtual machine (SQLite manual, `sqlite3_progress_handler`), so no clock and
no other process can change their number. `tests/stores/test_postgres_effort.py` counts the rows that PostgreSQL
reads for the same.
"""

from pathlib import Path

import pytest

from receiver.core.clock import SystemClock
from tests.web.console.full_store import HANDLER, CountedStore, fill, paths, steps_of

SOME, MANY = 10_000, 40_000
RARE = 60
"""Work items that are dead, deliveries of checks, and so on: as many in both stores."""
ROOM = 1_000 + SOME // 10
"""For trees that have grown higher, and for minutes: the larger store has deliveries of more of them. A page that
looks at each delivery takes many times as many steps more."""


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The smaller store and the larger one."""
    folder = tmp_path_factory.mktemp("stores")
    made = folder / "some.db", folder / "many.db"
    for path, deliveries in zip(made, (SOME, MANY), strict=True):
        fill(path, deliveries, rare=RARE)
    return made


async def test_no_page_takes_more_steps_of_a_larger_store(stores: tuple[Path, Path]) -> None:
    """That is its first visit after the start, the overview among them: it counts no work that is done."""
    clock = SystemClock()
    found = {}
    for number, (some, many) in enumerate(zip(*map(paths, stores), strict=True)):
        steps = [await steps_of(path, page, clock) for path, page in zip(stores, (some, many), strict=True)]
        found[f"{number} {some}"] = steps

    assert {page: steps for page, steps in found.items() if steps[1] > steps[0] * 1.1 + ROOM} == {}
    assert sum(steps[0] for steps in found.values()) > 10_000, "nothing was counted"


async def test_a_page_that_counts_all_work_would_show(stores: tuple[Path, Path]) -> None:
    """What `receiver handlers list` reads grows with the store."""
    steps = []
    for path in stores:
        store = CountedStore(path)
        async with store.reports() as reports:
            [one] = await reports.handlers()
            assert one.name == HANDLER
        steps.append(store.steps.count)

    assert steps[1] > steps[0] * 1.1 + ROOM
