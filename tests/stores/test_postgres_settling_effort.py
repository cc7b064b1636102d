"""What settling costs: round trips for each batch, and rows found by their ids whatever the planner thinks."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from receiver.core.work_states import SKIPPABLE
from receiver.stores.postgres.connection import PostgresConnection, Translation
from receiver.stores.postgres.dialect import WRITES
from receiver.stores.postgres.store import PostgresStore
from tests.stores.conftest import open_all
from tests.stores.opened import SECOND, ended
from tests.stores.outside import PostgresTables

ROUND_TRIPS = ["BEGIN", "UPDATE", "INSERT", "INSERT", "COMMIT"]
"""The items, the latest moment, and the attempts."""


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The first words of all statements that are sent."""
    words: list[str] = []

    def noted(original: Callable[..., Any]) -> Callable[..., Any]:
        def send(self: PostgresConnection, sql: str, *values: Any) -> Any:
            words.append(sql.split(maxsplit=1)[0])
            return original(self, sql, *values)

        return send

    for name in ("execute", "command"):
        monkeypatch.setattr(PostgresConnection, name, noted(getattr(PostgresConnection, name)))
    return words


async def test_a_batch_takes_five_round_trips_and_its_counts_one_more_a_second(
    postgres_url: str, sent: list[str]
) -> None:
    """However many items it has. What the console draws of them is not written with each batch."""
    async with open_all(PostgresStore(postgres_url)) as opened:
        taken = []
        for at, count in enumerate((1, 3, 50, 2, 2, 2, 2, 2, 2, 2, 2, 2)):
            ids = await opened.items(count, claim=True)
            sent.clear()
            ends = [ended(work_id, at=SECOND + SECOND * at / 10, in_lane=False) for work_id in ids]
            assert all(await opened.settle(*ends))
            taken.append(list(sent))

    with_counts = [*ROUND_TRIPS[:-1], "INSERT", "COMMIT"]
    assert [at for at, one in enumerate(taken) if one == with_counts] == [0, 10]
    assert {tuple(one) for one in taken} == {tuple(ROUND_TRIPS), tuple(with_counts)}


async def test_batches_that_ended_alike_take_one_more_round_trip(postgres_url: str, sent: list[str]) -> None:
    """However many batches there are, and items in them."""
    async with open_all(PostgresStore(postgres_url)) as opened:
        (work_id,) = await opened.items(1, claim=True)
        await opened.settle(ended(work_id))  # what is counted is written once a second
        for batches in (1, 20):
            ids = await opened.items(3 * batches, claim=True)
            ends = [
                ended(ids[at], in_lane=False)._replace(also=tuple(ids[at + 1 : at + 3]))
                for at in range(0, len(ids), 3)
            ]
            sent.clear()
            assert await opened.settle(*ends) == [True] * len(ids)
            assert sent == ["BEGIN", "UPDATE", "INSERT", "INSERT", "INSERT", "COMMIT"]


async def test_attempts_that_others_ended_alike_with_are_found_by_the_primary_key(postgres_url: str) -> None:
    """Although the table is small when the plan is made. No plan joins all attempts with the items."""
    async with open_all(PostgresStore(postgres_url)) as opened:
        await opened.settle(*[ended(work_id) for work_id in await opened.items(200, claim=True)])
    tables = PostgresTables(postgres_url)
    statement = Translation(tables.schema)(WRITES.sql.also_ended)
    with tables.connect() as connection:
        connection.execute(b"SET enable_seqscan = off")
        connection.execute(b"ANALYZE")
        values = {"items": "[[1, 1, [1001, 1002]]]"}
        plan = [line for (line,) in connection.execute(b"EXPLAIN (COSTS OFF) " + statement.encode(), values)]
    (scan,) = [at for at, line in enumerate(plan) if "attempts_pkey" in line]
    assert "Index Cond" in plan[scan + 1], plan
    assert "work_id" in plan[scan + 1], plan
    assert "number" in plan[scan + 1], plan
    assert not any("Hash" in line or "Merge" in line for line in plan), plan


BY_ID = {
    "finish": WRITES.sql.finish,
    "holders": WRITES.sql.holders,
    "promote": WRITES.sql.promote,
    "started": WRITES.sql.mark_started,
    "renew": WRITES.sql.renew,
    "release": WRITES.sql.release_leases,
    "recheck": WRITES.sql.recheck,
    "release held": WRITES.sql.release,
    **{f"skip {state}": WRITES.sql.skip[state] for state in sorted(SKIPPABLE)},
}
VALUES = {"ids": [1, 2, 3], "id": 1, "worker": "w", "handler": "one", "note": ""}


async def test_rows_with_known_ids_are_found_by_the_primary_key(postgres_url: str) -> None:
    """A partial index has few rows when the plan is made, and later thousands that have left its state."""
    async with open_all(PostgresStore(postgres_url)) as opened:
        await opened.items(200, claim=True)
    translate, tables = Translation(PostgresTables(postgres_url).schema), PostgresTables(postgres_url)
    with tables.connect() as connection:
        connection.execute(b"SET enable_seqscan = off")
        for name, sql in BY_ID.items():
            values = dict.fromkeys(("number", "now", "until", "at", "limit"), 1) | VALUES
            rows = connection.execute(b"EXPLAIN (COSTS OFF) " + translate(sql).encode(), values).fetchall()
            plan = "\n".join(line for (line,) in rows)
            assert _indexes_by_id(plan) == {"work_items_pkey"}, (name, plan)


def _indexes_by_id(plan: str) -> set[str]:
    """Return the indexes that a plan asks for ids."""
    found, index = set(), ""
    for line in plan.splitlines():
        if scan := re.search(r"Index (?:Only )?Scan (?:using|on) (\w+)", line):
            index = scan[1]
        if "Index Cond: (id = " in line or "Index Cond: ((id = " in line:
            found.add(index)
    return found
