"""Read and change a database from outside, as somebody with its own tool does."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Protocol

import psycopg

from receiver.stores.postgres.connection import parse_address


class Tables(Protocol):
    """The tables of a store."""

    def select(self, sql: str) -> Sequence[tuple[Any, ...]]:
        """Return the rows of a statement."""

    def run(self, script: str) -> None:
        """Run statements."""


class SqliteTables:
    """Those in a file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def select(self, sql: str) -> Sequence[tuple[Any, ...]]:
        with closing(sqlite3.connect(self._path)) as connection:
            return connection.execute(sql).fetchall()

    def run(self, script: str) -> None:
        with closing(sqlite3.connect(self._path)) as connection:
            connection.executescript(script)


class PostgresTables:
    """Those of a store's address."""

    def __init__(self, url: str) -> None:
        self._address = parse_address(url)
        self.schema = self._address.schema

    def connect(self) -> psycopg.Connection[Any]:
        """Return a connection that finds the tables by their names."""
        options = f"-csearch_path={self._address.schema}"
        return psycopg.connect(self._address.conninfo, autocommit=True, options=options)

    def select(self, sql: str) -> Sequence[tuple[Any, ...]]:
        with self.connect() as connection:
            return connection.execute(sql.encode()).fetchall()

    def run(self, script: str) -> None:
        with self.connect() as connection:
            connection.execute(script.encode())
