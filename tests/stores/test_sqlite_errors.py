"""SQLite's errors in our own words, and a log that works again when their cause has gone."""
# ruff: noqa: ASYNC240 - looks at small files between two steps of a test, where nothing else runs

import asyncio
import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from receiver.core.claims import ClaimLimits, HandlerClaim, Lease
from receiver.core.deliveries import DeliveryFilter
from receiver.core.types import AppendOutcome, HandlerName, HandlerSwitch, WorkerId
from receiver.errors import ReceiverError, StoreError, StoreRefused
from receiver.stores.sqlite.database import Database, translated
from receiver.stores.sqlite.files import prepare
from receiver.stores.sqlite.log import SqliteLog
from receiver.stores.sqlite.store import SqliteStore
from tests.doubles import NOON, appended, delivery, soon
from tests.stores.opened import ended
from tests.stores.rows import execute, select

PATIENCE = timedelta(milliseconds=20)


def insert(connection: sqlite3.Connection) -> None:
    connection.execute(
        "INSERT INTO quarantine (received_at, reason, detail, headers, body) "
        "VALUES (0, '', '', '[]', zeroblob(100000))"
    )


def check_words(error: ReceiverError, path: Path, words: str) -> None:
    """The message is one line with the file and the fault, and has nothing of SQLite's own tracebacks."""
    assert str(path) in str(error)
    assert words in str(error)
    assert "\n" not in str(error)
    assert "sqlite3." not in str(error)
    assert "Error" not in str(error)


@pytest.mark.parametrize(
    ("code", "kind", "words"),
    [
        (sqlite3.SQLITE_BUSY, StoreError, "locked by another process"),
        (sqlite3.SQLITE_BUSY_SNAPSHOT, StoreError, "locked by another process"),
        (sqlite3.SQLITE_BUSY_RECOVERY, StoreError, "locked by another process"),
        (sqlite3.SQLITE_LOCKED, StoreError, "locked by another process"),
        (sqlite3.SQLITE_FULL, StoreError, "the disk is full"),
        (sqlite3.SQLITE_IOERR_SHMSIZE, StoreError, "the disk is full"),
        (sqlite3.SQLITE_IOERR, StoreError, "reading or writing the file failed"),
        (sqlite3.SQLITE_IOERR_FSYNC, StoreError, "reading or writing the file failed"),
        (sqlite3.SQLITE_IOERR_WRITE, StoreError, "reading or writing the file failed"),
        (sqlite3.SQLITE_READONLY, StoreError, "read-only for this user"),
        (sqlite3.SQLITE_READONLY_DBMOVED, StoreError, "read-only for this user"),
        (sqlite3.SQLITE_CANTOPEN, StoreError, "cannot be opened"),
        (sqlite3.SQLITE_PERM, StoreError, "permission denied"),
        (sqlite3.SQLITE_TOOBIG, StoreError, "longer than SQLite allows"),
        (sqlite3.SQLITE_NOTADB, StoreRefused, "not a SQLite database"),
        (sqlite3.SQLITE_CORRUPT, StoreRefused, "it is damaged"),
        (sqlite3.SQLITE_CORRUPT_INDEX, StoreRefused, "it is damaged"),
        (sqlite3.SQLITE_INTERRUPT, StoreError, "something of SQLite's own"),
    ],
)
def test_every_code_has_its_words(path: Path, code: int, kind: type[ReceiverError], words: str) -> None:
    """Faults that time cannot mend are refused. All others may be tried again."""
    error = sqlite3.OperationalError("something of SQLite's own")
    error.sqlite_errorcode = code

    with pytest.raises(kind) as caught, translated(path):
        raise error

    check_words(caught.value, path, words)
    assert caught.value.__cause__ is error


def test_other_errors_come_through_as_they_are(path: Path) -> None:
    """They are mistakes of ours, and have to be seen."""
    with pytest.raises(ValueError, match="of ours"), translated(path):
        raise ValueError("of ours")


async def test_the_error_of_a_full_disk_says_so(made: Path) -> None:
    """Here a limit on pages stands in for one."""
    async with Database(made, setup="PRAGMA max_page_count = 20;") as full:
        with pytest.raises(StoreError) as caught:
            await full.call(insert)

    check_words(caught.value, made, "the disk is full")


