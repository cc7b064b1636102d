"""Every statement that runs beside a large store finds its rows by an index."""

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from receiver.core.jobs import JobFilter, JobState
from receiver.core.types import WorkState
from receiver.stores.sql.jobs import job_listing
from receiver.stores.sql.statements import columns
from receiver.stores.sql.statements import log as shared
from receiver.stores.sqlite import bodies, dialect, statements
from receiver.stores.sqlite.delivery_keys import add_functions
from receiver.stores.sqlite.dialect import READS, WRITES
from tests.stores.rows import MOMENTS, moments

MODULES = (columns, shared, statements, statements, dialect)
GROUPS = (READS.deliveries, READS.jobs, READS.work, READS.health, READS.quarantine)


def every_name() -> Iterator[tuple[str, object]]:
    """Yield every statement that is a text, by its name."""
    for module in MODULES:
        yield from vars(module).items()
    for name in dir(WRITES.sql):
        value = getattr(WRITES.sql, name)
        yield name, value
        if isinstance(value, tuple):
            yield from ((f"{name} {at}", one) for at, one in enumerate(value))
    yield from vars(statements.JOB_ROWS).items()
    for group in GROUPS:
        for name in dir(group):
            yield f"{type(group).__name__.removesuffix('Statements').lower()}.{name}", getattr(group, name)


LISTING, WORK_LISTING = READS.deliveries.listing.format, READS.work.listing.format
STATEMENTS = {
    name: value
    for name, value in every_name()
    if isinstance(value, str)
    and re.match(r"\s*(SELECT|INSERT|UPDATE|DELETE)", value)
    and not name.startswith("_")
    and not re.search(r"\{\w+\}", value)
} | {
    "a listing of all": LISTING(conditions="", state=""),
    "a listing of a job": LISTING(conditions="AND d.job_id = :job_id", state=""),
    "a listing of a state": LISTING(conditions="", state="WHERE state = :state"),
    "work of all": WORK_LISTING(index="", conditions=""),
    "work of a job": WORK_LISTING(index="", conditions="AND d.job_id = :job_id"),
    "work of a state": WORK_LISTING(index="", conditions="AND w.state = :state"),
    "work of a handler": WORK_LISTING(index="", conditions="AND w.handler GLOB :handler"),
    "work of a time": WORK_LISTING(index="", conditions="AND d.received_at >= :since AND d.received_at < :until"),
    "work that is dead": WORK_LISTING(index="INDEXED BY work_dead", conditions="AND w.state = 'dead'"),
    "work that is skipped": WORK_LISTING(index="INDEXED BY work_skipped", conditions="AND w.state = 'skipped'"),
    "the feed": READS.deliveries.feed.format(conditions=""),
    "recent jobs": job_listing(READS, JobFilter())[0],
    "recent open jobs": job_listing(READS, JobFilter(state=JobState.OPEN))[0],
    "recent jobs of a type": job_listing(READS, JobFilter(type="crawl"))[0],
    "older jobs": job_listing(READS, JobFilter())[1],
    "older open jobs": job_listing(READS, JobFilter(state=JobState.OPEN))[1],
    "insert_deliveries": statements.insert_deliveries(2),
    "insert_bodies": statements.insert_bodies(2),
    "find": statements.find(2),
    "move": statements.move(2),
    "move unremoved": statements.move_unremoved(2),
    **{f"skip {state}": one for state, one in WRITES.sql.skip.items()},
}
GROWING = ("deliveries", "bodies", "work_items", "attempts", "quarantine", "once_keys", "delivery_keys")
TABLES = (*GROWING, *"dbwqhneik", "latest")
OF_WHAT_IS_OPEN = (
    r"USING (COVERING )?INDEX (work_waiting|work_suspects|work_held|work_running|lane_queue|work_failed"
    r"|attempts_lost|work_dead|work_skipped|monitor_checks|bodies_beside)\b"
)
"""They hold only what is open, has ended badly or is rare: to go through one is no scan of the store."""
RARE = (
    *("health.counts", "health.latest_attempts", "once_keys_before", "WHOLE"),
    *("CONTENTS", "NEWER", "ADD_KEYS", "move_back 3"),
)
"""What `handlers list`, maintenance, backups and copies ask now and then, and what is done when the clock was set
back: they scan everything; an index would cost more."""
MOST = 20_000


@pytest.fixture
def connection(made: Path) -> Iterator[sqlite3.Connection]:
    """A connection to an empty database, which has an index of words."""
    with closing(sqlite3.connect(made, isolation_level=None)) as connection:
        add_functions(connection)
        bodies.add_functions(connection, made)
        connection.execute(statements.CREATE_WORDS)
        yield connection


