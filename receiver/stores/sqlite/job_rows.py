"""One row for each job, so that listings find jobs without their deliveries, and one for each minute of arrivals.

The transactions that store deliveries keep the rows, some hundred deliveries at a time: the rows of a job with many
pages then change once for many of them. What lies behind the mark `summed` is read from the deliveries.
"""

import sqlite3

from receiver.stores.sql.connection import number
from receiver.stores.sql.statements.columns import SUMMED
from receiver.stores.sql.statements.job_rows import COUNT_NEXT
from receiver.stores.sqlite.statements import job_rows as statements

BEHIND = 256
"""Deliveries that gather before the rows of their jobs change."""
_MOST = 1_024
"""Deliveries that one transaction takes. Acks wait for it."""


class JobRows:
    """Keeps the rows inside the transactions of one connection that store deliveries."""

    def __init__(self) -> None:
        self._summed = 0  # too high after an error, so that the rows follow a little later

    def follow(self, connection: sqlite3.Connection, last_seq: int) -> None:
        """Bring the rows up to a delivery that is stored, or nearer to it, when it is time."""
        if last_seq - self._summed < BEHIND:
            return
        self._summed = number(connection, SUMMED, {})  # another process may have moved it
        if last_seq - self._summed < BEHIND:
            return
        bounds = {"after": self._summed, "through": min(last_seq, self._summed + _MOST)}
        for statement in (statements.REMOVE_OF_NEXT, statements.ADD_NEXT, statements.ADVANCE_SUMMED):
            connection.execute(statement, bounds)
        _count_arrivals(connection, bounds)
        self._summed = bounds["through"]


def _count_arrivals(connection: sqlite3.Connection, bounds: dict[str, int]) -> None:
    first, last, count = connection.execute(statements.SPAN_OF_NEXT, bounds).fetchone()
    if count and first == last:
        connection.execute(statements.ADD_TO_MINUTE, (first, count))
    else:
        connection.execute(COUNT_NEXT, bounds)
