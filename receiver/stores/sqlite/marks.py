"""The numbers that every store keeps in its table `marks`."""

import sqlite3

from receiver.stores.sql.connection import NoNumber, number

_ARE_ALL_THERE = """
SELECT count(*) = 8 FROM marks
WHERE name IN ('indexed', 'keyed', 'keys_moving', 'keys_part', 'keys_place', 'routed', 'store', 'summed')
"""


def require_marks(connection: sqlite3.Connection) -> None:
    """Raise NoNumber unless all are there. What compares with a missing one finds nothing, without an error."""
    if not number(connection, _ARE_ALL_THERE, {}):
        raise NoNumber
