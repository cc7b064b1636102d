"""Every statement that runs beside a large store finds its rows by an index."""

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from receiver.core.jobs import JobFilter, JobState
from receiver.core.types import WorkState
from receiver.stores.sqlite import feed as arrivals
from receiver.stores.sqlite import jobs, report_statements, search, statements
from tests.stores.rows import MOMENTS, moments

LISTING, WORK_LISTING = report_statements.LIST.format, report_statements.LIST_WORK.format
MODULES = (statements, report_statements, arrivals, jobs, search)
STATEMENTS = {
    name: value
    for name, value in [item for module in MODULES for item in vars(module).items()]
    if isinstance(value, str)
    and re.match(r"\s*(SELECT|INSERT|UPDATE|DELETE)", value)
    and not name.startswith("_")
    and not re.search(r"\{\w+\}", value)
} | {
    "LIST of all": LISTING(conditions="", state=""),
    "LIST of a job": LISTING(conditions="AND d.job_id = :job_id", state=""),
    "LIST of a state": LISTING(conditions="", state="WHERE state = :state"),
    "LIST_WORK of all": WORK_LISTING(conditions=""),
    "LIST_WORK of a job": WORK_LISTING(conditions="AND d.job_id = :job_id"),
    "LIST_WORK of a state": WORK_LISTING(conditions="AND w.state = :state"),
    "LIST_WORK of a handler": WORK_LISTING(conditions="AND w.handler GLOB :handler"),
    "LIST_WORK of a time": WORK_LISTING(conditions="AND d.received_at >= :since AND d.received_at < :until"),
    "ARRIVED": arrivals.ARRIVED.format(conditions=""),
    "LAST_OF_JOBS": jobs.job_listing(JobFilter())[0],
    "LAST_OF_JOBS open": jobs.job_listing(JobFilter(state=JobState.OPEN))[0],
    "LAST_OF_JOBS of a type": jobs.job_listing(JobFilter(type="crawl"))[0],
    "OLDER_JOBS": jobs.job_listing(JobFilter())[1],
    "OLDER_JOBS open": jobs.job_listing(JobFilter(state=JobState.OPEN))[1],
    "insert_deliveries": statements.insert_deliveries(2),
    "insert_bodies": statements.insert_bodies(2),
    **{f"skip {state}": statements.skip(state) for state in ("queued", "waiting", "held")},
}
TABLES = ("deliveries", "bodies", "work_items", "attempts", "quarantine", "once_keys", *"dbwqhne", "latest")
OF_WHAT_IS_OPEN = (
    r"USING (COVERING )?INDEX (work_waiting|work_suspects|work_held|work_running|lane_queue|work_failed"
    r"|attempts_lost)\b"
)
"""The partial indexes hold only what is open, failed or lost: going through one of them is no scan of the store."""
FOR_PEOPLE = ("COUNTS", "LATEST_ATTEMPTS", "ONCE_KEYS_BEFORE")
"""What `handlers list` and maintenance ask now and then: they scan everything, and an index would cost more."""
MOST = 20_000


@pytest.fixture
def connection(made: Path) -> Iterator[sqlite3.Connection]:
    """A connection to an empty database, which has an index of words."""
    with closing(sqlite3.connect(made, isolation_level=None)) as connection:
        connection.execute(search.CREATE)
        yield connection


def arguments(sql: str) -> dict[str, object] | list[object]:
    """Return values for every place in a statement; which ones does not matter to its plan."""
    names = set(re.findall(r":(\w+)", sql))
    return dict.fromkeys(names, 1) if names else [1] * sql.count("?")


