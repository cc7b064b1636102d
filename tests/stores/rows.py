"""Read and change a database from outside, as somebody with the sqlite3 tool does."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any


def select(path: Path, sql: str, *, as_json: str = "") -> list[tuple[Any, ...]]:
    """Return the rows; the values of the column named are read as JSON."""
    with closing(sqlite3.connect(path)) as connection:
        cursor = connection.execute(sql)
        names = [column[0] for column in cursor.description]
        return [
            tuple(json.loads(value) if name == as_json else value for name, value in zip(names, row, strict=True))
            for row in cursor
        ]


def execute(path: Path, *statements: str) -> None:
    """Change a database from outside."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


MOMENTS = "due_at, lease_until, recheck_at"
"""The columns of work items of which each state has its own, or none."""


def moments(state: str, moment: str) -> str:
    """Return the SQL of the values for these columns, given the SQL of a state and of a moment."""
    return ", ".join(f"iif({state} = '{one}', {moment}, NULL)" for one in ("waiting", "running", "held"))
