"""How PostgreSQL spells what the shared statements need: conditions, words, locks, and inserts of many rows."""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import chain

from typing_extensions import override

from receiver.core.bulk import Imported
from receiver.core.deliveries import Delivery
from receiver.core.subjects import Phrase, Texts
from receiver.core.types import HandlerName, WorkState
from receiver.stores.postgres import statements
from receiver.stores.postgres.log import insert_new
from receiver.stores.postgres.statements import (
    APPEND_TURN,
    HANDLERS_WITH_LANES,
    KEEP_DELIVERIES,
    LOCK_DELIVERIES,
    LOCK_HANDLERS,
    SEQ_OF,
    PostgresStatements,
)
from receiver.stores.sql.connection import SqlConnection, number
from receiver.stores.sql.dialect import Dialect, Locks
from receiver.stores.sql.statements.filters import Reads
from receiver.stores.sql.statements.writing import Statements
from receiver.stores.sql.work_items import NewRow
from receiver.stores.sql.writes import Writes

# PostgreSQL manual, Limitations of text search: a position is at most 16,383, a word has at most 256 of them, and
# is shorter than 2 KB; a vector is shorter than 1 MB.
_FIELD_STARTS = (1, 6_001, 12_001)
_FIELD_LENGTH = 4_000
"""Words of a field that have positions. Further ones are found, but not in a phrase."""
_MAX_POSITIONS = 255
_MAX_WORD = 500
"""Letters of a word, each of at most four bytes."""
_MAX_VECTOR_BYTES = 900_000
_POSITION_BYTES = 6


def vector(texts: Texts) -> str:
    """Return the words of a delivery as a tsvector."""
    places: dict[str, list[int]] = {}
    size = 0
    for start, text in zip(_FIELD_STARTS, (texts.url, texts.title, texts.error), strict=True):
        for at, word in enumerate(text.split()):
            known = places.setdefault(word[:_MAX_WORD], [])
            size += _POSITION_BYTES if known else len(word[:_MAX_WORD].encode()) + 2 * _POSITION_BYTES
            if size > _MAX_VECTOR_BYTES:
                return _written(places)
            if at < _FIELD_LENGTH and len(known) < _MAX_POSITIONS:
                known.append(start + at)
    return _written(places)


def query(phrases: Sequence[Phrase]) -> str:
    """Return a tsquery that asks for all the phrases."""
    return " & ".join(f"({_phrase(one)})" for one in phrases)


def _phrase(phrase: Phrase) -> str:
    return " <-> ".join(_quoted(word) for word in phrase.words) + (":*" if phrase.prefix else "")


def _written(places: dict[str, list[int]]) -> str:
    return " ".join(
        _quoted(word) + (f":{','.join(map(str, positions))}" if positions else "")
        for word, positions in places.items()
    )


def _quoted(word: str) -> str:
    return f"'{word[:_MAX_WORD]}'"  # words have letters and digits only


class PostgresDialect(Dialect):
    """A Dialect. Arrays travel as arrays, and rows as JSON."""

    body = "b.body"
    whole_bodies = "SELECT * FROM bodies"
    has_key = "d.key = :key"
    keys_from = "SELECT key FROM deliveries WHERE key >= :first AND key < :above ORDER BY key LIMIT :rows"
    greatest, least = "greatest", "least"
    has_words = statements.HAS_WORDS
    words_seq = "s.seq"
    words_match = "s.words @@ CAST(:text AS tsquery)"

    @override
    def snapshot(self, connection: SqlConnection) -> AbstractContextManager[None]:
        """Do nothing: each call of a reader is a snapshot already."""
        return nullcontext()

    @override
    def array(self, values: Sequence[object]) -> list[object]:
        return list(values)

    @override
    def among(self, column: str, name: str) -> str:
        return f"{column} = ANY(:{name})"

    @override
    def among_found(self, column: str, found: str) -> str:
        """Return the condition that a column is one of the values that a SELECT finds, which runs once."""
        return f"{column} = ANY(ARRAY({found}))"

    @override
    def listed(self, name: str, kind: str = "bigint") -> str:
        return f"unnest(CAST(:{name} AS {kind}[])) WITH ORDINALITY AS s (value, place)"

    @override
    def given(self, name: str, columns: str) -> str:
        cells = ", ".join(
            f"value ->> {at} AS {column}" if kind == "text" else f"CAST(value ->> {at} AS {kind}) AS {column}"
            for at, (column, kind) in enumerate(one.split() for one in columns.split(", "))
        )
        return f"SELECT {cells} FROM json_array_elements(CAST(:{name} AS json))"

    @override
    def by_id(self, state: WorkState, column: str = "state") -> str:
        """Return the condition so that only the primary key finds the rows.

        With a plain comparison, a plan takes the partial index of that state, which has few rows when the plan is
        made, and later reads all that has left the state since: to settle one of 40,000 work items read 68 pages.
        """
        return f"coalesce({column}, '') = '{state}'"

    @override
    def locked(self, order: str = "", strength: str = "UPDATE") -> str:
        """Return the end of a SELECT that locks its rows."""
        return f"{f'ORDER BY {order} ' if order else ''}FOR {strength}"

    @override
    def locked_in_order(self, condition: str) -> str:
        """Return a condition that locks what it finds: transactions that lock in one order do not deadlock."""
        found = f"SELECT id FROM work_items WHERE {condition} {self.locked('id')}"
        return self.among_found("id", found)

    @override
    def listed_order(self) -> str:
        return "ORDER BY s.place"

    @override
    def glob(self, column: str, name: str) -> str:
        return f"{column} ~ :{name}"

    @override
    def pattern(self, glob: str) -> str:
        return f"^{''.join(_GLOB.sub(_as_expression, glob))}$"

    @override
    def ends_with(self, column: str, suffix: str) -> str:
        return f"{column} LIKE '%{suffix}'"

    @override
    def before_dot(self, column: str) -> str:
        return f"split_part({column}, '.', 1)"

    @override
    def by_index(self, name: str) -> str:
        """Return nothing: PostgreSQL has no hints."""
        return ""

    @override
    def words_query(self, phrases: Sequence[Phrase]) -> str:
        return query(phrases)


