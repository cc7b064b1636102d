"""A PostgreSQL store as a side of a copy."""

from typing import Any

from receiver.stores.postgres.database import Database
from receiver.stores.postgres.dialect import DIALECT
from receiver.stores.postgres.statements import copying as statements


class PostgresCopySide:
    """A CopySide."""

    dialect = DIALECT

    def __init__(self, database: Database) -> None:
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
        """Make the rows of jobs from the deliveries."""
