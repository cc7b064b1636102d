"""A connection together with its thread: made again when it broke, and its errors in our own words."""

import asyncio
import re
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from functools import partial
from typing import Self, TypeVar

import psycopg
from psycopg import errors

from receiver.errors import StoreError, StoreRefused
from receiver.stores.postgres.connection import Address, PostgresConnection, StatementDeadline, Translation
from receiver.stores.sql.connection import ConnectionThread, NoNumber

REPEATED = (errors.DeadlockDetected, errors.SerializationFailure)
"""The server undid a transaction that came into the way of another one. The same again succeeds."""
POISONOUS = ("22", "23", "54")
"""Classes of errors in the values of a row: the other rows of its batch can be written."""

_WORDS = {
    "25006": "it is read-only",
    "42501": "this user may not do that",
    "42P01": "its tables are not there",
    "53100": "the disk of the server is full",
    "53200": "the server is out of memory",
    "53300": "the server has no connection left",
    "55P03": "a lock could not be taken in time",
    "57014": "the server has cancelled a statement that took too long",
    "57P01": "the server has ended the connection",
    "57P02": "the server crashed and starts again",
    "57P03": "the server starts or stops",
    "3D000": "there is no database of this name",
    "28P01": "the password is wrong",
    "28000": "this user may not connect",
}
_HOPELESS = {"42501", "3D000", "28P01", "28000"}
_REFUSALS = {
    r"password authentication failed|no password supplied": "28P01",
    r"no pg_hba\.conf entry|role \".*\" does not exist|role \".*\" is not permitted": "28000",
    r"database \".*\" does not exist": "3D000",
    r"permission denied for": "42501",
    r"too many clients|remaining connection slots|too many connections": "53300",
    r"system is (starting up|shutting down|not yet accepting|not accepting|in recovery)": "57P03",
}
"""Before a connection is made, libpq reports the text of an error, and not its code."""


def is_poisonous(error: BaseException) -> bool:
    """Return whether the values of some row were refused, and not the batch."""
    if isinstance(error, psycopg.Error):
        return (error.sqlstate or "")[:2] in POISONOUS or isinstance(error, psycopg.DataError)
    return isinstance(error, UnicodeEncodeError)


@contextmanager
def translated(name: str, *, was_open: bool = False) -> Iterator[None]:
    """Turn errors of the driver into StoreError, or StoreRefused where waiting cannot help.

    It can help where the database `was_open` before: a right or a name that was taken away can be given back.
    """
    try:
        yield
    except psycopg.Error as exc:
        code = exc.sqlstate or _code_of(exc)
        reason = _WORDS.get(code, _said(exc))
        words = f"the database {name} cannot be used: {reason}"
        raise (StoreRefused(words) if code in _HOPELESS and not was_open else StoreError(words)) from exc
    except NoNumber as exc:
        raise StoreRefused(f"the database {name} cannot be used: it is damaged; restore a backup") from exc
    except UnicodeEncodeError as exc:
        raise StoreError(f"the database {name} cannot keep a text that is no Unicode: {exc.reason}") from exc


def _code_of(error: psycopg.Error) -> str:
    said = _said(error)
    return next((code for pattern, code in _REFUSALS.items() if re.search(pattern, said)), "")


def _said(error: psycopg.Error) -> str:
    """Return the first line of an error, which quotes no values; of several addresses that of the last one."""
    if error.diag.message_primary:
        return error.diag.message_primary
    text = str(error).strip()
    _, found, last = text.rpartition("failed: ")
    return (last if found else text).partition("\n")[0] or type(error).__name__


T = TypeVar("T")

STATEMENT_DEADLINE = timedelta(seconds=30)
"""How long a statement may take. One of a worker takes milliseconds."""

# Plans are made while tables are empty, and kept when they are full. Compiling one takes longer than it runs.
_PLANNER = "set_config('jit', 'off', true), set_config('enable_seqscan', 'off', true)"
_SYNC_IF_OFF = """set_config('synchronous_commit', CASE current_setting('synchronous_commit')
    WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END, true)"""
SYNCED = f"BEGIN ISOLATION LEVEL READ COMMITTED; SELECT {_SYNC_IF_OFF}, {_PLANNER}"
UNSYNCED = f"BEGIN ISOLATION LEVEL READ COMMITTED; SELECT set_config('synchronous_commit', 'off', true), {_PLANNER}"
READING = f"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SELECT {_PLANNER}"
"""How a reader's calls begin: each is one transaction, and all its statements see the same state."""
_PAUSES = (0.01, 0.05, 0.2, 0.5)
"""Seconds before a transaction is run again that another one has stopped."""