_GLOB = re.compile(r"(?P<set>\[!?\]?[^\]]*\])|(?P<any>\*)|(?P<one>\?)|(?P<plain>.)", re.DOTALL)


def _as_expression(found: re.Match[str]) -> str:
    """Return a part of a glob as a part of a regular expression (PostgreSQL manual, Pattern Matching)."""
    if found["any"]:
        return ".*"
    if found["one"]:
        return "."
    if found["set"]:
        inner = found["set"][1:-1].replace("\\", "\\\\").replace("[", "\\[")
        return f"[^{inner[1:]}]" if inner.startswith("!") else f"[{inner}]"
    return re.escape(found["plain"])


class PostgresLocks(Locks):
    """The Locks of transactions that run beside others."""

    @override
    def log(self, connection: SqlConnection) -> None:
        connection.execute(APPEND_TURN)

    @override
    def handlers(self, connection: SqlConnection, names: Collection[HandlerName]) -> None:
        if names:
            connection.execute(LOCK_HANDLERS, {"names": sorted(names)}).fetchall()

    @override
    def lanes_of(self, connection: SqlConnection, work_ids: Sequence[int]) -> None:
        found = connection.execute(HANDLERS_WITH_LANES, {"ids": list(work_ids)}).fetchall()
        self.handlers(connection, [name for (name,) in found])

    @override
    def keep_deliveries_of(self, connection: SqlConnection, work_ids: Sequence[int]) -> None:
        connection.execute(KEEP_DELIVERIES, {"ids": list(work_ids)})

    @override
    def deliveries(self, connection: SqlConnection, seqs: Sequence[int]) -> None:
        connection.execute(LOCK_DELIVERIES, {"seqs": list(seqs)})


def insert(connection: SqlConnection, statement: Callable[[int], str], rows: Sequence[tuple[object, ...]]) -> None:
    """Insert rows, one array for each column."""
    if rows:
        connection.execute(statement(len(rows)), [list(column) for column in zip(*rows, strict=True)])


def insert_with_ids(
    connection: SqlConnection, statement: Callable[[int], str], rows: Sequence[tuple[object, ...]]
) -> Sequence[int]:
    """Insert work items and return their ids, which grow in the order of the rows."""
    if not rows:
        return []
    made = connection.execute(statement(len(rows)), [list(column) for column in zip(*rows, strict=True)])
    return list(chain.from_iterable(made.fetchall()))


def insert_new_work(
    connection: SqlConnection, statement: str, rows: Sequence[NewRow], shared: Mapping[str, object]
) -> Sequence[int]:
    """Insert work items that share these values and return their ids, which grow in their order."""
    names = ("seqs", "handlers", "lanes", "heads", "starts", "states")
    columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
    return list(chain.from_iterable(connection.execute(statement, {**shared, **columns}).fetchall()))


def insert_delivery(connection: SqlConnection, delivery: Delivery) -> int | None:
    """Store a delivery and return its seq, None if its key is stored."""
    new = insert_new(connection, [Imported(delivery, origin=delivery.origin)])
    return number(connection, SEQ_OF, {"key": delivery.key}) if new else None


def writes(locks: Locks, sql: Statements | None = None) -> Writes:
    """Return all that writes, with these locks and statements."""
    return Writes(
        DIALECT,
        sql or PostgresStatements(DIALECT),
        insert=insert,
        insert_with_ids=insert_with_ids,
        insert_new=insert_new_work,
        insert_delivery=insert_delivery,
        locks=locks,
    )


DIALECT = PostgresDialect()
READS = Reads(DIALECT)
WRITES = writes(PostgresLocks())
