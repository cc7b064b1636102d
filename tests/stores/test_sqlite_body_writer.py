"""Long bodies of new deliveries, and how they are written into files beside the database."""

import asyncio
import errno
import os
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from receiver.core.types import AppendOutcome, DeliveryKey
from receiver.errors import StoreError
from receiver.stores.sqlite import bodies
from receiver.stores.sqlite.database import Database
from receiver.stores.sqlite.files import prepare
from receiver.stores.sqlite.log import SqliteLog
from receiver.stores.sqlite.store import SqliteStore
from tests.doubles import NOON, appended, delivery
from tests.stores.beside import LONG, NOISE, PLAIN, body, codings, move, reclaim, unreadable
from tests.stores.conftest import open_all

pytestmark = pytest.mark.usefixtures("files_go_at_once")

FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


async def test_a_body_is_synced_before_the_commit_that_names_it(
    sqlite_store: SqliteStore, calls: list[str]
) -> None:
    """With its file and the name of that. So a power cut leaves no delivery without its body."""
    async with sqlite_store.log() as log:
        assert isinstance(log, SqliteLog)
        calls.clear()  # those that made the database
        await log.database.call(lambda connection: connection.set_trace_callback(calls.append))

        await appended(log, delivery("a", body=LONG))
        await appended(log, delivery("b", body=LONG))

    steps = [one for one in calls if one.startswith(("sync", "BEGIN", "COMMIT"))]
    assert steps[:4] == ["BEGIN IMMEDIATE", "sync folder", "sync bodies", "COMMIT"]
    assert [one for one in steps[4:] if one != "COMMIT"] == ["BEGIN IMMEDIATE", "sync bodies"]


async def test_the_writer_goes_on_in_a_new_file(sqlite_store: SqliteStore, path: Path) -> None:
    """When the one it has open was removed, by a worker or by somebody's hand."""
    async with open_all(sqlite_store) as opened:
        await opened.add(delivery("a", body=LONG))
        await move(opened)
        await reclaim(opened)
        await opened.add(delivery("b", body=LONG))

        [file] = bodies.body_files(path)
        file.unlink()
        await opened.add(delivery("c", body=LONG))

        assert [await body(opened, key) for key in "ac"] == [LONG, LONG]
        assert f"body of delivery b cannot be read: {file}: No such file" in await unreadable(opened, "b")