def plan_of(connection: sqlite3.Connection, name: str) -> list[str]:
    """Return the steps of a statement's plan."""
    sql = STATEMENTS[name]
    return [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {sql}", arguments(sql))]


@pytest.mark.parametrize("name", sorted(STATEMENTS))
def test_no_statement_scans_a_table(connection: sqlite3.Connection, name: str) -> None:
    """Its plan searches in what grows with the store, and never goes through all of it."""
    scans = [step for step in plan_of(connection, name) if re.match(rf"SCAN ({'|'.join(TABLES)})\b", step)]
    found = [step for step in scans if not re.search(OF_WHAT_IS_OPEN, step)]

    assert bool(found) is (name in FOR_PEOPLE), found


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("DUE", "SEARCH w USING INDEX work_waiting (handler=? AND due_at<?)"),
        ("DUE_SUSPECTS", "SEARCH w USING INDEX work_suspects (handler=? AND due_at<?)"),
        ("SUSPECT_DUE", "SEARCH work_items USING INDEX work_suspects (handler=? AND due_at<?)"),
        ("LEASES_ENDED", "SEARCH work_items USING INDEX work_running (lease_until<?)"),
        ("JOB_END", "SEARCH deliveries USING INDEX job_ends (job_id=?)"),
        ("LAST_OF_JOBS", "SEARCH n USING COVERING INDEX deliveries_by_job (job_id=? AND seq>?)"),
        ("LAST_OF_JOBS open", "SEARCH e USING INDEX job_ends (job_id=?)"),
        ("OLDER_JOBS", "SEARCH n USING COVERING INDEX deliveries_by_job (job_id>?)"),
        ("OLDER_JOBS", "SEARCH latest USING COVERING INDEX deliveries_by_job (job_id=?)"),
        ("ARRIVED", "SEARCH d USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"),
        ("NEXT_LEASE_END", "SEARCH work_items USING INDEX work_running"),
        ("RUNNING", "SCAN work_items USING INDEX work_running"),
        ("NEXT_DUE", "SEARCH work_items USING INDEX work_waiting (handler=?)"),
        ("NEXT_DUE", "SEARCH work_items USING INDEX work_held (handler=?)"),
        ("HELD", "SEARCH w USING INDEX work_held (handler=? AND recheck_at<?)"),
        ("LANE_HEADS", "SEARCH w USING INDEX lane_heads (handler=? AND lane=?)"),
        ("PROMOTE", "SEARCH h USING INDEX lane_heads (handler=? AND lane=?)"),
        ("PROMOTE", "SEARCH q USING INDEX lane_queue (handler=? AND lane=?)"),
        ("SKIPPABLE", "SEARCH work_items USING INDEX work_waiting (handler=?)"),
        ("SKIPPABLE", "SEARCH work_items USING INDEX lane_queue (handler=?)"),
        ("SKIPPABLE", "SEARCH work_items USING INDEX work_held (handler=?)"),
        ("skip queued", "SEARCH work_items USING INDEX lane_queue (handler=?)"),
        ("skip waiting", "SEARCH work_items USING INDEX work_waiting (handler=?)"),
        ("skip held", "SEARCH work_items USING INDEX work_held (handler=?)"),
        ("EXPIRE_LEASES", "SCAN work_items USING INDEX work_running"),
        ("UNROUTED", "SEARCH d USING INTEGER PRIMARY KEY (rowid>?)"),
        ("LAST_PAGE", "SEARCH deliveries USING INDEX deliveries_by_job (job_id=?)"),
        ("UNROUTED_PAGE", "SEARCH deliveries USING INDEX deliveries_by_job (job_id=? AND seq>?)"),
        ("OPEN_PAGE", "SEARCH d USING INDEX deliveries_by_job (job_id=?)"),
        ("OPEN_PAGE", "SEARCH w USING INDEX work_by_delivery (delivery_seq=? AND state=?)"),
        ("KEYS_FROM", "SEARCH deliveries USING COVERING INDEX sqlite_autoindex_deliveries_1 (key>? AND key<?)"),
        ("COUNT_DUPLICATE", "SEARCH deliveries USING INDEX sqlite_autoindex_deliveries_1 (key=?)"),
        ("WORK_OF", "SEARCH w USING INDEX work_by_delivery (delivery_seq=?)"),
        ("LIST of a job", "SEARCH d USING INDEX deliveries_by_job (job_id=? AND seq<?)"),
        ("LIST of all", "SEARCH d USING INTEGER PRIMARY KEY (rowid<?)"),
        ("LIST_WORK of a job", "SEARCH d USING INDEX deliveries_by_job (job_id=?)"),
        ("LIST_WORK of a state", "SEARCH w USING INTEGER PRIMARY KEY (rowid<?)"),
    ],
)
def test_a_statement_uses_the_index_made_for_it(connection: sqlite3.Connection, name: str, step: str) -> None:
    """Spelled as in the partial index, or SQLite would not use that."""
    assert step in plan_of(connection, name)


