"""A connection to a PostgreSQL server, used by one thread: its address, its statements, and a limit on calls."""

import os
import re
import select
import socket
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from threading import Condition, Thread
from typing import Any
from urllib.parse import unquote

import psycopg
from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import TransactionStatus
from psycopg.types.array import ListBinaryDumper
from psycopg.types.numeric import Int8BinaryDumper, NumericBinaryLoader, NumericLoader

from receiver.errors import ConfigurationError, StoreError, StoreRefused

DEFAULT_SCHEMA = "receiver"
_WRONG = "this is no address of a PostgreSQL database; write postgresql://USER:PASSWORD@HOST:PORT/DATABASE"
_NAME = re.compile("[a-z_]{1,40}")


@dataclass(frozen=True, slots=True)
class Address:
    """What a store connects to. `conninfo` may hold a password; `name` says the same without one."""

    conninfo: str
    schema: str
    name: str

    def __repr__(self) -> str:
        return f"Address({self.name})"


def parse_address(url: str) -> Address:
    """Read a postgresql:// address with `?schema=`.

    Raises ConfigurationError, which quotes nothing of it but the name of an option.
    """
    place, schema, options = _parted(url)
    conninfo = f"{place}?{'&'.join(options)}" if options else place
    try:
        known = conninfo_to_dict(conninfo)
    except (ProgrammingError, UnicodeError):
        raise ConfigurationError(_why_wrong(options)) from None
    host = known.get("host") or known.get("hostaddr") or "localhost"
    beside = f" in schema {schema}" if schema != DEFAULT_SCHEMA else ""
    return Address(conninfo, schema, f"{known.get('dbname') or 'the default'} at {host}{beside}")


def _why_wrong(options: Sequence[str]) -> str:
    """Return what is wrong with an address that libpq refuses with these options."""
    if any("@" in option for option in options):  # they may be a part of a password
        return _WRONG
    for option in options:
        name, _, _ = option.partition("=")
        try:
            conninfo_to_dict(f"postgresql://?{option}")
        except (ProgrammingError, UnicodeError):
            if _NAME.fullmatch(name):
                known = "PostgreSQL's manual has all of them (34.1.2, Parameter Key Words)"
                return f"libpq takes no option {name} with this value; {known}"
    return _WRONG


def _parted(url: str) -> tuple[str, str, list[str]]:
    """Return what is in front of the options, the schema, and the options of libpq as they are written.

    Nothing is decoded: libpq takes `+` for itself and not for a space, and knows addresses that no parser of URLs
    takes, such as those of several hosts. A user and a password may have every character but `/` and `@`: libpq
    would take what follows for a host or a database, and errors quote those. The driver that an address of
    SQLAlchemy names is left out.
    """
    scheme, slashes, rest = url.partition("://")
    if not slashes:
        raise ConfigurationError(_WRONG)
    user, at, rest = rest.partition("@") if "@" in rest.partition("/")[0] else ("", "", rest)
    place, _, query = rest.partition("?")
    if "@" in place:
        raise ConfigurationError(f"{_WRONG}, with %40 for @ and %2F for / in a password")
    schema, options = DEFAULT_SCHEMA, []
    for option in filter(None, query.split("&")):
        name, _, value = option.partition("=")
        if name == "schema":
            schema = unquote(value)
        else:
            options.append(option)
    return f"{scheme.partition('+')[0]}://{user}{at}{place}", schema, options


class StatementDeadline:
    """Ends blocks that take longer than `limit`, one at a time. Its thread is a daemon.

    No option of libpq ends a wait for a server that was stopped, as its host still answers for it. So another
    thread shuts the socket.
    """

    def __init__(self, limit: timedelta, name: str) -> None:
        self.limit = limit
        self._changed = Condition()
        self._until: float | None = None
        self._end: Callable[[], None] = lambda: None
        self._is_idle = False
        self._stopped = False
        Thread(target=self._watch, name=name, daemon=True).start()

    @contextmanager
    def over(self, end: Callable[[], None]) -> Iterator[None]:
        """Call `end` from another thread if the block takes too long."""
        with self._changed:
            self._until, self._end = time.monotonic() + self.limit.total_seconds(), end
            # Most blocks are short: a thread that was woken for each would cost more than they do.
            if self._is_idle:
                self._changed.notify()
        try:
            yield
        finally:
            with self._changed:
                self._until = None

    def stop(self) -> None:
        """Let the thread end."""
        with self._changed:
            self._stopped = True
            self._changed.notify()

    def _watch(self) -> None:
        with self._changed:
            while not self._stopped:
                if self._until is None:
                    self._is_idle = True
                    self._changed.wait()
                    self._is_idle = False
                elif (left := self._until - time.monotonic()) > 0:
                    self._changed.wait(left)
                else:
                    self._until = None
                    self._end()


TABLES = (
    "actions",
    "arrival_minutes",
    "attempts",
    "bodies",
    "deliveries",
    "handler_minutes",
    "handlers",
    "jobs",
    "marks",
    "once_keys",
    "quarantine",
    "schedules",
    "schema_version",
    "words",
    "work_items",
    "workers",
)
_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,62}").fullmatch
_PARTS = re.compile(
    r"(?P<text>'(?:[^']|'')*')|(?P<cast>::)|:(?P<name>\w+)|(?P<place>\?)"
    rf"|(?P<before>\b(?:FROM|JOIN|INTO|UPDATE)\s+)(?P<table>{'|'.join(TABLES)})\b"
)


