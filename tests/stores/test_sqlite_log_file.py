"""The write-ahead log: synced before an ack, and moved into the database beside the ack path, not in it."""
# ruff: noqa: ASYNC240 - looks at small files between two steps of a test, where nothing else runs

import asyncio
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from receiver.core.deliveries import Quarantined
from receiver.stores.sql.connection import SqlDatabase
from receiver.stores.sqlite.checkpoints import Checkpointer
from receiver.stores.sqlite.database import Database
from receiver.stores.sqlite.log import SqliteLog
from receiver.stores.sqlite.queue import SqliteQueue
from receiver.stores.sqlite.store import SqliteStore
from receiver.stores.sqlite.write_ahead_log import log_path
from tests.doubles import NOON, appended, delivery, event_of, eventually, soon, turns
from tests.stores.opened import ONE

PAGE = 4096
LONG_LOG = 70 * 1024 * 1024
"""More than the pages after which the log is made to start again."""


async def pragma(database: SqlDatabase, name: str) -> object:
    return await database.call(lambda connection: connection.execute(f"PRAGMA {name}").fetchone()[0])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("synchronous", 2),
        ("fullfsync", 1),
        ("checkpoint_fullfsync", 1),
        ("wal_autocheckpoint", 0),
        ("journal_mode", "wal"),
    ],
)
async def test_the_log_syncs_every_commit_and_never_checkpoints_in_one(
    sqlite_store: SqliteStore, name: str, value: object
) -> None:
    """P1: a resolved future means that the disk has it, on macOS too."""
    async with sqlite_store.log() as log:
        assert isinstance(log, SqliteLog)
        assert await pragma(log.database, name) == value


@pytest.mark.parametrize(
    ("name", "value"), [("synchronous", 1), ("wal_autocheckpoint", 0), ("journal_mode", "wal")]
)
async def test_the_worker_does_not_sync_and_does_not_checkpoint_in_a_commit(
    sqlite_store: SqliteStore, name: str, value: object
) -> None:
    """A power cut may lose `done`, and then work is repeated. Acks wait for no checkpoint of the worker."""
    async with sqlite_store.queue() as queue:
        assert isinstance(queue, SqliteQueue)
        assert await pragma(queue.database, name) == value


async def test_a_once_key_is_synced_before_anybody_gets_it(sqlite_store: SqliteStore) -> None:
    """After a power cut the action of a handler would be done twice. What follows is not synced again."""
    async with sqlite_store.queue() as queue:
        assert isinstance(queue, SqliteQueue)
        said: list[str] = []
        await queue.database.call(lambda connection: connection.set_trace_callback(said.append))
        assert await queue.once(ONE, "mail", now=NOON)
        await queue.database.call(lambda connection: connection.set_trace_callback(None))

        assert [one for one in said if not one.lstrip().startswith("INSERT")] == [
            "PRAGMA synchronous",
            "PRAGMA synchronous = FULL",
            "BEGIN IMMEDIATE",
            "COMMIT",
            "PRAGMA synchronous = 1",  # NORMAL (SQLite manual, PRAGMA synchronous)
        ]
        assert await pragma(queue.database, "fullfsync") == 1


async def test_a_commit_leaves_the_database_file_alone(made: Path, sqlite_store: SqliteStore) -> None:
    """Here it passes the 1,000 pages at which SQLite would checkpoint by itself."""
    async with sqlite_store.log() as log:
        before = made.stat().st_size
        await log.quarantine(Quarantined(NOON, "conflict", "", None, (), b"x" * 6_000_000))
        size = made.with_name("receiver.db-wal").stat().st_size
        grown = made.stat().st_size - before

    assert size > 6_000_000
    assert grown == 0


async def test_the_log_is_checkpointed_in_the_background(made: Path, sqlite_store: SqliteStore) -> None:
    """Nobody has to close the store for it."""
    async with sqlite_store.log() as log:
        before = made.stat().st_size
        await asyncio.gather(*[appended(log, delivery(str(n), body=b"x" * 8_000)) for n in range(130)])
        await eventually(lambda: made.stat().st_size - before > 900_000)


