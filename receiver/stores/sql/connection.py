"""What the shared code asks of a connection, whichever driver makes it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar

T = TypeVar("T")

Values = dict[str, object]
"""The values of a statement, by the names that stand in it after a colon."""


def prefix_bounds(prefix: str) -> Values:
    """Return the bounds of the keys that begin so: from `first` to below `above`. Every key is ASCII."""
    return {"first": prefix, "above": prefix + "\x7f"}


class SqlRows(Protocol):
    """The rows of a statement. Each is read when it is asked for."""

    @property
    def rowcount(self) -> int:
        """How many rows a writing statement changed."""

    def fetchone(self) -> Any:
        """Return the next row, or None."""

    def fetchall(self) -> list[Any]:
        """Return all rows that are left."""

    def __iter__(self) -> Iterator[Any]: ...

    def close(self) -> None:
        """Read no more."""


class SqlConnection(Protocol):
    """A connection, used by one thread."""

    def execute(self, sql: str, values: Mapping[str, object] | Sequence[object] = ..., /) -> SqlRows:
        """Run a statement: with values by name, or in a row for question marks."""


class SqlDatabase(Protocol):
    """A connection together with its thread."""

    async def call(self, work: Callable[[Any], T]) -> T:
        """Run a function of the connection in the thread and return its result. Errors come as StoreError."""

    def transaction(self, connection: Any) -> AbstractContextManager[None]:
        """Run a block in the thread as one writing transaction: all of it or nothing."""

    def synced(self, connection: Any) -> AbstractContextManager[None]:
        """Run a block so; what it commits outlives a power cut, also where other transactions do not."""


class NoNumber(Exception):
    """Where every store has a number there is none, so the store is damaged."""


def number(connection: SqlConnection, sql: str, values: Mapping[str, object]) -> int:
    """Return the only value of the only row. Raises NoNumber if it is not there."""
    row = connection.execute(sql, values).fetchone()
    if row is None or row[0] is None:
        raise NoNumber
    return int(row[0])