async def test_a_full_file_is_followed_by_another(
    sqlite_store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its room is free as soon as its own bodies have been moved."""
    monkeypatch.setattr(bodies, "MAX_FILE_BYTES", len(LONG) + 1)
    async with open_all(sqlite_store) as opened:
        for key in "abc":
            await opened.add(delivery(key, body=LONG))

        sizes = [one.stat().st_size for one in bodies.body_files(path)]
        assert sorted(sizes) == [len(LONG), 2 * len(LONG)]
        assert [await body(opened, key) for key in "abc"] == [LONG] * 3


async def test_a_readiness_check_writes_where_long_bodies_go(
    sqlite_store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It fails while a long body would, and takes no room. The bodies in the same batch stay."""
    async with open_all(sqlite_store) as opened:
        await asyncio.gather(appended(opened.log, delivery("a", body=LONG)), opened.log.probe(NOON, size=50_000))
        assert sum(one.stat().st_size for one in bodies.body_files(path)) == len(LONG)

        def fail(*_: object) -> int:
            raise FULL

        with monkeypatch.context() as patched:
            patched.setattr(os, "pwrite", fail)
            with pytest.raises(StoreError, match="No space left on device"):
                await opened.log.probe(NOON, size=50_000)
        assert await body(opened, "a") == LONG
        assert sum(one.stat().st_size for one in bodies.body_files(path)) == len(LONG)


async def test_a_file_that_was_replaced_gets_no_more_bodies(sqlite_store: SqliteStore, path: Path) -> None:
    """What is written goes into the old one, which nobody finds any more."""
    async with open_all(sqlite_store) as opened:
        await opened.add(delivery("a", body=LONG))
        [file] = bodies.body_files(path)
        kept = file.read_bytes()
        file.unlink()
        file.write_bytes(kept)
        await opened.add(delivery("b", body=LONG))

        assert [await body(opened, key) for key in "ab"] == [LONG, LONG]
        assert len(bodies.body_files(path)) == 2


async def test_the_next_batch_gives_back_the_room_of_a_file_that_was_removed(
    sqlite_store: SqliteStore, path: Path
) -> None:
    """A file that is open keeps it, and short deliveries may be all that come."""

    def left() -> int:
        names: list[str] = []
        for link in Path("/proc/self/fd").iterdir():
            with suppress(FileNotFoundError):  # closed meanwhile
                names.append(str(link.readlink()))
        return sum(name.startswith(f"{path}-bodies-") for name in names)

    async with open_all(sqlite_store) as opened:
        await opened.add(delivery("a", body=LONG))
        await opened.add(delivery("b"))
        assert left() == 1
        bodies.body_files(path)[0].unlink()
        await opened.add(delivery("c"))
        assert left() == 0


async def test_a_file_that_cannot_be_closed_is_given_up(
    sqlite_store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its number may soon be that of another file. The delivery that is committed meanwhile is not refused."""
    real = os.close
    closed: list[int] = []

    def close(descriptor: int) -> None:
        real(descriptor)
        closed.append(descriptor)
        raise OSError(errno.EIO, "Input/output error")

    async with open_all(sqlite_store) as opened:
        await opened.add(delivery("a", body=LONG))
        bodies.body_files(path)[0].unlink()
        with monkeypatch.context() as patched:
            patched.setattr(os, "close", close)
            await opened.add(delivery("b"))
            await opened.add(delivery("c"))
        assert len(closed) == 1
        await opened.add(delivery("d", body=LONG))
        assert await body(opened, "d") == LONG


@pytest.mark.parametrize("length", [500_000_000, 500_000_001])
def test_no_body_lies_in_a_file_that_sqlite_could_not_read(length: int) -> None:
    """It refuses longer ones when they are written."""

    class Long(bytes):
        """A body of this length."""

        def __len__(self) -> int:
            return length

    assert bodies.is_long(Long()) is (length == 500_000_000)


async def test_a_folder_that_cannot_be_read_gets_no_files(
    sqlite_store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name there cannot be synced, so long bodies go into the database."""
    monkeypatch.setattr(os, "access", lambda folder, mode: not (folder == path.parent and mode == os.R_OK))
    async with open_all(sqlite_store) as opened:
        await opened.add(delivery(body=LONG))

    assert codings(path) == {"k": PLAIN}


@pytest.mark.parametrize("full", ["pwrite", "sync"])
async def test_a_full_disk_refuses_the_batch_and_nothing_else(
    sqlite_store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch, full: str
) -> None:
    """After a failed sync the file is never used again: nobody knows what it lacks. No room is wasted."""

    def fail(*_: object) -> int:
        raise FULL

    async with open_all(sqlite_store) as opened:
        await opened.add(delivery("a", body=LONG))
        with monkeypatch.context() as patched:
            patched.setattr(*((os, "pwrite", fail) if full == "pwrite" else (bodies, "sync", fail)))
            for _ in range(2):
                with pytest.raises(StoreError, match="No space left on device"):
                    await appended(opened.log, delivery("b", body=LONG))
            assert [one.stat().st_size for one in bodies.body_files(path)] == [len(LONG)]

        assert await opened.add(delivery("b", body=LONG)) == [AppendOutcome.ACCEPTED]
        assert [await body(opened, key) for key in "ab"] == [LONG, LONG]
        assert len(bodies.body_files(path)) == 2


async def test_a_batch_that_is_not_committed_takes_no_room(sqlite_store: SqliteStore, path: Path) -> None:
    """Here the database cannot grow. What was in the file before stays, and the next body has a file of its own."""
    async with sqlite_store.log() as log, sqlite_store.reports() as reports:
        assert isinstance(log, SqliteLog)
        await appended(log, delivery("a", body=LONG))
        await log.database.call(lambda connection: connection.execute("PRAGMA max_page_count = 1").fetchone())
        others = [delivery(f"short-{n}", body=b"x" * 7_000) for n in range(100)]
        results = await asyncio.gather(
            *[appended(log, one) for one in (delivery("b", body=NOISE), *others)], return_exceptions=True
        )
        assert {type(one) for one in results} == {StoreError}
        assert [one.stat().st_size for one in bodies.body_files(path)] == [len(LONG)]

        await log.database.call(lambda connection: connection.execute("PRAGMA max_page_count = 9999").fetchone())
        await appended(log, delivery("b", body=NOISE))
        found = [(await reports.detail(DeliveryKey(key))).body for key in "ab"]
        assert found == [LONG, NOISE]
        assert [one.stat().st_size for one in bodies.body_files(path)].count(len(LONG)) == 1


async def test_an_error_behind_the_commit_loses_no_body(path: Path) -> None:
    """Such as one of a checkpoint: the answer is 503, and the delivery is stored."""

    def fail(_: sqlite3.Connection) -> None:
        raise sqlite3.OperationalError("no checkpoint now")

    prepare(path, create=True)
    async with Database(path, after_commit=fail) as database:
        log = SqliteLog(database, path, bodies.body_writer(path))
        with pytest.raises(StoreError, match="no checkpoint now"):
            await appended(log, delivery(body=LONG))
        await log.aclose()

    async with SqliteStore(f"sqlite:///{path}").reports() as reports:
        assert (await reports.detail(DeliveryKey("k"))).body == LONG


async def test_a_body_that_the_system_takes_in_pieces_is_whole(
    sqlite_store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A write may take less than it was given."""
    real: Callable[[int, Any, int], int] = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda file, rest, at: real(file, rest[:1_000], at))
    async with open_all(sqlite_store) as opened:
        await opened.add(delivery("a", body=LONG), delivery("b", body=NOISE))

        assert [await body(opened, key) for key in "ab"] == [LONG, NOISE]


@pytest.mark.parametrize(("code", "left"), [(sqlite3.SQLITE_FULL, 0), (sqlite3.SQLITE_IOERR_FSYNC, len(LONG))])
async def test_bodies_of_a_commit_that_may_come_back_stay(made: Path, code: int, left: int) -> None:
    """After a failed sync of the log nobody knows what a crash leaves of it. A full disk has taken no commit."""
    error = sqlite3.OperationalError("the commit has failed")
    error.sqlite_errorcode = code
    writer = bodies.body_writer(made)
    assert writer is not None
    with closing(sqlite3.connect(made)) as connection:
        writer.write(connection, [LONG])

        writer.give_up(connection, error)

    assert sum(one.stat().st_size for one in bodies.body_files(made)) == left