async def test_the_error_of_a_read_only_database_says_so(made: Path) -> None:
    """A reader that writes gets it too."""
    async with Database(made, read_only=True) as reader:
        with pytest.raises(StoreError) as caught:
            await reader.call(insert)

    check_words(caught.value, made, "read-only")


async def test_the_error_of_a_file_that_cannot_be_opened_says_so(path: Path) -> None:
    """To open a connection creates nothing."""
    with pytest.raises(StoreError) as caught:
        async with Database(path):
            pass

    check_words(caught.value, path, "cannot be opened")
    assert not path.exists()


async def test_a_damaged_file_is_refused(made: Path) -> None:
    """A page in the middle is garbage, and time does not help."""
    content = bytearray(made.read_bytes())
    content[4096:] = b"\xff" * (len(content) - 4096)
    made.write_bytes(content)

    async with Database(made) as damaged:
        with pytest.raises(StoreRefused) as caught:
            await damaged.call(lambda connection: connection.execute("SELECT * FROM deliveries").fetchall())

    check_words(caught.value, made, "damaged")


@pytest.mark.parametrize(
    "name", ["indexed", "keyed", "keys_moving", "keys_part", "keys_place", "routed", "store", "summed"]
)
async def test_a_store_that_lacks_a_number_is_damaged(made: Path, name: str) -> None:
    """Each face says so when it is opened. A worker without one of them would find nothing to do."""
    execute(made, f"DELETE FROM marks WHERE name = '{name}'")
    store = SqliteStore(f"sqlite:///{made}")

    for face in (store.log, store.queue, store.controls, store.reports, store.maintenance):
        with pytest.raises(StoreRefused) as caught:
            async with face():
                pass
        check_words(caught.value, made, "it is damaged; `receiver restore` puts a backup in its place")


async def test_a_number_that_is_lost_later_is_a_store_error(made: Path) -> None:
    """Senders have to try again until the store is mended."""
    async with SqliteStore(f"sqlite:///{made}").log() as log:
        execute(made, "DELETE FROM marks WHERE name = 'keyed'")
        with pytest.raises(StoreError) as caught:
            await appended(log, delivery("a"))

    check_words(caught.value, made, "it is damaged")


async def test_a_closed_database_is_a_store_error(made: Path) -> None:
    """A request that comes after the store was closed gets 503 as for any other fault."""
    async with Database(made) as closed:
        pass

    with pytest.raises(StoreError, match="is closed"):
        await closed.call(insert)


