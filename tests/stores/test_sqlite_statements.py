"""Every statement that runs beside a large store finds its rows by an index."""

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from receiver.stores.sqlite import statements

LISTING = statements.LIST.format
STATEMENTS = {
    name: value
    for name, value in vars(statements).items()
    if isinstance(value, str) and re.match(r"\s*(SELECT|INSERT|UPDATE|DELETE)", value) and name != "LIST"
} | {
    "LIST of all": LISTING(conditions="", state=""),
    "LIST of a job": LISTING(conditions="AND d.job_id = :job_id", state=""),
    "LIST of a state": LISTING(conditions="", state="WHERE state = :state"),
    "insert_deliveries": statements.insert_deliveries(2),
    "insert_bodies": statements.insert_bodies(2),
}
TABLES = ("deliveries", "bodies", "work_items", "attempts", "quarantine", "d", "b", "w")
MOST = 20_000


@pytest.fixture
def connection(made: Path) -> Iterator[sqlite3.Connection]:
    """A connection to an empty database."""
    with closing(sqlite3.connect(made, isolation_level=None)) as connection:
        yield connection


def arguments(sql: str) -> dict[str, object] | list[object]:
    """Return values for every place in a statement; which ones does not matter to its plan."""
    names = set(re.findall(r":(\w+)", sql))
    return dict.fromkeys(names, 1) if names else [1] * sql.count("?")


@pytest.mark.parametrize("name", sorted(STATEMENTS))
def test_no_statement_scans_a_table(connection: sqlite3.Connection, name: str) -> None:
    """Its plan searches in what grows with the store, and never goes through all of it."""
    sql = STATEMENTS[name]

    plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {sql}", arguments(sql))]

    # The partial index holds only what is open, and `d` is a subquery in the plan of UNROUTED.
    scans = [step for step in plan if re.match(rf"SCAN ({'|'.join(TABLES)})\b", step) and "work_open" not in step]
    assert [step for step in scans if (name, step) != ("UNROUTED", "SCAN d")] == []


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("DUE", "SEARCH w USING INDEX work_open (handler=? AND due_at<?)"),
        ("DUE_LOST", "SEARCH w USING INDEX work_lost (handler=? AND due_at<?)"),
        ("NEXT_DUE", "SEARCH work_items USING INDEX work_open (handler=?)"),
        ("NEXT_DUE_LOST", "SEARCH work_items USING INDEX work_lost (handler=?)"),
        ("UNROUTED", "SEARCH deliveries USING INTEGER PRIMARY KEY (rowid>?)"),
        ("KEYS_FROM", "SEARCH deliveries USING COVERING INDEX sqlite_autoindex_deliveries_1 (key>? AND key<?)"),
        ("COUNT_DUPLICATE", "SEARCH deliveries USING INDEX sqlite_autoindex_deliveries_1 (key=?)"),
        ("TAKE_OVER", "SCAN work_items USING INDEX work_open"),
        ("WORK_OF", "SEARCH work_items USING INDEX work_by_delivery (delivery_seq=?)"),
        ("LIST of a job", "SEARCH d USING INDEX deliveries_by_job (job_id=? AND seq<?)"),
        ("LIST of all", "SEARCH d USING INTEGER PRIMARY KEY (rowid<?)"),
    ],
)
def test_a_statement_uses_the_index_made_for_it(connection: sqlite3.Connection, name: str, step: str) -> None:
    """Spelled as in the partial index, or SQLite would not use that."""
    sql = STATEMENTS[name]

    plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {sql}", arguments(sql))]

    assert step in plan


@pytest.mark.parametrize("name", ["DUE", "NEXT_DUE", "DUE_LOST", "NEXT_DUE_LOST"])
def test_no_due_query_sorts(connection: sqlite3.Connection, name: str) -> None:
    """The index has the order already, so that a limit ends the search."""
    sql = STATEMENTS[name]

    plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {sql}", arguments(sql))]

    assert not any("TEMP B-TREE" in step for step in plan)


def effort(connection: sqlite3.Connection, sql: str, values: object) -> int:
    """Return how many thousand steps SQLite's machine takes for a statement."""
    steps = 0

    def count() -> int:
        nonlocal steps
        steps += 1
        return 0

    connection.set_progress_handler(count, 1_000)
    try:
        connection.execute(sql, values).fetchall()  # type: ignore[arg-type]
    finally:
        connection.set_progress_handler(None, 0)
    return steps


def fill(connection: sqlite3.Connection, state: str) -> None:
    """Put many work items of one handler into the store, all of them due."""
    connection.execute(
        "INSERT INTO deliveries (seq, key, type, received_at, size) "
        "SELECT value, 'k' || value, 'crawl.page', 0, 1 FROM (WITH RECURSIVE n(value) AS "
        f"(SELECT 1 UNION ALL SELECT value + 1 FROM n WHERE value < {MOST}) SELECT value FROM n)"
    )
    connection.execute(
        "INSERT INTO work_items (delivery_seq, handler, state, attempts, trigger, due_at) "
        "SELECT seq, 'h', ?, 1, 'delivery', seq FROM deliveries",
        (state,),
    )
    connection.execute("UPDATE marks SET value = ? WHERE name = 'routed'", (MOST,))


def test_unfinished_costs_nothing_for_what_is_finished(connection: sqlite3.Connection) -> None:
    """`demo` and health ask for it again and again beside a store of millions."""
    fill(connection, "done")

    assert effort(connection, statements.UNFINISHED, ()) <= 1


@pytest.mark.parametrize(
    ("statement", "lost"),
    [
        (statements.NEXT_DUE, (0, 1)),
        (statements.NEXT_DUE, (0, 2**31)),
        (statements.NEXT_DUE_LOST, (2, 2**31)),
    ],
    ids=["trusted", "any", "suspected"],
)
def test_the_next_due_time_is_found_at_once_in_a_long_backlog(
    connection: sqlite3.Connection, statement: str, lost: tuple[int, int]
) -> None:
    """The worker asks every second, also when a handler has been failing for days."""
    fill(connection, "waiting")

    assert effort(connection, statement, ("h", *lost)) <= 1


@pytest.mark.parametrize(
    ("statement", "lost"),
    [(statements.DUE, (0, 1)), (statements.DUE_LOST, (2, 2**31))],
    ids=["trusted", "suspected"],
)
def test_a_claim_is_found_at_once_in_a_long_backlog(
    connection: sqlite3.Connection, statement: str, lost: tuple[int, int]
) -> None:
    """Of many that are due, only as many are looked at as are wanted."""
    fill(connection, "waiting")
    values = {"handler": "h", "now": MOST, "limit": 10, "least_lost": lost[0], "most_lost": lost[1]}

    assert effort(connection, statement, values) <= 1


def test_unrouted_deliveries_are_found_at_once_in_a_large_store(connection: sqlite3.Connection) -> None:
    """What has been routed costs nothing."""
    fill(connection, "done")

    assert effort(connection, statements.UNROUTED, {"after": MOST - 5, "limit": 100, "max_bytes": 10**9}) <= 1
