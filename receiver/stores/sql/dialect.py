"""What differs between SQL databases: how they spell SQL, how many rows are inserted, and what is locked."""

import json
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from itertools import chain
from typing import TYPE_CHECKING, Protocol

from receiver.core.clock import to_micros
from receiver.core.types import HandlerName, WorkState
from receiver.errors import NoSearchIndex
from receiver.stores.sql.connection import SqlConnection, number

if TYPE_CHECKING:  # the process that writes needs none of these
    from receiver.core.subjects import Phrase
    from receiver.core.work import Attempt

Insert = Callable[[SqlConnection, Callable[[int], str], Sequence[tuple[object, ...]]], None]
"""Inserts rows by the statement for so many of them."""

MAX_ROWS = 100
"""Rows of one statement: more cost as much for each, and the statements of every length are kept compiled."""


def insert(connection: SqlConnection, statement: Callable[[int], str], rows: Sequence[tuple[object, ...]]) -> None:
    """Insert rows, many to a statement."""
    for start in range(0, len(rows), MAX_ROWS):
        together = rows[start : start + MAX_ROWS]
        connection.execute(statement(len(together)), tuple(chain.from_iterable(together)))


AttemptRow = tuple[int, int, str, int | None, int, str, str | None, str | None, int]
"""Work item, number, trigger, start, end, outcome, error, traceback, and whether it was overdue."""


def attempt_row(work_id: int, attempt: "Attempt") -> AttemptRow:
    """Return the row of an attempt that has ended. Plain texts are bound in a third of the time of an enum's."""
    return (
        work_id,
        attempt.number,
        str(attempt.trigger),
        None if attempt.started_at is None else to_micros(attempt.started_at),
        to_micros(attempt.ended_at),
        str(attempt.outcome),
        attempt.error,
        attempt.traceback,
        int(attempt.overdue),
    )


class Dialect(Protocol):
    """How a database spells the parts that differ. A `name` is that of a value, without its colon."""

    body: str
    """The body in a row of `bodies`, called `b`, as `compression.decoded` takes it."""
    whole_bodies: str
    """The statement that returns all rows of `bodies`, each with its body."""
    has_key: str
    """The condition on deliveries, called `d`, that the key is the value `key`."""
    keys_from: str
    """The statement that returns keys from `:first` to below `:above`, some of them twice, at most `:rows` rows."""
    greatest: str
    least: str
    """The functions of several values."""
    has_words: str
    """The statement that returns whether there is an index of words."""
    words_seq: str
    """The column of the index of words, called `s`, that has the seq of the delivery."""
    words_match: str
    """The condition on the index of words, called `s`, that an entry matches the query in the value `text`."""

    def snapshot(self, connection: SqlConnection) -> AbstractContextManager[None]:
        """Let the statements of a block, which only read, see the same state."""

    def array(self, values: Sequence[object]) -> object:
        """Return many values as one value of a statement, for `among` and `listed`."""

    def rows(self, rows: Sequence[Sequence[object]]) -> object:
        """Return many rows as one value of a statement."""
        return json.dumps(list(rows))

    def among(self, column: str, name: str) -> str:
        """Return the condition that a column is one of the values in an array."""

    def among_found(self, column: str, found: str) -> str:
        """Return the condition that a column is one of the values that a SELECT finds."""

    def listed(self, name: str, kind: str = "bigint") -> str:
        """Return the values of an array as a source of rows, called `s`, with the column `value` of this type."""

    def given(self, name: str, columns: str) -> str:
        """Return the SELECT that makes rows of a value by `rows`. Columns have types: "id bigint, state text"."""

    def by_id(self, state: WorkState, column: str = "state") -> str:
        """Return the condition that the state is this one, for work items that are found by their ids alone.

        It keeps the planner from the partial index of that state.
        """

    def locked(self, order: str = "", strength: str = "UPDATE") -> str:
        """Return the end of a SELECT that locks its rows in an order until the transaction ends."""

    def locked_in_order(self, condition: str) -> str:
        """Return a condition that finds the same work items as this one, and locks them in the order of ids."""

    def listed_order(self) -> str:
        """Return the ORDER BY that keeps the order of `listed` in a join; "" where the join keeps it."""

    def glob(self, column: str, name: str) -> str:
        """Return the condition that a column matches the pattern in a value."""

    def pattern(self, glob: str) -> str:
        """Return a glob as the value that `glob` compares with."""

    def ends_with(self, column: str, suffix: str) -> str:
        """Return the condition that a column ends with a text, as the indexes of the schema have it."""

    def before_dot(self, column: str) -> str:
        """Return the text of a column in front of its first dot, or all of it."""

    def by_index(self, name: str) -> str:
        """Return what makes a SELECT use an index, to be put behind its table; "" where nothing is needed."""

    def words_query(self, phrases: "Sequence[Phrase]") -> str:
        """Return the value that `words_match` compares with: all the phrases have to occur."""

    def require_index(self, connection: SqlConnection) -> None:
        """Raise NoSearchIndex if there is no index of words, or ConfigurationError if it cannot be read."""
        if not number(connection, self.has_words, {}):
            raise NoSearchIndex


class Locks:
    """Locks that stand for something wider than a row, for databases where several transactions write at a time.

    Each is held until the transaction ends, and taking one that is held already does nothing. Here all do nothing,
    as for a database that has one writer at a time.
    """

    def log(self, connection: SqlConnection) -> None:
        """Be alone in storing deliveries. It is the first lock of its transaction."""

    def handlers(self, connection: SqlConnection, names: Collection[HandlerName]) -> None:
        """Lock the lanes and the limits of these handlers."""

    def lanes_of(self, connection: SqlConnection, work_ids: Sequence[int]) -> None:
        """Lock the lanes of the handlers of those work items that have a lane."""

    def keep_deliveries_of(self, connection: SqlConnection, work_ids: Sequence[int]) -> None:
        """Keep the deliveries of these work items from being pruned."""

    def deliveries(self, connection: SqlConnection, seqs: Sequence[int]) -> None:
        """Keep others from making or retrying work of these deliveries."""
