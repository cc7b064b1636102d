"""The numbers that a store keeps by name, in its table `marks`."""

from receiver.stores.sql.connection import SqlConnection

_MARK = "SELECT value FROM marks WHERE name = :name"

_SET_MARK = """
INSERT INTO marks (name, value) VALUES (:name, :value) ON CONFLICT (name) DO UPDATE SET value = excluded.value
"""


def mark(connection: SqlConnection, name: str) -> int | None:
    """Return the number of a name, None if the store keeps none."""
    row = connection.execute(_MARK, {"name": name}).fetchone()
    return None if row is None else int(row[0])


def set_mark(connection: SqlConnection, name: str, value: int) -> None:
    """Keep a number, inside a transaction."""
    connection.execute(_SET_MARK, {"name": name, "value": value})
