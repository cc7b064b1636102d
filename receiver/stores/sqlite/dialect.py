"""How SQLite spells what the shared statements need, and the SQL of work items that only SQLite has."""

import json
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from typing_extensions import override

from receiver.core.clock import to_micros
from receiver.core.deliveries import Delivery
from receiver.core.subjects import Phrase
from receiver.core.types import HandlerName, WorkState
from receiver.errors import ConfigurationError
from receiver.stores.sql.columns_of_bodies import PLAIN, headers_text
from receiver.stores.sql.connection import SqlConnection, number
from receiver.stores.sql.dialect import Dialect, Locks, insert
from receiver.stores.sql.statements.columns import stored
from receiver.stores.sql.statements.filters import Reads
from receiver.stores.sql.statements.writing import STEP, Statements
from receiver.stores.sql.work_items import NewRow
from receiver.stores.sql.writes import Writes
from receiver.stores.sqlite import statements
from receiver.stores.sqlite.statements import (
    BODY,
    HAS_DELIVERY,
    INSERT_DELIVERY,
    JOB_ROWS,
    NOTE_REMOVED,
    REMOVE_KEYS,
    insert_bodies,
)

LEASE_HOLDERS = "SELECT DISTINCT worker FROM work_items WHERE state = 'running' AND worker IS NOT NULL"

LOCKS_FILE = """
SELECT
    (SELECT value FROM marks WHERE name = 'locks_file') AS file,
    (SELECT value FROM marks WHERE name = 'locks_file_since') AS since
"""
"""The file of locks that workers were last seen to use, and since when; the first of a store has no beginning."""

LAST_WORK_ID = "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'work_items'"


def _rows(count: int, columns: int) -> str:
    return ", ".join([f"({', '.join('?' * columns)})"] * count)


def record_work(rows: int) -> str:
    """Insert work items that have run already."""
    columns = "delivery_seq, handler, state, attempts, trigger, last_error"
    return f"INSERT INTO work_items ({columns}) VALUES {_rows(rows, 6)}"


def insert_attempts(rows: int) -> str:
    """Insert attempts that have ended."""
    columns = "work_id, number, trigger, started_at, ended_at, outcome, error, traceback, overdue"
    return f"INSERT INTO attempts ({columns}) VALUES {_rows(rows, 9)}"


