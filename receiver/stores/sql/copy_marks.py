"""Marks in a store that say of which store it is a copy, and how far: a copy removes only what a copy brought."""

from receiver.stores.sql.connection import SqlConnection
from receiver.stores.sql.marks import mark, set_mark
from receiver.stores.sql.statements import copying as statements


def begin_copy(connection: SqlConnection, origin: int) -> None:
    """Note in an empty store that it becomes a copy of the store with this identity, inside a transaction."""
    if connection.execute(statements.FILLED).fetchone() is None:
        for name in statements.COPIED_THROUGH.values():
            set_mark(connection, name, 0)
        set_mark(connection, statements.COPIED_FROM, origin)


def note_copied(connection: SqlConnection, table: str, last: int) -> None:
    """Note that rows up to this number came from the source, in the transaction that writes them."""
    name = statements.COPIED_THROUGH[table]
    set_mark(connection, name, max(last, mark(connection, name) or 0))


def foreign_table(connection: SqlConnection, origin: int) -> tuple[str, bool] | None:
    """Return a table with rows that no copy of the store with this identity brought, None if there is none.

    Beside it stands whether the store was a copy of that one, and has taken the rows itself.
    """
    filled = connection.execute(statements.FILLED).fetchone()
    if filled is None:
        return None
    if mark(connection, statements.COPIED_FROM) != origin:
        return filled[0], False
    own = connection.execute(statements.BEHIND_COPIED).fetchone()
    return None if own is None else (own[0], True)