class PostgresDatabase:
    """An SqlDatabase, open inside `async with`. `begin` is how its transactions begin.

    With `around` each call is one transaction, which begins so.

    A broken connection is an error for the call that meets it, and the next call connects again. A function of
    `call` may run several times, each time from its start: it must change nothing but the database.
    """

    def __init__(
        self,
        address: Address,
        *,
        writes: bool = True,
        begin: str = UNSYNCED,
        around: str = "",
        before_commit: str = "",
        deadline: timedelta = STATEMENT_DEADLINE,
        on_connect: Callable[[PostgresConnection], None] = lambda connection: None,
        on_reconnect: Callable[[PostgresConnection], None] = lambda connection: None,
    ) -> None:
        self.name = address.name
        self.translate = Translation(address.schema)
        self._address = address
        self._writes = writes
        self._begin = begin
        self._around = around
        self._before_commit = before_commit
        self._limit = deadline
        self._on_connect = on_connect
        self._on_reconnect = on_reconnect
        self._thread: ConnectionThread | None = None
        self._deadline: StatementDeadline | None = None
        self._connection: PostgresConnection | None = None
        self._was_open = False

    async def __aenter__(self) -> Self:
        self._thread = ConnectionThread(f"store {self.name}")
        self._deadline = StatementDeadline(self._limit, f"deadline {self.name}")
        try:
            await self.call(lambda connection: None)
        except BaseException:
            self._stop(self._thread)
            raise
        return self

    async def __aexit__(self, *exc: object) -> None:
        thread, self._thread = self._thread, None
        if thread is not None:
            await self._stop(thread)
            thread.join()

    async def call(self, work: Callable[[PostgresConnection], T]) -> T:
        """Run a function of the connection in the thread and return its result.

        The function runs to its end when the waiting task is cancelled. Errors of the driver come as StoreError.
        """
        if self._thread is None:
            raise StoreError(f"the database {self.name} is closed")
        with translated(self.name, was_open=self._was_open):
            return await self._thread.call(partial(self._run, work))

    @contextmanager
    def transaction(self, connection: PostgresConnection, begin: str = "") -> Iterator[None]:
        """Run a block in the thread as one transaction; commit at its end, or undo all of it."""
        connection.command(begin or self._begin)
        try:
            yield
            if self._before_commit:
                connection.execute(self._before_commit)
            said = connection.command("COMMIT")
        except BaseException:
            connection.roll_back()
            raise
        if said != "COMMIT":
            raise StoreError(f"the database {self.name} has undone a transaction")

    def synced(self, connection: PostgresConnection) -> AbstractContextManager[None]:
        """Run a block as `transaction` does; what it commits outlives a crash of the server."""
        return self.transaction(connection, SYNCED)

    def _run(self, work: Callable[[PostgresConnection], T]) -> T:
        for pause in _PAUSES:
            try:
                return self._run_once(work)
            except REPEATED:
                time.sleep(pause)
        return self._run_once(work)

    def _run_once(self, work: Callable[[PostgresConnection], T]) -> T:
        connection = self._usable()
        try:
            return self._worked(connection, work)
        except psycopg.Error as exc:
            connection.roll_back()
            if exc.sqlstate == "25006":  # it was the primary; another server of the address may be it now
                connection.close()
            if connection.late is not None:
                raise StoreError(
                    f"the database {self.name} did not answer within {connection.late.total_seconds():g} s"
                ) from exc
            raise
        except BaseException:
            connection.roll_back()
            raise

    def _worked(self, connection: PostgresConnection, work: Callable[[PostgresConnection], T]) -> T:
        if not self._around:
            return work(connection)
        connection.command(self._around)
        result = work(connection)
        connection.command("COMMIT")
        return result

    def _usable(self) -> PostgresConnection:
        if self._connection is not None and not self._connection.is_usable():
            self._disconnect()
        if self._connection is None:
            assert self._deadline is not None  # noqa: S101 - for the type checker
            connection = PostgresConnection(self._address, self.translate, self._deadline, writes=self._writes)
            try:
                self._on_connect(connection)
                if self._was_open:
                    self._on_reconnect(connection)
            except BaseException:
                connection.close()
                raise
            self._connection, self._was_open = connection, True
        return self._connection

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _stop(self, thread: ConnectionThread) -> asyncio.Future[None]:
        closed = thread.call(self._disconnect)
        thread.stop()
        if self._deadline is not None:
            self._deadline.stop()
        return closed