class SqliteStatements(Statements):
    """The write lock keeps others away, so nothing is locked row by row."""

    note_time = f"""
        INSERT INTO marks (name, value) VALUES ('latest', :now)
        ON CONFLICT (name) DO UPDATE SET value = excluded.value WHERE excluded.value >= value + {STEP}
    """
    take_leases_ended = "SELECT id FROM work_items WHERE state = 'running' AND lease_until <= :steady LIMIT :limit"
    due = """
        SELECT w.id, d.size FROM work_items AS w JOIN deliveries AS d ON d.seq = w.delivery_seq
        WHERE w.handler = :handler AND w.state = 'waiting' AND w.due_at <= :now AND w.suspect = 0
        ORDER BY w.due_at LIMIT :limit
    """
    due_suspects = """
        SELECT w.id, d.size FROM work_items AS w JOIN deliveries AS d ON d.seq = w.delivery_seq
        WHERE w.handler = :handler AND w.state = 'waiting' AND w.suspect = 1 AND w.due_at <= :now
        ORDER BY w.due_at LIMIT :limit
    """
    take_due, take_due_suspects = due, due_suspects
    claim = """
        UPDATE work_items SET
            state = 'running', due_at = NULL, lease_until = :until, worker = :worker, attempts = attempts + 1,
            started = id IN (SELECT value FROM json_each(:starting))
        WHERE id IN (SELECT value FROM json_each(:ids))
    """
    claim_returns = False
    items = f"""
        SELECT w.id, w.handler, w.attempts, w.uncounted, w.deaths, w.trigger, w.lane, {stored(BODY)}
        FROM json_each(:ids) AS ids
        JOIN work_items AS w ON w.id = ids.value
        JOIN deliveries AS d ON d.seq = w.delivery_seq
        JOIN bodies AS b ON b.seq = d.seq
    """
    queued_behind = """
        SELECT h.id, w.id, w.attempts, d.size
        FROM json_each(:ids) AS ids
        JOIN work_items AS h ON h.id = ids.value
        JOIN work_items AS w ON w.id IN (
            SELECT q.id FROM work_items AS q
            WHERE q.handler = h.handler AND q.lane = h.lane AND q.state = 'queued' ORDER BY q.id LIMIT :each
        )
        JOIN deliveries AS d ON d.seq = w.delivery_seq
        ORDER BY ids.key, w.id
    """
    advance_routed = "UPDATE marks SET value = :through WHERE name = 'routed' AND value = :after"
    unrouted = f"""
        SELECT {stored(BODY)}
        FROM deliveries AS d JOIN bodies AS b ON b.seq = d.seq
        WHERE d.seq > :after ORDER BY d.seq LIMIT :limit
    """
    # One step of SQLite for all rows, and few values: a row of values for each item takes a third more time, and
    # three times as much to make it. `:items` is an object of ids and deliveries, or of ids and deliveries with
    # their lanes. Arrays with both and the handler took a third more time than the first of these.
    insert_work = """
        INSERT INTO work_items (
            id, delivery_seq, handler, lane, heads_lane, started, state, attempts, trigger, due_at, lease_until,
            worker, recheck_at, hold_until, note, action_id
        )
        SELECT
            key, iif(type = 'array', json_extract(value, '$[0]'), value), :handler,
            iif(type = 'array', json_extract(value, '$[1]'), NULL),
            :heads_lane, :started, :state, :state = 'running', :trigger, iif(:state = 'waiting', :due_at, NULL),
            iif(:state = 'running', :lease_until, NULL), iif(:state = 'running', :worker, NULL),
            iif(:state = 'held', :recheck_at, NULL), :hold_until, :note, :action
        FROM json_each(:items)
    """
    record_work = staticmethod(record_work)
    insert_attempts = staticmethod(insert_attempts)
    also_ended = """
        INSERT INTO attempts (work_id, number, trigger, started_at, ended_at, outcome, error, traceback, overdue)
        SELECT o.value, a.number, a.trigger, a.started_at, a.ended_at, a.outcome, a.error, a.traceback, a.overdue
        FROM json_each(:items) AS s CROSS JOIN attempts AS a CROSS JOIN json_each(s.value, '$[2]') AS o
        WHERE a.work_id = json_extract(s.value, '$[0]') AND a.number = json_extract(s.value, '$[1]')
    """
    count_minutes = """
        INSERT INTO handler_minutes (minute, handler, outcome, bucket, count)
        SELECT
            json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]'),
            json_extract(value, '$[3]'), json_extract(value, '$[4]')
        FROM json_each(:rows) WHERE TRUE
        ON CONFLICT (minute, handler, outcome, bucket) DO UPDATE SET count = count + excluded.count
    """
    job_rows = JOB_ROWS
    before_jobs = (REMOVE_KEYS,)
    after_removal = (NOTE_REMOVED,)


