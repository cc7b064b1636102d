"""One row for each job, so that listings find jobs without their deliveries, and one for each minute of arrivals.

Workers keep them when they have routed, four thousand deliveries at a time: the rows of a job with many pages then
change once for many of them. What lies behind the mark `summed` is read from the deliveries.
"""

from receiver.stores.postgres.connection import PostgresConnection
from receiver.stores.postgres.database import PostgresDatabase
from receiver.stores.postgres.statements import job_rows as statements
from receiver.stores.sql.connection import number
from receiver.stores.sql.statements.columns import SUMMED
from receiver.stores.sql.statements.job_rows import COUNT_NEXT

BEHIND = 4_096
"""Deliveries that gather before the rows of their jobs change, and that one transaction takes. A worker handles 3 %
more than with a quarter of them. To read so many takes 6 ms longer in a list of jobs."""


class PostgresJobRows:
    """Keeps the rows for one worker."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database
        self._summed = 0

    def follow(self, connection: PostgresConnection, last_seq: int) -> None:
        """Bring the rows up to a delivery that is stored, or nearer to it, when it is time."""
        if last_seq - self._summed < BEHIND:
            return
        self._summed = number(connection, SUMMED, {})  # another worker may have moved it
        if last_seq - self._summed < BEHIND:
            return
        through = min(last_seq, self._summed + BEHIND)
        bounds = {"after": self._summed, "through": through}
        with self._database.transaction(connection):
            if not connection.execute(statements.ADVANCE_SUMMED, bounds).rowcount:
                self._summed = last_seq  # another worker moves it now, so this one asks later
                return
            connection.execute(statements.REMOVE_OF_NEXT, bounds)
            connection.execute(statements.ADD_NEXT, bounds)
            connection.execute(COUNT_NEXT, bounds)
        self._summed = through
