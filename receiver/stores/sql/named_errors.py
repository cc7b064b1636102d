"""Errors that say which of two stores they come from."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, TypeVar

from receiver.errors import ConfigurationError, StoreError, StoreRefused
from receiver.stores.sql.connection import SqlDatabase

T = TypeVar("T")


@contextmanager
def errors_of(name: str) -> Iterator[None]:
    """Let the errors of a store begin with its name."""
    try:
        yield
    except StoreRefused as exc:
        raise StoreRefused(f"{name}: {exc}") from exc
    except StoreError as exc:
        raise StoreError(f"{name}: {exc}") from exc
    except ConfigurationError as exc:
        raise ConfigurationError(f"{name}: {exc}") from exc


class NamedDatabase:
    """An SqlDatabase whose errors begin with its name."""

    def __init__(self, database: SqlDatabase, name: str) -> None:
        self._database = database
        self._name = name

    async def call(self, work: Callable[[Any], T]) -> T:
        """Run a function of the connection in the thread and return its result."""
        with errors_of(self._name):
            return await self._database.call(work)

    def transaction(self, connection: Any) -> AbstractContextManager[None]:
        """Run a block in the thread as one writing transaction."""
        return self._database.transaction(connection)
