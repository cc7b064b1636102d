"""What the shared code asks of a connection and its thread, whichever driver makes it."""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from queue import SimpleQueue
from threading import Thread
from typing import Any, Protocol, TypeVar

from receiver.errors import ConfigurationError, StoreError, StoreRefused

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


class ConnectionThread:
    """Runs functions one after the other, in the order of the calls.

    The thread is a daemon: a connection that was not closed does not keep the process alive.
    """

    def __init__(self, name: str) -> None:
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread = Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def call(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """Run a function in the thread. Cancelling the future does not stop the function."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._calls.put(partial(_run_one, work, loop, future))
        return future

    def stop(self) -> None:
        """Let the thread end after the calls that were made so far."""
        self._calls.put(None)

    def join(self) -> None:
        """Return when the thread has ended."""
        self._thread.join()

    def _run(self) -> None:
        # Nothing of a call stays in a variable while the thread waits: a batch of bodies can be large.
        while self._run_next():
            pass

    def _run_next(self) -> bool:
        call = self._calls.get()
        if call is None:
            return False
        call()
        return True


def _run_one(work: Callable[[], Any], loop: asyncio.AbstractEventLoop, future: asyncio.Future[Any]) -> None:
    error: BaseException | None = None
    result = None
    try:
        result = work()
    except BaseException as exc:
        error = exc
    with suppress(RuntimeError):  # the event loop was closed: no caller waits any more
        loop.call_soon_threadsafe(_resolve, future, result, error)


def _resolve(future: asyncio.Future[Any], result: object, error: BaseException | None) -> None:
    if future.done():  # the caller gave up
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)


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