class SqliteDialect(Dialect):
    """A Dialect. Arrays travel as JSON."""

    body = statements.BODY
    whole_bodies = statements.WHOLE
    has_key = statements.HAS_KEY
    keys_from = statements.KEYS_FROM
    greatest, least = "max", "min"
    has_words = statements.HAS_WORDS
    words_seq = "s.rowid"
    words_match = "s.words MATCH :text"

    @override
    @contextmanager
    def snapshot(self, connection: SqlConnection) -> Iterator[None]:
        connection.execute("BEGIN")
        try:
            yield
        finally:
            connection.execute("COMMIT")

    @override
    def array(self, values: Sequence[object]) -> str:
        return json.dumps(list(values))

    @override
    def among(self, column: str, name: str) -> str:
        return f"{column} IN (SELECT value FROM json_each(:{name}))"

    @override
    def among_found(self, column: str, found: str) -> str:
        return f"{column} IN ({found})"

    @override
    def listed(self, name: str, kind: str = "bigint") -> str:
        return f"json_each(:{name}) AS s"

    @override
    def given(self, name: str, columns: str) -> str:
        names = [one.split()[0] for one in columns.split(", ")]
        cells = ", ".join(f"json_extract(value, '$[{at}]') AS {one}" for at, one in enumerate(names))
        return f"SELECT {cells} FROM json_each(:{name})"

    @override
    def by_id(self, state: WorkState, column: str = "state") -> str:
        """Return the condition with a plus, which an index does not answer (SQLite manual, Query Planner)."""
        return f"+{column} = '{state}'"

    @override
    def locked(self, order: str = "", strength: str = "UPDATE") -> str:
        """Return nothing: a transaction that writes is alone."""
        return ""

    @override
    def locked_in_order(self, condition: str) -> str:
        """Return the condition itself."""
        return condition

    @override
    def listed_order(self) -> str:
        """Return nothing: a CROSS JOIN keeps the order of its left table (SQLite manual, Query Planner)."""
        return ""

    @override
    def glob(self, column: str, name: str) -> str:
        return f"{column} GLOB :{name}"

    @override
    def pattern(self, glob: str) -> str:
        return glob.replace("[!", "[^")

    @override
    def ends_with(self, column: str, suffix: str) -> str:
        return f"{column} GLOB '*{suffix}'"

    @override
    def before_dot(self, column: str) -> str:
        return f"substr({column}, 1, instr({column} || '.', '.') - 1)"

    @override
    def by_index(self, name: str) -> str:
        return f"INDEXED BY {name}"

    @override
    def words_query(self, phrases: Sequence[Phrase]) -> str:
        """Return a query as FTS5 wants it (SQLite manual, FTS5, Full-text Query Syntax); words are only letters."""
        return " AND ".join(f'"{" ".join(one.words)}"{" *" if one.prefix else ""}' for one in phrases)

    @override
    def require_index(self, connection: SqlConnection) -> None:
        super().require_index(connection)
        require_module(connection)


def require_module(connection: SqlConnection) -> None:
    """Raise ConfigurationError where SQLite has no full text search."""
    if not number(connection, statements.HAS_MODULE, {}):
        raise ConfigurationError(
            f"the SQLite of this Python ({sqlite3.sqlite_version}) has no full text search (FTS5): use another "
            "Python, or leave RECEIVER_SEARCH off"
        )


def insert_with_ids(
    connection: SqlConnection, statement: Callable[[int], str], rows: Sequence[tuple[object, ...]]
) -> Sequence[int]:
    """Insert work items and return their ids, which follow each other under the write lock."""
    insert(connection, statement, rows)
    last = number(connection, "SELECT last_insert_rowid()", {})
    return range(last - len(rows) + 1, last + 1)


def insert_new_work(
    connection: SqlConnection, statement: str, rows: Sequence[NewRow], shared: Mapping[str, object]
) -> Sequence[int]:
    """Insert work items that share these values and return their ids, which follow each other under the write lock.

    Items of one handler in the same state are one statement, wherever they are among the others.
    """
    first = number(connection, LAST_WORK_ID, {}) + 1
    alike: dict[tuple[HandlerName, int, int, str], dict[int, object]] = {}
    for work_id, (seq, handler, lane, heads_lane, started, state) in enumerate(rows, first):
        items = alike.setdefault((handler, heads_lane, started, state), {})
        items[work_id] = seq if lane is None else (seq, lane)
    for (handler, heads_lane, started, state), items in alike.items():
        own = {"handler": handler, "heads_lane": heads_lane, "started": started, "state": state}
        connection.execute(statement, {**shared, **own, "items": json.dumps(items)})
    return range(first, first + len(rows))


DIALECT = SqliteDialect()
READS = Reads(DIALECT)


def insert_delivery(connection: SqlConnection, delivery: Delivery) -> int | None:
    """Store a delivery and return its seq, None if its key is stored.

    The newest keys are not in memory here, as in `DeliveryKeys`, so those that were not moved are read one by one.
    """
    if connection.execute(HAS_DELIVERY, {"key": delivery.key}).fetchone() is not None:
        return None
    fields = (delivery.key, delivery.type, delivery.job_id, delivery.webhook_id, delivery.success)
    row = (*fields, to_micros(delivery.received_at), len(delivery.body), delivery.origin)
    (seq,) = connection.execute(INSERT_DELIVERY, row).fetchone()
    connection.execute(insert_bodies(1), (seq, headers_text(delivery.headers), delivery.body, PLAIN))
    return int(seq)


WRITES = Writes(
    DIALECT,
    SqliteStatements(DIALECT),
    insert=insert,
    insert_with_ids=insert_with_ids,
    insert_new=insert_new_work,
    insert_delivery=insert_delivery,
    locks=Locks(),
)
