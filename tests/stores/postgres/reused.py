"""Empty stores for contract tests: a schema that is emptied again takes a fifth of the time of a new one."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager

from receiver.stores.postgres.address import parse_address
from receiver.stores.postgres.schema import prepare
from tests.stores.moves import WATCH_POSTGRES
from tests.stores.outside import PostgresTables

_MOST_USES = 50
"""Nothing vacuums the server of the tests, so what was removed stays in the tables."""

# What no test may leave different: else the schema is not used again.
_SHAPE = """
SELECT relname::text, relkind::text, relnatts, relchecks, relhastriggers, reloptions::text
FROM pg_class WHERE relnamespace = current_schema()::regnamespace
UNION ALL
SELECT proname::text, 'function', pronargs, 0, false, md5(prosrc) FROM pg_proc
WHERE pronamespace = current_schema()::regnamespace
ORDER BY 1, 2
"""
_TABLES = "SELECT tablename::text FROM pg_tables WHERE schemaname = current_schema()"
_SEQUENCES = "SELECT sequencename::text FROM pg_sequences WHERE schemaname = current_schema()"


class _Schema:
    """The tables of a store, as they are when it is new."""

    def __init__(self, server: str) -> None:
        name = f"test_{secrets.token_hex(8)}"
        self.url = f"{server}?schema={name}"
        self._uses = 0
        prepare(parse_address(self.url))
        self._connection = PostgresTables(self.url).connect()
        self._connection.execute(WATCH_POSTGRES.encode())
        self._shape = self._select(_SHAPE)
        self._reset = self._make_reset().encode()

    def reset(self) -> bool:
        """Make it as it was; return whether it is."""
        self._uses += 1
        if self._uses == _MOST_USES or self._select(_SHAPE) != self._shape:
            return False
        self._connection.execute(self._reset)
        return True

    def remove(self) -> None:
        """Remove it."""
        self._connection.execute(b"DO $$BEGIN EXECUTE format('DROP SCHEMA %I CASCADE', current_schema()); END$$")
        self._connection.close()

    def _make_reset(self) -> str:
        """Return the statements that empty the tables, but for the rows that they begin with."""
        statements = ["BEGIN", "SET LOCAL lock_timeout = 9000"]
        statements.append("SET LOCAL session_replication_role = replica")  # no triggers, and no foreign keys
        for (table,) in self._select(_TABLES):
            statements.append(f"DELETE FROM {table}")
            for (row,) in self._select(f"SELECT quote_literal(t::text) FROM {table} AS t"):
                statements.append(f"INSERT INTO {table} OVERRIDING SYSTEM VALUE SELECT ({row}::{table}).*")
        statements += [f"SELECT setval('{name}', 1, false)" for (name,) in self._select(_SEQUENCES)]
        return "; ".join([*statements, "COMMIT"])

    def _select(self, sql: str) -> list[tuple[object, ...]]:
        return self._connection.execute(sql.encode()).fetchall()


class ReusedSchemas:
    """The schemas that one process of the tests has made, for one server."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._free: list[_Schema] = []

    @contextmanager
    def one(self) -> Iterator[str]:
        """Give a block the address of an empty store, whose tables are there and watch the moves of work items."""
        schema = self._free.pop() if self._free else _Schema(self._server)
        try:
            yield schema.url
        finally:
            if schema.reset():
                self._free.append(schema)
            else:
                schema.remove()

    def close(self) -> None:
        """Remove them."""
        while self._free:
            self._free.pop().remove()
