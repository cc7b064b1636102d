"""The ids of work items in SQLite, which travel as names in JSON."""

import sqlite3
from contextlib import closing
from pathlib import Path

from receiver.stores.sqlite.store import SqliteStore
from tests.stores.conftest import open_all
from tests.stores.opened import DONE, ended

BEYOND_FLOATS = 2**53 + 1
"""The first integer that no double can be."""


async def test_ids_that_are_no_doubles_stay_exact(sqlite_store: SqliteStore, made: Path) -> None:
    """With and without a lane, from routing to the record of an attempt."""
    with closing(sqlite3.connect(made)) as connection, connection:
        connection.execute("INSERT INTO sqlite_sequence (name, seq) VALUES ('work_items', ?)", (BEYOND_FLOATS - 1,))
    async with open_all(sqlite_store) as opened:
        ids = [*await opened.items(3, claim=True), *await opened.items(1, claim=True, lane="l")]
        assert ids == list(range(BEYOND_FLOATS, BEYOND_FLOATS + 4))

        assert await opened.settle(ended(ids[0])._replace(also=tuple(ids[1:3])), ended(ids[3])) == [True] * 4

        assert await opened.states(*ids) == [DONE] * 4
        assert [len(await opened.history(work_id)) for work_id in ids] == [1] * 4
