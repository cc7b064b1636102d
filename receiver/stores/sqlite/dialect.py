"""How SQLite spells what the shared statements need, and its own statements."""

import json
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from receiver.core.clock import to_micros
from receiver.core.deliveries import Delivery
from receiver.core.subjects import Phrase
from receiver.core.types import HandlerName, WorkState
from receiver.errors import ConfigurationError, NoSearchIndex
from receiver.stores.sql.columns_of_bodies import PLAIN, headers_text
from receiver.stores.sql.connection import SqlConnection, number
from receiver.stores.sql.dialect import NoLocks, insert
from receiver.stores.sql.statements.reads import Reads
from receiver.stores.sql.work_rows import NewRow
from receiver.stores.sql.writes import Writes
from receiver.stores.sqlite.statements import log, upkeep
from receiver.stores.sqlite.statements.log import HAS_DELIVERY, INSERT_DELIVERY, insert_bodies
from receiver.stores.sqlite.statements.work import LAST_WORK_ID, SqliteStatements


class SqliteDialect:
    """A Dialect. Arrays travel as JSON."""

    body = log.BODY
    whole_bodies = log.WHOLE
    has_key = log.HAS_KEY
    keys_from = log.KEYS_FROM
    greatest, least = "max", "min"
    words_seq = "s.rowid"
    words_match = "s.words MATCH :text"

    @contextmanager
    def snapshot(self, connection: SqlConnection) -> Iterator[None]:
        """Let the statements of a block see the same state."""
        connection.execute("BEGIN")
        try:
            yield
        finally:
            connection.execute("COMMIT")

    def array(self, values: Sequence[object]) -> str:
        """Return many values as one."""
        return json.dumps(list(values))

    def rows(self, rows: Sequence[Sequence[object]]) -> str:
        """Return many rows as one value."""
        return json.dumps(list(rows))

    def among(self, column: str, name: str) -> str:
        """Return the condition that a column is one of the values in an array."""
        return f"{column} IN (SELECT value FROM json_each(:{name}))"  # noqa: S608 - put together from constants

    def among_found(self, column: str, found: str) -> str:
        """Return the condition that a column is one of the values that a SELECT finds."""
        return f"{column} IN ({found})"

    def listed(self, name: str, kind: str = "bigint") -> str:
        """Return the values of an array as a source of rows."""
        return f"json_each(:{name}) AS s"

    def given(self, name: str, columns: str) -> str:
        """Return the SELECT that makes rows of a value."""
        names = [one.split()[0] for one in columns.split(", ")]
        cells = ", ".join(f"json_extract(value, '$[{at}]') AS {one}" for at, one in enumerate(names))
        return f"SELECT {cells} FROM json_each(:{name})"  # noqa: S608 - put together from constants

    def by_id(self, state: WorkState, column: str = "state") -> str:
        """Return the condition with a plus, which an index does not answer (SQLite manual, Query Planner)."""
        return f"+{column} = '{state}'"

    def locked(self, order: str = "", strength: str = "UPDATE") -> str:
        """Return nothing: a transaction that writes is alone."""
        return ""

    def locked_in_order(self, condition: str) -> str:
        """Return the condition itself."""
        return condition

    def listed_order(self) -> str:
        """Return nothing: a CROSS JOIN keeps the order of its left table (SQLite manual, Query Planner)."""
        return ""

    def glob(self, column: str, name: str) -> str:
        """Return the condition that a column matches a pattern."""
        return f"{column} GLOB :{name}"

    def pattern(self, glob: str) -> str:
        """Return a glob in SQLite's spelling."""
        return glob.replace("[!", "[^")

    def ends_with(self, column: str, suffix: str) -> str:
        """Return the condition that a column ends with a text."""
        return f"{column} GLOB '*{suffix}'"

    def before_dot(self, column: str) -> str:
        """Return the text of a column in front of its first dot, or all of it."""
        return f"substr({column}, 1, instr({column} || '.', '.') - 1)"

    def by_index(self, name: str) -> str:
        """Return what makes a SELECT use an index."""
        return f"INDEXED BY {name}"

    def words_query(self, phrases: Sequence[Phrase]) -> str:
        """Return a query as FTS5 wants it (SQLite manual, FTS5, Full-text Query Syntax); words are only letters."""
        return " AND ".join(f'"{" ".join(one.words)}"{" *" if one.prefix else ""}' for one in phrases)

    def require_index(self, connection: SqlConnection) -> None:
        """Raise an error if there is no index of words, or SQLite cannot read it."""
        if not number(connection, upkeep.EXISTS, {}):
            raise NoSearchIndex
        require_module(connection)


def require_module(connection: SqlConnection) -> None:
    """Raise ConfigurationError where SQLite has no full text search."""
    if not number(connection, upkeep.HAS_MODULE, {}):
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
    locks=NoLocks(),
)