class SlowToClose:
    """Stands in for a connection that takes as long to close as the test wants."""

    def __init__(self) -> None:
        self.opened, self.closing, self.may_close = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def __aenter__(self) -> "SlowToClose":
        self.opened.set()
        return self

    async def __aexit__(self, *exc: object) -> None:
        self.closing.set()
        await self.may_close.wait()

    async def call(self, work: object) -> None:
        """Do nothing."""


async def test_a_caller_who_is_cancelled_while_checkpointing_ends_is_cancelled() -> None:
    """If the end of checkpointing swallowed it, a worker that is stopped at this moment would go on."""
    database = SlowToClose()
    checkpointer = Checkpointer(lambda: database, Path(), interval=timedelta(0))  # type: ignore[arg-type, return-value]

    async def use() -> None:
        async with checkpointer.used():
            await database.opened.wait()

    using = asyncio.create_task(use())
    await soon(database.closing.wait())
    using.cancel()
    await asyncio.wait([using])
    database.may_close.set()

    assert using.cancelled()


async def test_all_writers_of_a_store_share_one_checkpointer(made: Path) -> None:
    """It runs while one of them is there, and again when another comes."""
    connections: list[Database] = []

    def connect() -> Database:
        connections.append(Database(made))
        return connections[-1]

    checkpointer = Checkpointer(connect, log_path(made), interval=timedelta(0))
    for expected in (1, 2):
        async with checkpointer.used() as first, checkpointer.used() as second:
            assert first is second
            await eventually(lambda: len(connections) == expected)  # noqa: B023 - is called at once
        await turns()
        assert len(connections) == expected


