"""A PostgreSQL store as a side of a copy."""

from typing import Any

from receiver.stores.postgres.database import PostgresDatabase
from receiver.stores.postgres.dialect import DIALECT
from receiver.stores.postgres.statements import copying as statements
from receiver.stores.postgres.statements.job_rows import ADD_NEXT
from receiver.stores.sql.connection import number
from receiver.stores.sql.statements.deliveries import LAST_DELIVERY
from receiver.stores.sql.statements.job_rows import COUNT_NEXT


class PostgresCopySide:
    """A CopySide."""

    dialect = DIALECT
    identity_mark = "identity"

    def __init__(self, database: PostgresDatabase) -> None:
        self.database = database

    def continue_behind(self, connection: Any, table: str, last: int) -> None:
        """Let the numbers of new rows begin behind this one."""
        values = {
            "table": f'"{self.database.translate.schema}".{table}',
            "column": "seq" if table == "deliveries" else "id",
            "last": last,
        }
        connection.execute(statements.CONTINUE_BEHIND, values).fetchall()

    def finish(self, connection: Any) -> None:
        """Make the rows of jobs and the counts of arrivals from the deliveries."""
        bounds = {"after": 0, "through": number(connection, LAST_DELIVERY, {})}
        connection.execute(statements.NO_JOBS)
        connection.execute(ADD_NEXT, bounds)
        connection.execute(statements.NO_MINUTES)
        connection.execute(COUNT_NEXT, bounds)
        connection.execute(statements.SET_SUMMED, bounds)
