"""Files of bodies that are moved into the database or pruned, and when such a file goes."""

import shutil
import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from receiver.core.activity import PruneRule, Step
from receiver.errors import StoreError
from receiver.stores.sqlite import bodies, statements
from receiver.stores.sqlite.database import Database
from receiver.stores.sqlite.store import SqliteStore
from tests.doubles import NOON, delivery
from tests.stores.beside import BESIDE, DEFLATED, LONG, NOISE, PLAIN, body, codings, kind_of_file, move, reclaim
from tests.stores.conftest import open_all
from tests.stores.opened import DAY, MUCH
from tests.stores.rows import select

pytestmark = pytest.mark.usefixtures("files_go_at_once")


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
        assert len(bodies.body_files(path)) == 1

        await move(opened)
        await reclaim(opened)

        assert bodies.body_files(path) == []
        assert [await body(opened, key) for key in ("text", "noise", "new")] == [LONG, NOISE, LONG]


async def test_what_is_pruned_frees_its_file(sqlite_store: SqliteStore, path: Path) -> None:
    """Also the body that was never moved."""
    async with open_all(sqlite_store) as opened:
        await opened.add(delivery(body=LONG))
        await opened.route()

        await opened.maintenance.prune(PruneRule(NOON + DAY, bodies=True), after=0, limit=9, now=NOON + DAY)
        await reclaim(opened)

        assert bodies.body_files(path) == []
        assert await body(opened) is None


async def test_what_replaced_a_body_is_synced_before_its_file_goes(
    sqlite_store: SqliteStore, path: Path, calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commits of maintenance are not, and a power cut would bring back the row without its file."""
    real = Path.unlink

    def unlink(file: Path, missing_ok: bool = False) -> None:
        calls.append(f"remove {kind_of_file(file)}")
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
    monkeypatch.setattr(bodies, "UNUSED_SECONDS", 60.0)
    now = 0.0
    unused = bodies.UnusedFiles(path, lambda: now)
    async with open_all(sqlite_store) as opened, Database(path) as database:
        await opened.add(delivery("a", body=LONG))

        async def removed() -> int:
            def step(connection: sqlite3.Connection) -> int:
                with database.transaction(connection):
                    return unused.remove_one(connection, bodies.body_files(path))

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
    assert bodies.body_files(path) == []


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


async def test_the_room_that_readers_see_is_that_where_the_file_lies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A link to it may lie on another disk."""
    folder = tmp_path / "disk"
    folder.mkdir()
    link = tmp_path / "linked.db"
    link.symlink_to(folder / "real.db")
    free = {folder: 7, tmp_path: 8}
    async with SqliteStore(f"sqlite:///{folder}/real.db").log():
        pass
    async with open_all(SqliteStore(f"sqlite:///{link}")) as opened:
        monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(0, 0, free[path]))
        assert (await opened.reports.facts()).free == 7


async def test_an_unused_file_goes_at_once_where_the_disk_has_little_room(
    sqlite_store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody has pruned because it is full."""
    monkeypatch.setattr(bodies, "UNUSED_SECONDS", 60.0)
    async with open_all(sqlite_store) as opened:
        await opened.add(delivery(body=LONG))
        await opened.route()
        await opened.maintenance.prune(PruneRule(NOON + DAY), after=0, limit=9, now=NOON + DAY)
        await reclaim(opened)
        assert len(bodies.body_files(path)) == 1
        monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(0, 0, 0))
        await reclaim(opened)

    assert bodies.body_files(path) == []


async def test_files_of_another_database_stay(sqlite_store: SqliteStore, path: Path) -> None:
    """Somebody has moved that away without its files, or they have other names."""
    async with open_all(sqlite_store) as opened:
        await opened.add(delivery(body=LONG))
        store = bodies.body_files(path)[0].name.removeprefix("receiver.db-bodies-")[:8]
        others = [f"receiver.db-bodies-{name}" for name in ("0123456789abcdef", f"{store}.old", f"{store}0123456")]
        for name in others:
            path.with_name(name).write_bytes(b"x")
        await move(opened)
        await reclaim(opened)

    assert sorted(one.name for one in path.parent.glob("*-bodies-*")) == sorted(others)


async def test_a_file_can_be_read_on_while_others_remove_it(sqlite_store: SqliteStore, path: Path) -> None:
    """As a backup has to that takes long."""
    async with open_all(sqlite_store) as opened:
        await opened.add(delivery(body=LONG))
        [(place,)] = select(path, "SELECT body FROM bodies")
        with bodies.opened_files(path) as body_of:
            await move(opened)
            await reclaim(opened)
            assert bodies.body_files(path) == []

            assert body_of(place) == LONG
        assert isinstance(bodies.body_at(path, place), str)


async def test_a_file_that_comes_into_use_again_is_not_removed(sqlite_store: SqliteStore, path: Path) -> None:
    """Nothing is in it for a moment, and the writer appends the next body before anybody looks."""
    async with open_all(sqlite_store) as opened:
        await opened.add(delivery("a", body=LONG))
        await move(opened)
        await opened.add(delivery("b", body=LONG))
        await reclaim(opened)

        assert len(bodies.body_files(path)) == 1
        assert await body(opened, "b") == LONG


async def test_a_use_of_a_file_is_found_by_an_index(sqlite_store: SqliteStore, path: Path) -> None:
    """Among any number of bodies."""
    async with sqlite_store.log():
        plan = select(path, f"EXPLAIN QUERY PLAN {statements.IS_USED.replace('?', 'NULL')}")
    assert any("bodies_beside" in row[-1] for row in plan)