async def test_checkpointing_goes_on_after_a_fault(made: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It opens its connection again, and no writer gets the error. A fault of ours is told with its traceback."""
    faulty = SlowToClose()
    faulty.may_close.set()
    faulty.call = _break  # type: ignore[method-assign]
    connections = [Database(made.with_name("missing.db")), faulty, Database(made)]
    checkpointer = Checkpointer(lambda: connections.pop(0), log_path(made), interval=timedelta(0))  # type: ignore[arg-type, return-value]
    async with checkpointer.used():
        await eventually(lambda: not connections)

    assert [event_of(one) for one in caplog.records if one.exc_info] == ["checkpoint_crashed"]


async def _break(work: object) -> None:
    raise KeyError("a fault of ours")


async def test_a_closed_store_leaves_one_file(made: Path, sqlite_store: SqliteStore) -> None:
    """The last writer that leaves empties the log."""
    async with sqlite_store.log() as log, sqlite_store.queue():
        await appended(log, delivery())

    assert [entry.name for entry in made.parent.iterdir()] == [made.name]


@pytest.fixture
def writer(made: Path) -> Iterator[sqlite3.Connection]:
    """A connection that commits without syncing and never checkpoints by itself."""
    with closing(sqlite3.connect(made, isolation_level=None)) as connection:
        connection.executescript("PRAGMA synchronous = OFF; PRAGMA wal_autocheckpoint = 0; PRAGMA busy_timeout = 0")
        yield connection


def write(connection: sqlite3.Connection, size: int) -> None:
    connection.execute(
        "INSERT INTO quarantine (received_at, reason, detail, headers, body) VALUES (0, '', '', '[]', zeroblob(?))",
        (size,),
    )


def test_a_long_log_that_is_moved_at_once_is_left_alone(made: Path, writer: sqlite3.Connection) -> None:
    """A second checkpoint could meet a commit that starts the log again: SQLite before 3.51.3 can lose that one."""
    checkpointer = Checkpointer(lambda: Database(made), log_path(made), max_log_pages=2_048, max_log_bytes=10**9)
    statements: list[str] = []
    write(writer, LONG_LOG)
    writer.set_trace_callback(statements.append)

    checkpointer.checkpoint(writer)
    checkpointer.checkpoint(writer)

    assert sum("wal_checkpoint" in one for one in statements) == 1


def test_a_log_that_its_writer_has_emptied_is_left_alone(made: Path, writer: sqlite3.Connection) -> None:
    """The next commit starts it again, and a checkpoint must not meet that one either."""
    checkpointer = Checkpointer(lambda: Database(made), log_path(made), max_log_bytes=PAGE)
    statements: list[str] = []
    with closing(sqlite3.connect(made, isolation_level=None)) as background:
        background.set_trace_callback(statements.append)
        write(writer, 3 * PAGE)
        checkpointer.after_commit(writer)

        checkpointer.checkpoint(background)
        checkpointer.checkpoint(background)
        assert not any("wal_checkpoint" in one for one in statements)

        write(writer, PAGE)
        checkpointer.checkpoint(background)
        assert sum("wal_checkpoint" in one for one in statements) == 1


def test_a_log_that_never_runs_empty_is_restarted_when_too_long(made: Path, writer: sqlite3.Connection) -> None:
    """A commit comes between all checkpoints, so only the writer itself can let the log start at its front."""
    checkpointer = Checkpointer(lambda: Database(made), log_path(made), max_log_pages=2_048, max_log_bytes=10**9)
    wal = made.with_name("receiver.db-wal")
    with closing(sqlite3.connect(made, isolation_level=None)) as reader:
        write(writer, LONG_LOG)
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM quarantine").fetchone()
        write(writer, 10)  # the reader keeps this one out of the checkpoint
        checkpointer.checkpoint(writer)
        long = wal.stat().st_size

        checkpointer.after_commit(writer)  # the reader is still there: no wait, no error, no restart
        write(writer, 10 * PAGE)
        assert wal.stat().st_size > long

        reader.execute("ROLLBACK")
    longest = wal.stat().st_size
    for _ in range(3):
        write(writer, PAGE)
    with closing(sqlite3.connect(made, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM quarantine").fetchone()
        write(writer, PAGE)
        checkpointer.checkpoint(writer)
        reader.execute("ROLLBACK")
    checkpointer.after_commit(writer)
    end = wal.stat().st_size
    write(writer, 50 * PAGE)

    assert end > longest
    assert wal.stat().st_size == end  # written over from its front
    assert writer.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()[1] < 100
    assert writer.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_commits_do_not_restart_a_short_log(made: Path, writer: sqlite3.Connection) -> None:
    """The patience of the connection does not change either."""
    checkpointer = Checkpointer(lambda: Database(made), log_path(made), max_log_pages=2_048, max_log_bytes=10**9)
    writer.execute("PRAGMA busy_timeout = 1234")
    write(writer, PAGE)
    checkpointer.checkpoint(writer)
    checkpointer.after_commit(writer)
    size = made.with_name("receiver.db-wal").stat().st_size
    writer.execute("BEGIN")
    write(writer, 10)
    writer.execute("COMMIT")

    assert made.with_name("receiver.db-wal").stat().st_size == size  # emptied by the checkpoint, so begun anew
    assert writer.execute("PRAGMA busy_timeout").fetchone() == (1234,)


class Overtaken:
    """A connection whose checkpoint reports the log as it was when it began; a commit has come since."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def execute(self, sql: str) -> "Overtaken":
        """Run it."""
        self._row = self._connection.execute(sql).fetchone()
        return self

    def fetchone(self) -> tuple[int, ...]:
        """Return what SQLite says: it takes the length of the log before it starts to move pages."""
        if len(self._row) == 1:  # no checkpoint, but the question whether there is anything to do
            return tuple(self._row)
        busy, _, moved = self._row
        return busy, moved, moved


def test_a_log_is_restarted_although_every_checkpoint_seems_complete(
    made: Path, writer: sqlite3.Connection
) -> None:
    """A checkpoint does not see commits that are made while it runs.

    So the log may not be empty, although all is moved.
    """
    checkpointer = Checkpointer(lambda: Database(made), log_path(made), max_log_pages=2_048, max_log_bytes=10**9)
    wal = made.with_name("receiver.db-wal")
    write(writer, LONG_LOG)
    with closing(sqlite3.connect(made, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM quarantine").fetchone()
        write(writer, PAGE)
        checkpointer.checkpoint(Overtaken(writer))  # type: ignore[arg-type]
        reader.execute("ROLLBACK")
    checkpointer.after_commit(writer)
    end = wal.stat().st_size

    write(writer, 50 * PAGE)

    assert wal.stat().st_size == end


async def test_the_log_starts_again_under_writes_without_a_pause(made: Path) -> None:
    """Otherwise the log would grow for as long as the load lasts, until the disk is full."""
    wal = made.with_name("receiver.db-wal")
    body = os.urandom(1_000_000)
    sizes = [0]
    setup = "PRAGMA wal_autocheckpoint = 0; PRAGMA synchronous = OFF;"
    checkpointer = Checkpointer(
        lambda: Database(made, setup=setup),
        log_path(made),
        interval=timedelta(milliseconds=20),
        max_log_pages=1_000,
    )
    writer = Database(made, setup=setup, after_commit=checkpointer.after_commit)
    async with writer as database, checkpointer.used():
        log = SqliteLog(database, made, None)

        async def send(sender: int) -> None:
            for number in range(400):
                if len(sizes) > 20 and len(sizes) * len(body) > 2 * max(sizes):
                    return  # it has begun again at its front
                await appended(log, delivery(f"{sender}-{number}", body=body))
                sizes.append(wal.stat().st_size)

        await asyncio.gather(*[send(sender) for sender in range(6)])
        await log.aclose()
        written = (len(sizes) - 1) * len(body)

    assert max(sizes) < written


async def test_a_log_is_bounded_although_the_background_never_moves_it(made: Path) -> None:
    """The commit that passes the limit moves the pages itself, and the file is cut when the log starts again."""
    limit = 1024 * 1024
    checkpointer = Checkpointer(lambda: Database(made), log_path(made), max_log_bytes=limit)
    setup = f"PRAGMA wal_autocheckpoint = 0; PRAGMA synchronous = OFF; PRAGMA journal_size_limit = {limit};"
    body = os.urandom(100_000)
    async with Database(made, setup=setup, after_commit=checkpointer.after_commit) as database:
        log = SqliteLog(database, made, None)
        sizes = []
        for number in range(60):
            await appended(log, delivery(str(number), body=body))
            sizes.append(log_path(made).stat().st_size)
        await log.aclose()

    assert max(sizes) < limit + 3 * len(body)
    assert sum(sizes[n] <= limit < sizes[n - 1] for n in range(1, len(sizes))) >= 3


def test_a_reader_that_holds_the_log_makes_a_try_rare(made: Path, writer: sqlite3.Connection) -> None:
    """Each try takes time. When the reader has gone, the log is bounded again."""
    limit = 200_000
    tries = []
    writer.set_trace_callback(lambda sql: tries.append(sql) if "wal_checkpoint" in sql else None)
    writer.execute(f"PRAGMA journal_size_limit = {limit}")
    checkpointer = Checkpointer(lambda: Database(made), log_path(made), max_log_bytes=limit)
    with closing(sqlite3.connect(made, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM quarantine").fetchone()
        for _ in range(100):
            write(writer, PAGE)
            checkpointer.after_commit(writer)
        held = len(tries)
        longest = log_path(made).stat().st_size
        reader.execute("ROLLBACK")
    for _ in range(20):
        write(writer, 2 * PAGE)
        checkpointer.after_commit(writer)

    assert 2 <= held <= longest // (limit // 4)
    assert log_path(made).stat().st_size < 2 * limit
