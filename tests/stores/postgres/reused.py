"""Empty stores for contract tests, in schemas that are emptied again: with new ones they took 119 s, not 85."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from receiver.stores.postgres.connection import parse_address
from receiver.stores.postgres.store import prepare
from tests.stores.moves import WATCH_POSTGRES
from tests.stores.outside import PostgresTables
from tests.stores.postgres.shared import drop_schema

_MOST_USES = 50
"""Nothing vacuums the server of the tests, so what was removed stays in the tables."""

# If a test leaves something of this different, the schema is not used again.
_SHAPE = """
WITH ours AS (SELECT * FROM pg_class WHERE relnamespace = current_schema()::regnamespace)
SELECT relname::text, relkind::text, relpersistence::text, reloptions::text FROM ours
UNION ALL
SELECT relname, attname, format_type(atttypid, atttypmod), concat(attnotnull, pg_get_expr(adbin, adrelid))
FROM ours JOIN pg_attribute ON attrelid = ours.oid LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
UNION ALL
SELECT relname, tgname, 'trigger', tgenabled::text FROM ours JOIN pg_trigger ON tgrelid = ours.oid
UNION ALL
SELECT proname, 'function', '', md5(prosrc) FROM pg_proc WHERE pronamespace = current_schema()::regnamespace
ORDER BY 1, 2, 3, 4
"""
_TABLES = "SELECT tablename::text FROM pg_tables WHERE schemaname = current_schema()"
_SEQUENCES = "SELECT sequencename::text FROM pg_sequences WHERE schemaname = current_schema()"


class _Schema:
    """The tables of a store, as they are when it is new."""

    def __init__(self, server: str) -> None:
        self._name = f"test_{secrets.token_hex(8)}"
        self.url = f"{server}?schema={self._name}"
        self._server, self._uses = server, 0
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
        self._connection.close()
        drop_schema(self._server, self._name)

    def _make_reset(self) -> str:
        """Return the statements that empty the tables, but for the rows that they begin with."""
        tables = [table for (table,) in self._select(_TABLES)]
        statements = [
            "BEGIN",
            "SET LOCAL lock_timeout = 9000",
            f"LOCK TABLE {', '.join(tables)}",  # nobody may still write what appears in the next test
            "SET LOCAL session_replication_role = replica",  # no triggers, and no foreign keys
        ]
        for table in tables:
            statements.append(f"DELETE FROM {table}")
            for (row,) in self._select(f"SELECT quote_literal(t::text) FROM {table} AS t"):
                statements.append(f"INSERT INTO {table} OVERRIDING SYSTEM VALUE SELECT ({row}::{table}).*")
        statements += [f"SELECT setval('{name}', 1, false)" for (name,) in self._select(_SEQUENCES)]
        return "; ".join([*statements, "COMMIT"])

    def _select(self, sql: str) -> list[tuple[Any, ...]]:
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
        is_as_new = False
        try:
            yield schema.url
            is_as_new = schema.reset()
        finally:
            if is_as_new:
                self._free.append(schema)
            else:
                schema.remove()

    def close(self) -> None:
        """Remove them."""
        while self._free:
            self._free.pop().remove()