def arguments(sql: str) -> dict[str, object] | list[object]:
    """Return values for every place in a statement; which ones does not matter to its plan."""
    names = set(re.findall(r":(\w+)", sql))
    return dict.fromkeys(names, 1) if names else [1] * sql.count("?")


def plan_of(connection: sqlite3.Connection, name: str) -> list[str]:
    """Return the steps of a statement's plan."""
    sql = STATEMENTS[name]
    return [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {sql}", arguments(sql))]


def test_no_statement_scans_a_table(connection: sqlite3.Connection) -> None:
    """Plans search the tables that grow with the store, and never read all of them."""
    found = {}
    for name in STATEMENTS:
        scans = [step for step in plan_of(connection, name) if re.match(rf"SCAN ({'|'.join(TABLES)})\b", step)]
        found[name] = [step for step in scans if not re.search(OF_WHAT_IS_OPEN, step)]

    assert {name: steps for name, steps in found.items() if steps}.keys() == set(RARE)


KEYS = "PRIMARY KEY"

STEPS = [
    ("due", "SEARCH w USING INDEX work_waiting (handler=? AND due_at<?)"),
    ("due_suspects", "SEARCH w USING INDEX work_suspects (handler=? AND due_at<?)"),
    ("suspect_due", "SEARCH work_items USING INDEX work_suspects (handler=? AND due_at<?)"),
    ("look", "SEARCH work_items USING INDEX work_running (lease_until<?)"),
    ("take_leases_ended", "SEARCH work_items USING INDEX work_running (lease_until<?)"),
    ("also_ended", "SEARCH a USING PRIMARY KEY (work_id=? AND number=?)"),
    ("job.job_end", "SEARCH deliveries USING INDEX job_ends (job_id=?)"),
    ("recent jobs", "SEARCH n USING COVERING INDEX deliveries_by_job (job_id=? AND seq>?)"),
    ("recent open jobs", "SEARCH e USING INDEX job_ends (job_id=?)"),
    ("recent jobs", "SEARCH d USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"),
    ("older jobs", "SEARCH j USING INTEGER PRIMARY KEY (rowid<?)"),
    ("work that is dead", "SEARCH w USING INDEX work_dead (id<?)"),
    ("work that is skipped", "SEARCH w USING INDEX work_skipped (id<?)"),
    ("health.latest_error", "SEARCH work_items USING INDEX work_failed (handler=?)"),
    ("older jobs", "SEARCH d USING INTEGER PRIMARY KEY (rowid=?)"),
    ("older jobs", "SEARCH n USING COVERING INDEX deliveries_by_job (job_id=? AND seq>?)"),
    ("remove_of_next", "SEARCH deliveries USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"),
    ("remove_of_next", "SEARCH d USING COVERING INDEX deliveries_by_job (job_id=? AND seq<?)"),
    ("remove_of_next", "SEARCH jobs USING INTEGER PRIMARY KEY (rowid=?)"),
    ("add_next", "SEARCH f USING INDEX deliveries_by_job (job_id=? AND seq>?)"),
    ("add_next", "SEARCH e USING INDEX job_ends (job_id=? AND seq>?)"),
    ("remove_of_pruned", "SEARCH d USING COVERING INDEX deliveries_by_job (job_id=? AND seq<?)"),
    ("add_without_pruned", "SEARCH d USING COVERING INDEX deliveries_by_job (job_id=? AND seq<?)"),
    ("the feed", "SEARCH d USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"),
    ("next_lease_end", "SEARCH work_items USING INDEX work_running"),
    ("running", "SCAN work_items USING INDEX work_running"),
    ("next_due", "SEARCH work_items USING INDEX work_waiting (handler=?)"),
    ("next_due", "SEARCH work_items USING INDEX work_held (handler=?)"),
    ("held", "SEARCH w USING INDEX work_held (handler=? AND recheck_at<?)"),
    ("lane_heads", "SEARCH w USING INDEX lane_heads (handler=? AND lane=?)"),
    ("queued_behind", "SEARCH q USING INDEX lane_queue (handler=? AND lane=?)"),
    ("finish_followers", "SEARCH work_items USING INTEGER PRIMARY KEY (rowid=?)"),
    ("follow", "SEARCH work_items USING INTEGER PRIMARY KEY (rowid=?)"),
    ("followers_left", "SEARCH work_items USING INTEGER PRIMARY KEY (rowid=?)"),
    ("promote", "SEARCH h USING INDEX lane_heads (handler=? AND lane=?)"),
    ("promote", "SEARCH q USING INDEX lane_queue (handler=? AND lane=?)"),
    ("any_skippable", "SEARCH work_items USING INDEX work_waiting (handler=?)"),
    ("any_skippable", "SEARCH work_items USING INDEX lane_queue (handler=?)"),
    ("any_skippable", "SEARCH work_items USING INDEX work_held (handler=?)"),
    ("skip queued", "SEARCH work_items USING INDEX lane_queue (handler=?)"),
    ("skip waiting", "SEARCH work_items USING INDEX work_waiting (handler=?)"),
    ("skip held", "SEARCH work_items USING INDEX work_held (handler=?)"),
    ("expire_leases", "SCAN work_items USING INDEX work_running"),
    ("unrouted", "SEARCH d USING INTEGER PRIMARY KEY (rowid>?)"),
    ("last_page", "SEARCH deliveries USING INDEX deliveries_by_job (job_id=?)"),
    ("unrouted_page", "SEARCH deliveries USING INDEX deliveries_by_job (job_id=? AND seq>?)"),
    ("open_page", "SEARCH d USING INDEX deliveries_by_job (job_id=?)"),
    ("open_page", "SEARCH w USING INDEX work_by_delivery (delivery_seq=? AND state=?)"),
    ("delivery.keys_from", f"SEARCH delivery_keys USING {KEYS} (key>? AND key<?)"),
    ("delivery.keys_from", f"SEARCH k USING {KEYS} (key>? AND key<?)"),
    ("delivery.keys_from", "SEARCH deliveries USING INTEGER PRIMARY KEY (rowid>?)"),
    ("delivery.has_key", f"SEARCH k USING {KEYS} (key=?)"),
    ("delivery.has_key", "SEARCH n USING INTEGER PRIMARY KEY (rowid>?)"),
    ("REMOVE_KEYS", f"SEARCH delivery_keys USING {KEYS} (key=? AND seq=?)"),
    ("LEFT_BEHIND", "SCAN b USING INDEX bodies_beside"),
    ("backfilled", "SEARCH deliveries USING INDEX deliveries_backfilled (key=?)"),
    ("COUNT_DUPLICATE", "SEARCH deliveries USING INTEGER PRIMARY KEY (rowid=?)"),
    ("work.work_of", "SEARCH w USING INDEX work_by_delivery (delivery_seq=?)"),
    ("a listing of a job", "SEARCH d USING INDEX deliveries_by_job (job_id=? AND seq<?)"),
    ("a listing of all", "SEARCH d USING INTEGER PRIMARY KEY (rowid<?)"),
    ("work.ids_of_job", "SEARCH d USING COVERING INDEX deliveries_by_job (job_id=?)"),
    ("work of a job", "SEARCH w USING INTEGER PRIMARY KEY (rowid<?)"),
    ("work of a state", "SEARCH w USING INTEGER PRIMARY KEY (rowid<?)"),
]
"""Steps that the plans of statements have."""


def test_a_statement_uses_the_index_made_for_it(connection: sqlite3.Connection) -> None:
    """SQLite uses a partial index only where the statement spells its condition as the index does."""
    assert [(name, step) for name, step in STEPS if step not in plan_of(connection, name)] == []


@pytest.mark.parametrize("name", ["due", "due_suspects", "next_due", "held", "work of all", "open_page"])
def test_a_statement_with_a_limit_does_not_sort(connection: sqlite3.Connection, name: str) -> None:
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


@pytest.mark.parametrize("statement", [READS.health.unfinished, READS.health.backlog, READS.health.waiting])
def test_finished_work_costs_nothing(connection: sqlite3.Connection, statement: str) -> None:
    """`demo`, health and metrics often ask for open work beside millions of finished items."""
    fill(connection, "done")

    assert effort(connection, statement, ()) <= 1


def test_unrouted_deliveries_are_found_at_once_in_a_large_store(connection: sqlite3.Connection) -> None:
    """Routed deliveries cost nothing."""
    fill(connection, "done")

    assert effort(connection, WRITES.sql.unrouted, {"after": MOST - 5, "limit": 100}) <= 1


def test_a_lane_with_two_heads_cannot_be_written(connection: sqlite3.Connection) -> None:
    """The database itself refuses it, whatever mistake a statement or a race makes."""
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
    """A state that needs a moment cannot be written without it either."""
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
    """An item in it would never be found again."""
    with pytest.raises(sqlite3.IntegrityError, match="CHECK"):
        connection.execute(
            "INSERT INTO work_items (delivery_seq, handler, state, attempts, trigger) "
            "VALUES (1, 'h', ?, 0, 'delivery')",
            (state,),
        )
