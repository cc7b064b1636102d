"""Long bodies of new deliveries, which lie in files beside the database until they are moved into it."""
# ruff: noqa: ASYNC240 - looks at small files between two steps of a test, where nothing else runs

import asyncio
import errno
import hashlib
import os
import random
import shutil
import sqlite3
import stat
from collections.abc import Callable
from contextlib import closing, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from receiver.core.bulk import Imported
from receiver.core.deliveries import DeliveryFilter
from receiver.core.retention import PruneRule, Step
from receiver.core.types import AppendOutcome, DeliveryKey
from receiver.errors import StoreError
from receiver.stores.sql.compression import MIN_BYTES
from receiver.stores.sqlite import body_files, body_writer, synced, unused_files
from receiver.stores.sqlite.database import Database
from receiver.stores.sqlite.files import prepare
from receiver.stores.sqlite.log import SqliteLog
from receiver.stores.sqlite.statements import body_files as statements
from receiver.stores.sqlite.store import SqliteStore
from receiver.stores.sqlite.write_ahead_log import log_path
from tests.doubles import NOON, body_of, delivery
from tests.stores.conftest import open_all
from tests.stores.opened import DAY, MUCH, ONE, Opened
from tests.stores.rows import execute, select

PLAIN, DEFLATED, BESIDE = 0, 1, 2
LONG = body_of(text="some words of a page " * 2_000)
FOUND = body_of(data=[{"markdown": "x" * 20_000, "metadata": {"title": "lost and found"}}])
NOISE = random.Random(1).randbytes(3 * MIN_BYTES)
FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def codings(path: Path) -> dict[str, int]:
    """Return how each body is stored."""
    return dict(select(path, "SELECT d.key, b.coding FROM deliveries AS d JOIN bodies AS b USING (seq)"))


async def body(opened: Opened, key: str = "k") -> bytes | None:
    """Return the body of a delivery, as it is shown."""
    return (await opened.reports.detail(DeliveryKey(key))).body


async def unreadable(opened: Opened, key: str) -> str:
    """Return why the body of a delivery cannot be read."""
    detail = await opened.reports.detail(DeliveryKey(key))
    assert detail.body is None
    return detail.unreadable


async def move(opened: Opened) -> None:
    """Route what is new, and move the bodies into the database."""
    await opened.route()
    await opened.maintenance.compress(limit=1_000)


async def reclaim(opened: Opened) -> None:
    """Give back all unused room."""
    while await opened.maintenance.reclaim(MUCH):
        pass


@pytest.fixture(autouse=True)
def _without_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files go as soon as nothing is in them."""
    monkeypatch.setattr(unused_files, "UNUSED_SECONDS", 0.0)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The syncs of files and of folders, and what a test adds to them, in their order."""
    made: list[str] = []
    real_sync, real_folder = synced.sync, synced.sync_folder

    def sync(descriptor: int) -> None:
        real_sync(descriptor)
        made.append(f"sync {_kind(Path(f'/proc/self/fd/{descriptor}').readlink())}")

    def sync_folder(folder: Path) -> None:
        real_folder(folder)
        made.append("sync folder")

    monkeypatch.setattr(body_writer, "sync", sync)
    monkeypatch.setattr(synced, "sync", sync)
    monkeypatch.setattr(body_writer, "sync_folder", sync_folder)
    return made


def _kind(path: Path) -> str:
    return "bodies" if "-bodies-" in path.name else path.name.removeprefix("receiver.db")


async def test_only_long_bodies_lie_in_files(sqlite_store: SqliteStore, path: Path) -> None:
    """Those that take more than a page of the database. The file belongs to whom the database belongs."""
    async with open_all(sqlite_store) as opened:
        path.chmod(0o640)
        await opened.add(delivery("short", body=b"x" * (MIN_BYTES - 1)), delivery("long", body=b"x" * MIN_BYTES))

        assert codings(path) == {"short": PLAIN, "long": BESIDE}
        [file] = body_files.body_files(path)
        assert (file.stat().st_size, stat.S_IMODE(file.stat().st_mode)) == (MIN_BYTES, 0o640)
        assert (await opened.reports.facts()).bytes == sum(
            one.stat().st_size for one in (path, log_path(path), file)
        )


