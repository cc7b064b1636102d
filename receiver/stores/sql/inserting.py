"""Many rows to one statement."""

from collections.abc import Callable, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from receiver.core.clock import to_micros
from receiver.stores.sql.connection import SqlConnection

if TYPE_CHECKING:  # as in `receiver.core.deliveries`
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


def insert_by_powers(
    connection: SqlConnection, statement: Callable[[int], str], rows: Sequence[tuple[object, ...]]
) -> None:
    """Insert rows, a power of two to each statement.

    Each length is a statement of its own, and a cached statement keeps the values that were bound to it last.
    """
    done = 0
    while done < len(rows):
        length = 1 << ((len(rows) - done).bit_length() - 1)
        connection.execute(statement(length), tuple(chain.from_iterable(rows[done : done + length])))
        done += length


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