@pytest.fixture
def held(made: Path) -> Any:
    """A connection of another process that holds the write lock."""
    with closing(sqlite3.connect(made, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield connection


async def test_a_locked_database_fails_the_append_and_keeps_nothing(made: Path, held: sqlite3.Connection) -> None:
    """Appends work again as soon as the lock is gone."""
    store = SqliteStore(f"sqlite:///{made}", patience=PATIENCE)
    async with store.log() as log, store.reports() as reports:
        for write in (appended(log, delivery()), log.probe(NOON)):
            with pytest.raises(StoreError) as caught:
                await soon(write)
            check_words(caught.value, made, "locked")
        held.execute("ROLLBACK")

        assert await reports.count_unfinished() == 0
        assert (await appended(log, delivery())).outcome is AppendOutcome.ACCEPTED


async def test_a_probe_needs_the_room_of_its_size_and_leaves_nothing(made: Path) -> None:
    """Here a limit on the pages of the database stands in for a full disk."""
    async with SqliteStore(f"sqlite:///{made}").log() as log:
        assert isinstance(log, SqliteLog)
        marks = select(made, "SELECT name FROM marks")
        await log.probe(NOON, 100_000)
        assert select(made, "SELECT name FROM marks WHERE name <> 'probe'") == marks
        [(pages,)] = select(made, "PRAGMA page_count")
        await log.database.call(
            lambda connection: connection.execute(f"PRAGMA max_page_count = {pages}").fetchall()
        )

        await log.probe(NOON)
        with pytest.raises(StoreError, match="the disk is full"):
            await log.probe(NOON, 1_000_000)
        await log.probe(NOON, 10_000)
    assert select(made, "SELECT name FROM marks WHERE name <> 'probe'") == marks


async def test_a_locked_database_fails_worker_and_operator(made: Path, held: sqlite3.Connection) -> None:
    """Every writing call raises and changes nothing. Reading goes on, also for a claim that finds nothing."""
    held.execute("ROLLBACK")
    store = SqliteStore(f"sqlite:///{made}", patience=PATIENCE)
    lease, handler = Lease(WorkerId("w"), NOON), HandlerName("h")
    async with store.log() as log, store.queue() as queue, store.controls() as controls, store.reports() as reports:
        await appended(log, delivery())
        held.execute("BEGIN IMMEDIATE")
        batch = await queue.routing_batch(limit=1, max_bytes=1)

        for write in (
            queue.route(batch, [], lease=lease, now=NOON),
            queue.mark_started([1], lease.worker),
            queue.renew([1], lease),
            queue.settle([ended(1)]),
            queue.release_leases([1], lease.worker, now=NOON),
            queue.expire_leases_of(lease.worker, now=NOON),
            queue.recheck(1, at=NOON, note="x"),
            queue.release(1, now=NOON, note="x"),
            queue.once(handler, "key", now=NOON),
            controls.retry([1], now=NOON),
            controls.bury([1], "x", now=NOON),
            controls.switch(handler, HandlerSwitch.PAUSED),
        ):
            with pytest.raises(StoreError, match="locked"):
                await write

        assert await queue.claim([HandlerClaim(handler)], ClaimLimits(1, 1), lease=lease, now=NOON) == ()
        assert await queue.switches() == {}
        assert [one.key async for one in reports.deliveries(DeliveryFilter())] == ["k"]


async def test_a_full_disk_fails_its_own_batch_and_the_log_recovers(made: Path) -> None:
    """Nothing is acknowledged that is not stored, and no restart is needed."""
    store = SqliteStore(f"sqlite:///{made}")
    async with store.log() as log, store.reports() as reports:
        assert isinstance(log, SqliteLog)
        await log.database.call(lambda connection: connection.execute("PRAGMA max_page_count = 30").fetchone())

        results = await asyncio.gather(
            *[appended(log, delivery(str(n), body=b"x" * 8_000)) for n in range(40)], return_exceptions=True
        )
        assert [type(result) for result in results] == [StoreError] * 40
        assert await reports.count_unfinished() == 0

        await log.database.call(lambda connection: connection.execute("PRAGMA max_page_count = 100000").fetchone())
        assert (await appended(log, delivery("0", body=b"x" * 8_000))).outcome is AppendOutcome.ACCEPTED


@pytest.mark.parametrize("deed", ["deleted", "moved", "replaced"])
async def test_a_database_that_is_taken_away_fails_every_append(
    made: Path, sqlite_store: SqliteStore, deed: str
) -> None:
    """SQLite would write more into a file that nobody finds again. When it is back, it is used again."""
    async with sqlite_store.log() as log:
        aside = made.with_name("aside.db")
        made.rename(aside)
        if deed == "deleted":
            aside.unlink()
        if deed == "replaced":
            prepare(made, create=True)

        with pytest.raises(StoreError, match="was moved or deleted"):
            await appended(log, delivery())

        if deed == "moved":
            aside.rename(made)
            assert (await appended(log, delivery())).outcome is AppendOutcome.ACCEPTED


@pytest.mark.parametrize("code", [sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_SHMSIZE])
@pytest.mark.parametrize("room", [True, False])
async def test_work_is_tried_once_more_after_room_was_made(made: Path, code: int, room: bool) -> None:
    """Without room the error comes at once, and a second error comes too."""
    tries: list[int] = []

    def work(connection: sqlite3.Connection) -> None:
        tries.append(1)
        error = sqlite3.OperationalError("no room")
        error.sqlite_errorcode = code
        raise error

    async with Database(made, make_room=lambda: room) as database:
        with pytest.raises(StoreError):
            await database.call(work)

    assert len(tries) == 1 + room
