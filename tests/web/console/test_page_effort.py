"""A page takes no more steps of a store that holds four times as many deliveries.

The steps are instructions of SQLite's virtual machine (SQLite manual, `sqlite3_progress_handler`), so no clock and
no other process can change their number. `tests/stores/test_postgres_effort.py` counts the rows that PostgreSQL
reads for the same.
"""

from pathlib import Path

import pytest

from receiver.core.clock import SystemClock
from tests.web.console.full_store import HANDLER, RARE_HANDLER, CountedStore, fill, paths, steps_of

SOME, MANY = 10_000, 40_000
EXAMINED = 2_000
"""Rows that a list examines, so that both stores have more."""
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
        steps = [
            await steps_of(path, page, clock, examined=EXAMINED)
            for path, page in zip(stores, (some, many), strict=True)
        ]
        found[f"{number} {some}"] = steps

    assert {page: steps for page, steps in found.items() if steps[1] > steps[0] * 1.1 + ROOM} == {}
    assert sum(steps[0] for steps in found.values()) > 10_000, "nothing was counted"


FOUND_BY_NO_INDEX = [
    f"/deliveries?handler={RARE_HANDLER}",
    f"/deliveries?handler={RARE_HANDLER}&state=done&since=1999-01-01",
    "/deliveries?type=agent.*",
    "/deliveries?state=done&until=1999-01-01",
    f"/work-items?handler={RARE_HANDLER}",
    "/work-items?type=monitor.*",
    "/work-items?error=Value*",
    "/jobs?type=agent",
]
"""Filters that only old rows match, or none."""


async def test_a_list_examines_no_more_rows_than_its_bound(stores: tuple[Path, Path]) -> None:
    """What it looks for lies among the oldest rows, where no index leads."""
    clock = SystemClock()
    found = {
        page: [await steps_of(path, page, clock, examined=EXAMINED) for path in stores]
        for page in FOUND_BY_NO_INDEX
    }

    assert {page: steps for page, steps in found.items() if steps[1] > steps[0] * 1.3} == {}
    unbounded = [await steps_of(stores[0], page, clock, examined=SOME) for page in FOUND_BY_NO_INDEX]
    assert all(steps > 3 * found[page][0] for page, steps in zip(found, unbounded, strict=True))


async def test_a_page_that_counts_all_work_would_show(stores: tuple[Path, Path]) -> None:
    """What `receiver handlers list` reads grows with the store."""
    steps = []
    for path in stores:
        store = CountedStore(path)
        async with store.reports() as reports:
            assert HANDLER in {one.name for one in await reports.handlers()}
        steps.append(store.steps.count)

    assert steps[1] > steps[0] * 1.1 + ROOM