@pytest.mark.parametrize("name", ["DUE", "DUE_SUSPECTS", "NEXT_DUE", "HELD", "LIST_WORK of all", "OPEN_PAGE"])
def test_what_is_cut_off_is_not_sorted(connection: sqlite3.Connection, name: str) -> None:
    """The index has the order already, so that a limit ends the search."""
    assert [step for step in plan_of(connection, name) if "TEMP B-TREE FOR ORDER" in step] == []


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
        f"INSERT INTO work_items (delivery_seq, handler, state, attempts, trigger, {MOMENTS}) "
        f"SELECT seq, 'h', ?1, 1, 'delivery', {moments('?1', 'seq')} FROM deliveries",
        (state,),
    )
    connection.execute("UPDATE marks SET value = ? WHERE name = 'routed'", (MOST,))


@pytest.mark.parametrize(
    "statement", [report_statements.UNFINISHED, report_statements.BACKLOG, report_statements.WAITING]
)
def test_what_is_finished_costs_nothing(connection: sqlite3.Connection, statement: str) -> None:
    """`demo`, health and metrics ask for what is open again and again beside a store of millions."""
    fill(connection, "done")

    assert effort(connection, statement, ()) <= 1


def test_unrouted_deliveries_are_found_at_once_in_a_large_store(connection: sqlite3.Connection) -> None:
    """What has been routed costs nothing."""
    fill(connection, "done")

    assert effort(connection, statements.UNROUTED, {"after": MOST - 5, "limit": 100}) <= 1


def test_a_lane_with_two_heads_cannot_be_written(connection: sqlite3.Connection) -> None:
    """Whatever mistake a statement or a race may have: the database itself refuses it."""
    insert = (
        "INSERT INTO work_items (delivery_seq, handler, state, attempts, trigger, due_at, lane, heads_lane) "
        "VALUES (1, ?, 'waiting', 0, 'delivery', 0, ?, ?)"
    )
    connection.execute(insert, ("h", "l", 1))

    with pytest.raises(sqlite3.IntegrityError, match="UNIQUE"):
        connection.execute(insert, ("h", "l", 1))
    for row in (("h", "l", 0), ("h", "other", 1), ("other", "l", 1), ("h", None, 0)):
        connection.execute(insert, row)
    with pytest.raises(sqlite3.IntegrityError, match="UNIQUE"):
        connection.execute("UPDATE work_items SET heads_lane = 1 WHERE handler = 'h' AND lane = 'l'")


@pytest.mark.parametrize("state", WorkState)
@pytest.mark.parametrize("moment", MOMENTS.split(", "))
def test_a_moment_can_be_written_with_its_own_state_only(
    connection: sqlite3.Connection, state: WorkState, moment: str
) -> None:
    """And a state that needs it cannot be written without it."""
    own = {"waiting": "due_at", "running": "lease_until", "held": "recheck_at"}.get(state)
    insert = (
        "INSERT INTO work_items (delivery_seq, handler, state, attempts, trigger, {}) VALUES (1, 'h', ?, 0, '', ?)"
    )
    if own == moment:
        connection.execute(insert.format(moment), (state, 1))
        with pytest.raises(sqlite3.IntegrityError, match="CHECK"):
            connection.execute(insert.format(moment), (state, None))
    else:
        with pytest.raises(sqlite3.IntegrityError, match="CHECK"):
            connection.execute(insert.format(moment), (state, 1))


@pytest.mark.parametrize("state", ["", "WAITING", "unknown"])
def test_an_unknown_state_cannot_be_written(connection: sqlite3.Connection, state: str) -> None:
    """An item in one would never be found again."""
    with pytest.raises(sqlite3.IntegrityError, match="CHECK"):
        connection.execute(
            "INSERT INTO work_items (delivery_seq, handler, state, attempts, trigger) "
            "VALUES (1, 'h', ?, 0, 'delivery')",
            (state,),
        )