async def test_everybody_reads_the_whole_body(sqlite_store: SqliteStore) -> None:
    """Listings, exports, workers, the index of words, and the comparison with another arrival."""
    async with open_all(sqlite_store) as opened, sqlite_store.search() as search:
        assert await opened.add(delivery(body=LONG), delivery(body=LONG), delivery(body=LONG + b" ")) == [
            AppendOutcome.ACCEPTED,
            AppendOutcome.DUPLICATE,
            AppendOutcome.CONFLICT,
        ]
        assert await search.index(limit=10, max_bytes=MUCH) == 1

        assert await body(opened) == LONG
        found = [one async for one in opened.reports.iter_deliveries(DeliveryFilter())]
        assert [one.delivery.body for one in found] == [LONG]
        batch = await opened.queue.routing_batch(limit=10, max_bytes=MUCH)
        assert [one.delivery.body for one in batch.deliveries] == [LONG]
        await opened.route(ONE, claim=False)
        [item] = await opened.claim()
        assert item.source.delivery.body == LONG


async def test_a_body_is_synced_before_the_commit_that_names_it(
    sqlite_store: SqliteStore, calls: list[str]
) -> None:
    """With its file and the name of that. So a power cut leaves no delivery without its body."""
    async with sqlite_store.log() as log:
        assert isinstance(log, SqliteLog)
        calls.clear()  # those that made the database
        await log.database.call(lambda connection: connection.set_trace_callback(calls.append))

        await log.append(delivery("a", body=LONG))
        await log.append(delivery("b", body=LONG))

    steps = [one for one in calls if one.startswith(("sync", "BEGIN", "COMMIT"))]
    assert steps[:4] == ["BEGIN IMMEDIATE", "sync folder", "sync bodies", "COMMIT"]
    assert [one for one in steps[4:] if one != "COMMIT"] == ["BEGIN IMMEDIATE", "sync bodies"]


async def test_bodies_are_moved_into_the_database_and_then_the_file_goes(
    sqlite_store: SqliteStore, path: Path
) -> None:
    """Compressed where that gains much. What is new waits until it is routed, and its file with it."""
    async with open_all(sqlite_store) as opened:
        await opened.add(delivery("text", body=LONG), delivery("noise", body=NOISE))
        await opened.route()
        await opened.add(delivery("new", body=LONG))

        step = await opened.maintenance.compress(limit=1_000)
        await reclaim(opened)

        assert step.count == 2
        assert codings(path) == {"text": DEFLATED, "noise": PLAIN, "new": BESIDE}
        assert len(body_files.body_files(path)) == 1

        await move(opened)
        await reclaim(opened)

        assert body_files.body_files(path) == []
        assert [await body(opened, key) for key in ("text", "noise", "new")] == [LONG, NOISE, LONG]


async def test_the_writer_goes_on_in_a_new_file(sqlite_store: SqliteStore, path: Path) -> None:
    """When the one it has open was removed, by a worker or by somebody's hand."""
    async with open_all(sqlite_store) as opened:
        await opened.add(delivery("a", body=LONG))
        await move(opened)
        await reclaim(opened)
        await opened.add(delivery("b", body=LONG))

        [file] = body_files.body_files(path)
        file.unlink()
        await opened.add(delivery("c", body=LONG))

        assert [await body(opened, key) for key in "ac"] == [LONG, LONG]
        assert f"body of delivery b cannot be read: {file}: No such file" in await unreadable(opened, "b")