class Translation:
    """Knows the schema, and the numbers of its locks.

    A statement names its values `:name`, or `?` where they come in a row. The names `append_lock` and
    `handlers_lock` are the numbers of locks, which it has no values for.
    """

    def __init__(self, schema: str) -> None:
        if not _SCHEMA(schema):
            raise ConfigurationError(
                f"{schema!r} cannot be the schema of a store: write small letters, digits and _, at most 63"
            )
        self.schema = schema
        self._locks = {f"{name}_lock": _number(f"{schema}/{name}") for name in ("append", "handlers", "migrate")}

    @lru_cache(maxsize=1_024)  # noqa: B019 - as many as a process has connections
    def __call__(self, sql: str) -> str:
        """Return a statement as the driver wants it (psycopg manual, Passing parameters to SQL queries)."""
        return _PARTS.sub(self._part, sql.replace("%", "%%"))

    def _part(self, found: re.Match[str]) -> str:
        if found["table"]:
            return f'{found["before"]}"{self.schema}".{found["table"]}'
        if found["place"]:
            return "%s"
        if found["name"] in self._locks:
            return str(self._locks[found["name"]])
        return f"%({found['name']})s" if found["name"] else found[0]


def _number(name: str) -> int:
    """Return a number for the first half of an advisory lock's key: 32 bits with a sign."""
    return zlib.crc32(name.encode()) - 2**31


CONNECT_SECONDS = 2
"""The shortest that libpq knows."""
_OPTIONS = {
    "client_encoding": "UTF8",
    "connect_timeout": CONNECT_SECONDS,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
    "fallback_application_name": "receiver",
}
_FACTS = """
SELECT pg_backend_pid(), current_setting('server_encoding'), pg_is_in_recovery(), current_setting('fsync')
"""


class _WholeNumbers(NumericBinaryLoader):
    """Reads sums: those of whole numbers are whole."""

    def load(self, data: Any) -> Any:
        return int(super().load(data))


class _WholeNumbersOfText(NumericLoader):
    """The same for text."""

    def load(self, data: Any) -> Any:
        return int(super().load(data))


class PostgresConnection:
    """An SqlConnection. Every statement is a transaction of its own, but for those after BEGIN.

    All rows of a statement are in memory when `execute` returns.
    """

    def __init__(
        self, address: Address, translate: Translation, deadline: StatementDeadline, *, writes: bool
    ) -> None:
        self._translate = translate
        self._deadline = deadline
        self._was_late = False
        self.raw: psycopg.Connection[Any] = psycopg.connect(address.conninfo, autocommit=True, **_missing(address))
        self._socket = socket.socket(fileno=os.dup(self.raw.pgconn.socket))
        try:
            self._set_up(address, writes)
        except BaseException:
            self.close()
            raise

    def execute(self, sql: str, values: Mapping[str, object] | Sequence[object] = (), /) -> Any:
        """Run a statement."""
        cursor = self.raw.cursor(binary=True)
        with self._limited():
            cursor.execute(self._translate(sql).encode(), values)
        return cursor

    def command(self, sql: str) -> str:
        """Run a text of commands without values, in one round trip; return what the server says of the last one."""
        with self._limited():
            return self.raw.execute(sql.encode()).statusmessage or ""

    def tame_planner(self) -> None:
        """Let no plan scan a table, and compile none. Transactions say so themselves where sessions are shared."""
        if self.raw.prepare_threshold is not None:
            self.command("SET jit = off; SET enable_seqscan = off")

    def roll_back(self) -> None:
        """Undo an open transaction, or close the connection where that fails."""
        if self.raw.info.transaction_status == TransactionStatus.IDLE:
            return
        try:
            self.command("ROLLBACK")
        except psycopg.Error:
            self.close()

    def is_usable(self) -> bool:
        """Return whether the server has not ended the connection. This sends nothing, and reads what came."""
        if self.raw.closed:
            return False
        ready = select.poll()
        ready.register(self._socket, select.POLLIN)
        try:
            while ready.poll(0):  # the server has said something unasked, mostly that it ends the connection
                self.raw.pgconn.consume_input()
        except psycopg.Error:
            return False
        return self.raw.pgconn.status == psycopg.pq.ConnStatus.OK

    def close(self) -> None:
        """Close the connection."""
        with suppress(OSError):
            self._socket.close()
        self.raw.close()

    def _set_up(self, address: Address, writes: bool) -> None:
        self.raw.adapters.register_dumper(int, Int8BinaryDumper)
        self.raw.adapters.register_dumper(list, ListBinaryDumper)
        self.raw.adapters.register_loader("numeric", _WholeNumbersOfText)
        self.raw.adapters.register_loader("numeric", _WholeNumbers)
        self.raw.prepare_threshold = None
        pid, encoding, is_standby, fsync = self.execute(_FACTS).fetchone()
        if encoding != "UTF8":
            raise StoreRefused(f"the database {address.name} has the encoding {encoding}: make one with UTF8")
        if writes and fsync == "off":
            raise StoreRefused(f"the server of the database {address.name} has fsync off: it loses what it keeps")
        if writes and is_standby:
            raise StoreError(f"the database {address.name} cannot be written: the server is a standby")
        # A pooler gives each transaction another session of the server, and they do not share what was prepared.
        if pid == self.raw.info.backend_pid:
            self.raw.prepare_threshold = 5

    def _limited(self) -> Any:
        return self._deadline.over(self._shut)

    def _shut(self) -> None:
        self._was_late = True
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    @property
    def late(self) -> timedelta | None:
        """How long the server had to answer when it did not, None if it always has."""
        return self._deadline.limit if self._was_late else None


def _missing(address: Address) -> dict[str, Any]:
    """Return the options of ours that the address does not give itself."""
    given = psycopg.conninfo.conninfo_to_dict(address.conninfo)
    return {name: value for name, value in _OPTIONS.items() if name not in given}
