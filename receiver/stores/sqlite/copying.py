"""A SQLite store as a side of a copy."""

from typing import Any

from receiver.stores.sql.connection import SqlDatabase, number
from receiver.stores.sql.marks import set_mark
from receiver.stores.sql.statements.deliveries import LAST_DELIVERY
from receiver.stores.sql.statements.job_rows import COUNT_NEXT
from receiver.stores.sqlite.dialect import DIALECT
from receiver.stores.sqlite.statements import copying as statements
from receiver.stores.sqlite.statements import delivery_keys, job_rows


class SqliteCopySide:
    """A CopySide."""

    dialect = DIALECT
    identity_mark = "store"

    def __init__(self, database: SqlDatabase) -> None:
        self.database = database

    def continue_behind(self, connection: Any, table: str, last: int) -> None:
        """Let the numbers of new rows begin behind this one."""
        connection.execute(statements.ADD_SEQUENCE, {"table": table})
        connection.execute(statements.CONTINUE_BEHIND, {"table": table, "last": last})

    def finish(self, connection: Any) -> None:
        """Make the index of keys, the rows of jobs and the counts of arrivals from the deliveries."""
        last = number(connection, LAST_DELIVERY, {})
        for statement in (statements.NO_KEYS, statements.ADD_KEYS, statements.NO_JOBS, statements.NO_MINUTES):
            connection.execute(statement)
        for statement in (job_rows.ADD_NEXT, COUNT_NEXT):
            connection.execute(statement, {"after": 0, "through": last})
        for name in ("keyed", "summed"):
            set_mark(connection, name, last)
        connection.execute(delivery_keys.NOTE_MOVING, {"moving": 0, "place": 0, "part": 0})