async def test_a_full_file_is_followed_by_another(
    sqlite_store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its room is free as soon as its own bodies have been moved."""
    monkeypatch.setattr(body_writer, "MAX_FILE_BYTES", len(LONG) + 1)
    async with open_all(sqlite_store) as opened:
        for key in "abc":
            await opened.add(delivery(key, body=LONG))

        sizes = [one.stat().st_size for one in body_files.body_files(path)]
        assert sorted(sizes) == [len(LONG), 2 * len(LONG)]
        assert [await body(opened, key) for key in "abc"] == [LONG] * 3


async def test_what_is_pruned_frees_its_file(sqlite_store: SqliteStore, path: Path) -> None:
    """Also the body that was never moved."""
    async with open_all(sqlite_store) as opened:
        await opened.add(delivery(body=LONG))
        await opened.route()

        await opened.maintenance.prune(PruneRule(NOON + DAY, bodies=True), after=0, limit=9, now=NOON + DAY)
        await reclaim(opened)

        assert body_files.body_files(path) == []
        assert await body(opened) is None


async def test_what_replaced_a_body_is_synced_before_its_file_goes(
    sqlite_store: SqliteStore, path: Path, calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commits of maintenance are not, and a power cut would bring back the row without its file."""
    real = Path.unlink

    def unlink(file: Path, missing_ok: bool = False) -> None:
        calls.append(f"remove {_kind(file)}")
        real(file, missing_ok)

    async with open_all(sqlite_store) as opened:
        await opened.add(delivery(body=LONG))
        await move(opened)
        calls.clear()
        monkeypatch.setattr(Path, "unlink", unlink)
        await reclaim(opened)

    assert calls[:2] == ["sync -wal", "remove bodies"]


async def test_a_file_goes_when_nothing_has_been_in_it_for_a_minute(
    path: Path, sqlite_store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one process sees it: somebody may still read a state of the store in which a body was there."""
    monkeypatch.setattr(unused_files, "UNUSED_SECONDS", 60.0)
    now = 0.0
    unused = unused_files.UnusedFiles(path, lambda: now)
    async with open_all(sqlite_store) as opened, Database(path) as database:
        await opened.add(delivery("a", body=LONG))

        async def removed() -> int:
            def step(connection: sqlite3.Connection) -> int:
                with database.transaction(connection):
                    return unused.remove_one(connection, body_files.body_files(path))

            return await database.call(step)

        now = 100.0
        assert await removed() == 0
        await move(opened)
        assert await removed() == 0
        now = 159.0
        await opened.add(delivery("b", body=LONG))
        await move(opened)
        now = 200.0
        assert await removed() == 0, "it was used again"
        now = 259.9
        assert await removed() == 0
        now = 260.0
        assert await removed() == 2 * len(LONG)
        assert await removed() == 0
    assert body_files.body_files(path) == []


async def test_nothing_is_removed_without_the_write_lock(path: Path) -> None:
    """A writer that has it may be about to use the file."""
    async with open_all(SqliteStore(f"sqlite:///{path}", patience=timedelta(0))) as opened:
        await opened.add(delivery(body=LONG))
        await move(opened)
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreError, match="locked"):
                await opened.maintenance.reclaim(MUCH)
        assert await opened.maintenance.reclaim(MUCH) == len(LONG)


async def test_bodies_stay_in_files_while_the_disk_has_little_room(
    sqlite_store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To move them takes room first."""
    async with open_all(sqlite_store) as opened:
        await opened.add(delivery(body=LONG))
        await opened.route()
        with monkeypatch.context() as patched:
            patched.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(0, 0, 8 * 1024 * 1024 - 1))
            assert await opened.maintenance.compress(limit=9) == Step(0, 0, None)
        assert codings(path) == {"k": BESIDE}
        assert (await opened.maintenance.compress(limit=9)).count == 1


async def test_an_unused_file_goes_at_once_where_the_disk_has_little_room(
    sqlite_store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody has pruned because it is full."""
    monkeypatch.setattr(unused_files, "UNUSED_SECONDS", 60.0)
    async with open_all(sqlite_store) as opened:
        await opened.add(delivery(body=LONG))
        await opened.route()
        await opened.maintenance.prune(PruneRule(NOON + DAY), after=0, limit=9, now=NOON + DAY)
        await reclaim(opened)
        assert len(body_files.body_files(path)) == 1
        monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(0, 0, 0))
        await reclaim(opened)

    assert body_files.body_files(path) == []


async def test_a_readiness_check_writes_where_long_bodies_go(
    sqlite_store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It fails while a long body would, and takes no room. The bodies in the same batch stay."""
    async with open_all(sqlite_store) as opened:
        await asyncio.gather(opened.log.append(delivery("a", body=LONG)), opened.log.probe(NOON, size=50_000))
        assert sum(one.stat().st_size for one in body_files.body_files(path)) == len(LONG)

        def fail(*_: object) -> int:
            raise FULL

        with monkeypatch.context() as patched:
            patched.setattr(os, "pwrite", fail)
            with pytest.raises(StoreError, match="No space left on device"):
                await opened.log.probe(NOON, size=50_000)
        assert await body(opened, "a") == LONG
        assert sum(one.stat().st_size for one in body_files.body_files(path)) == len(LONG)


async def test_the_check_of_a_store_names_files_that_are_not_there(sqlite_store: SqliteStore, path: Path) -> None:
    """Each once, however many events it has."""
    async with open_all(sqlite_store) as opened:
        await opened.add(delivery("a", body=LONG), delivery("b", body=LONG))
        [file] = body_files.body_files(path)
        before = await sqlite_store.health_notes()
        file.unlink()
        await opened.add(delivery("c", body=LONG))

        [note] = set(await sqlite_store.health_notes()) - set(before)
        assert note == f"bodies of events are in {file}, which is not there: put it back"


async def test_files_of_another_database_stay(sqlite_store: SqliteStore, path: Path) -> None:
    """Somebody has moved that away without its files, or they have other names."""
    async with open_all(sqlite_store) as opened:
        await opened.add(delivery(body=LONG))
        store = body_files.body_files(path)[0].name.removeprefix("receiver.db-bodies-")[:8]
        others = [f"receiver.db-bodies-{name}" for name in ("0123456789abcdef", f"{store}.old", f"{store}0123456")]
        for name in others:
            path.with_name(name).write_bytes(b"x")
        await move(opened)
        await reclaim(opened)

    assert sorted(one.name for one in path.parent.glob("*-bodies-*")) == sorted(others)


async def test_a_file_that_was_replaced_gets_no_more_bodies(sqlite_store: SqliteStore, path: Path) -> None:
    """What is written goes into the old one, which nobody finds any more."""
    async with open_all(sqlite_store) as opened:
        await opened.add(delivery("a", body=LONG))
        [file] = body_files.body_files(path)
        kept = file.read_bytes()
        file.unlink()
        file.write_bytes(kept)
        await opened.add(delivery("b", body=LONG))

        assert [await body(opened, key) for key in "ab"] == [LONG, LONG]
        assert len(body_files.body_files(path)) == 2


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
        body_files.body_files(path)[0].unlink()
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
        body_files.body_files(path)[0].unlink()
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

    assert body_files.is_long(Long()) is (length == 500_000_000)


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
            patched.setattr(*((os, "pwrite", fail) if full == "pwrite" else (body_writer, "sync", fail)))
            for _ in range(2):
                with pytest.raises(StoreError, match="No space left on device"):
                    await opened.log.append(delivery("b", body=LONG))
            assert [one.stat().st_size for one in body_files.body_files(path)] == [len(LONG)]

        assert await opened.add(delivery("b", body=LONG)) == [AppendOutcome.ACCEPTED]
        assert [await body(opened, key) for key in "ab"] == [LONG, LONG]
        assert len(body_files.body_files(path)) == 2


async def test_a_batch_that_is_not_committed_takes_no_room(sqlite_store: SqliteStore, path: Path) -> None:
    """Here the database cannot grow. What was in the file before stays, and the next body has a file of its own."""
    async with sqlite_store.log() as log, sqlite_store.reports() as reports:
        assert isinstance(log, SqliteLog)
        await log.append(delivery("a", body=LONG))
        await log.database.call(lambda connection: connection.execute("PRAGMA max_page_count = 1").fetchone())
        others = [delivery(f"short-{n}", body=b"x" * 7_000) for n in range(100)]
        results = await asyncio.gather(
            *[log.append(one) for one in (delivery("b", body=NOISE), *others)], return_exceptions=True
        )
        assert {type(one) for one in results} == {StoreError}
        assert [one.stat().st_size for one in body_files.body_files(path)] == [len(LONG)]

        await log.database.call(lambda connection: connection.execute("PRAGMA max_page_count = 9999").fetchone())
        await log.append(delivery("b", body=NOISE))
        found = [(await reports.detail(DeliveryKey(key))).body for key in "ab"]
        assert found == [LONG, NOISE]
        assert [one.stat().st_size for one in body_files.body_files(path)].count(len(LONG)) == 1


async def test_an_error_behind_the_commit_loses_no_body(path: Path) -> None:
    """Such as one of a checkpoint: the answer is 503, and the delivery is stored."""

    def fail(_: sqlite3.Connection) -> None:
        raise sqlite3.OperationalError("no checkpoint now")

    prepare(path, create=True)
    async with Database(path, after_commit=fail) as database:
        log = SqliteLog(database, path, body_writer.body_writer(path))
        with pytest.raises(StoreError, match="no checkpoint now"):
            await log.append(delivery(body=LONG))
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


async def test_a_file_that_is_away_for_a_time_loses_nothing(sqlite_store: SqliteStore, path: Path) -> None:
    """Workers are told why, and others have their bodies. A duplicate is one, and nothing is moved."""
    async with open_all(sqlite_store) as opened, sqlite_store.search() as search:
        await opened.add(delivery("away", body=FOUND))
        [file] = body_files.body_files(path)
        kept = file.read_bytes()
        file.unlink()
        await opened.add(delivery("there", body=LONG))
        reason = f"the body of delivery away cannot be read: {file}: No such file or directory; put the file back"

        batch = await opened.queue.routing_batch(limit=10, max_bytes=MUCH)
        assert [(one.delivery.body, one.unreadable[: len(reason)]) for one in batch.deliveries] == [
            (b"", reason),
            (LONG, ""),
        ]
        await opened.route(ONE, claim=False)
        claimed = [one.source for one in await opened.claim()]
        assert [(one.delivery.body, one.unreadable[: len(reason)]) for one in claimed] == [
            (b"", reason),
            (LONG, ""),
        ]
        assert await opened.add(delivery("new", body=LONG), delivery("away", body=FOUND)) == [
            AppendOutcome.ACCEPTED,
            AppendOutcome.CONFLICT,
        ]
        assert select(path, "SELECT key, detail, body FROM quarantine") == [
            ("away", "a delivery with this key was stored before, and its body cannot be read now", FOUND)
        ]
        assert (await unreadable(opened, "away")).startswith(reason)
        detail = await opened.reports.detail(DeliveryKey("away"))
        assert (detail.headers, len(detail.work)) == (delivery().headers, 1)
        assert await search.index(limit=10, max_bytes=MUCH) == 3
        await opened.maintenance.compress(limit=10)
        assert codings(path) == {"away": BESIDE, "there": DEFLATED, "new": BESIDE}

        file.write_bytes(kept)
        assert await body(opened, "away") == FOUND
        await move(opened)
        await reclaim(opened)
        assert set(codings(path).values()) == {DEFLATED}
        assert body_files.body_files(path) == []
        assert select(path, "SELECT count(*) FROM words WHERE words MATCH 'lost'") == [(1,)]


async def test_the_sender_brings_a_lost_body_again(sqlite_store: SqliteStore, path: Path) -> None:
    """Where the key is the hash of the body, no other body can have it."""
    key = f"sha256:{hashlib.sha256(LONG).hexdigest()}"
    async with open_all(sqlite_store) as opened:
        await opened.add(delivery(key, body=LONG))
        body_files.body_files(path)[0].unlink()

        assert await opened.add(delivery(key, body=LONG)) == [AppendOutcome.DUPLICATE]
        assert await body(opened, key) == LONG
        assert codings(path) == {key: PLAIN}


@pytest.mark.parametrize(("code", "left"), [(sqlite3.SQLITE_FULL, 0), (sqlite3.SQLITE_IOERR_FSYNC, len(LONG))])
async def test_bodies_of_a_commit_that_may_come_back_stay(made: Path, code: int, left: int) -> None:
    """After a failed sync of the log nobody knows what a crash leaves of it. A full disk has taken no commit."""
    error = sqlite3.OperationalError("the commit has failed")
    error.sqlite_errorcode = code
    writer = body_writer.body_writer(made)
    assert writer is not None
    with closing(sqlite3.connect(made)) as connection:
        writer.write(connection, [LONG])

        writer.give_up(connection, error)

    assert sum(one.stat().st_size for one in body_files.body_files(made)) == left


async def test_a_lost_body_is_imported_again(sqlite_store: SqliteStore, path: Path) -> None:
    """Or pruned, as any other."""
    async with open_all(sqlite_store) as opened:
        await opened.add(delivery("a", body=LONG), delivery("b", body=LONG))
        await opened.route()
        body_files.body_files(path)[0].unlink()

        again = [Imported(delivery("a", body=LONG)), Imported(delivery("b"))]
        assert await opened.controls.import_deliveries(again) == [AppendOutcome.DUPLICATE, AppendOutcome.CONFLICT]
        assert await body(opened, "a") == LONG

        await opened.maintenance.prune(PruneRule(NOON + DAY, bodies=True), after=0, limit=9, now=NOON + DAY)
        assert await body(opened, "b") is None


async def test_a_shorter_file_has_lost_what_is_behind_its_end(sqlite_store: SqliteStore, path: Path) -> None:
    """A part of a body is never taken for all of it."""
    async with open_all(sqlite_store) as opened:
        await opened.add(delivery("a", body=LONG), delivery("b", body=LONG))
        os.truncate(body_files.body_files(path)[0], 2 * len(LONG) - 1)

        assert await body(opened, "a") == LONG
        assert (await unreadable(opened, "b")).startswith("the body of delivery b cannot be read: ")
        assert ": the file is too short; " in await unreadable(opened, "b")


async def test_files_lie_beside_the_database_and_not_beside_a_link(tmp_path: Path) -> None:
    """As the log of SQLite does: others may open the database by its own name, or from another folder."""
    (tmp_path / "real").mkdir()
    real, link = tmp_path / "real" / "receiver.db", tmp_path / "link.db"
    async with SqliteStore(f"sqlite:///{real}").log():
        link.symlink_to(real)
    async with open_all(SqliteStore(f"sqlite:///{link}")) as opened:
        await opened.add(delivery(body=LONG))

    [file] = body_files.body_files(real)
    assert file.parent == real.parent
    async with SqliteStore(f"sqlite:///{real}").reports() as reports:
        assert (await reports.detail(DeliveryKey("k"))).body == LONG


async def test_a_file_can_be_read_on_while_others_remove_it(sqlite_store: SqliteStore, path: Path) -> None:
    """As a backup has to that takes long."""
    async with open_all(sqlite_store) as opened:
        await opened.add(delivery(body=LONG))
        [(place,)] = select(path, "SELECT body FROM bodies")
        with body_files.held_files(path) as body_of:
            await move(opened)
            await reclaim(opened)
            assert body_files.body_files(path) == []

            assert body_of(place) == LONG
        assert isinstance(body_files.body_at(path, place), str)


async def test_a_file_that_comes_into_use_again_is_not_removed(sqlite_store: SqliteStore, path: Path) -> None:
    """Nothing is in it for a moment, and the writer appends the next body before anybody looks."""
    async with open_all(sqlite_store) as opened:
        await opened.add(delivery("a", body=LONG))
        await move(opened)
        await opened.add(delivery("b", body=LONG))
        await reclaim(opened)

        assert len(body_files.body_files(path)) == 1
        assert await body(opened, "b") == LONG


async def test_a_use_of_a_file_is_found_by_an_index(sqlite_store: SqliteStore, path: Path) -> None:
    """Among any number of bodies."""
    async with sqlite_store.log():
        plan = select(path, f"EXPLAIN QUERY PLAN {statements.IS_USED.replace('?', 'NULL')}")
    assert any("bodies_beside" in row[-1] for row in plan)


def test_other_programs_can_read_the_database(made: Path) -> None:
    """Other programs read all tables, and the index too."""
    execute(made, "INSERT INTO bodies (seq, headers, body, coding) VALUES (1, '[]', zeroblob(24), 2)")
    with closing(sqlite3.connect(made)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("SELECT length(body) FROM bodies").fetchall() == [(24,)]
