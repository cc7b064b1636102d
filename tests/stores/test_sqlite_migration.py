"""A store of an older schema is migrated with everything in it, or not at all; one of before the first is refused.

There is one schema until the first release, so a second one is made up here.
"""
# ruff: noqa: ASYNC240 - looks at small files between two steps of a test, where nothing else runs

import asyncio
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from receiver.core.types import AppendOutcome, Schema
from receiver.errors import StoreError, StoreRefused
from receiver.stores.sql.migrations import FIRST, migrations_of
from receiver.stores.sqlite.store import SqliteStore
from tests.doubles import delivery, event_of
from tests.stores.conftest import open_all
from tests.stores.opened import ONE, RUNNING, WAITING
from tests.stores.rows import execute, select
from tests.stores.test_sqlite_files import FACES, enter, newest

SECOND = """
-- A statement with a comment; and one with an end of its own.
CREATE TABLE seconds (at INTEGER NOT NULL) STRICT;
CREATE TRIGGER second AFTER INSERT ON seconds BEGIN
    UPDATE marks SET value = value + 1 WHERE name = 'seconds';
END;
INSERT INTO marks (name, value) VALUES ('seconds', 0);
INSERT INTO seconds SELECT received_at FROM deliveries;
"""
WHOLE = "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY type, name"


def release(monkeypatch: pytest.MonkeyPatch, script: str = SECOND) -> int:
    """Let this version need one schema more, and return its number."""
    version = newest() + 1
    monkeypatch.setattr(
        "receiver.stores.sqlite.files.migrations_of", lambda package: {**migrations_of(package), version: script}
    )
    return version


def make_prerelease(path: Path, version: int) -> None:
    """Give a store the number of a schema from before the first release."""
    execute(path, f"PRAGMA user_version = {version}")


@pytest.mark.parametrize("face", ["log", "queue", "search"])
async def test_servers_and_workers_migrate_a_database_of_an_older_version(
    made: Path,
    monkeypatch: pytest.MonkeyPatch,
    sqlite_store: SqliteStore,
    face: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Whichever process opens it first migrates it, and the log says so once."""
    second = release(monkeypatch)
    assert sqlite_store.schema() == Schema(second - 1, second)

    with caplog.at_level("INFO"):
        await enter(sqlite_store, face)
        await enter(sqlite_store, face)

    assert select(made, "PRAGMA user_version") == [(second,)]
    assert select(made, "PRAGMA integrity_check") == [("ok",)]
    assert select(made, "PRAGMA journal_mode") == [("wal",)]
    assert sqlite_store.schema() == Schema(second, second)
    told = [vars(one) for one in caplog.records if event_of(one) == "store_migrated"]
    assert [(one["from"], one["to"]) for one in told] == [(second - 1, second)]


async def test_a_migrated_database_is_like_a_new_one_with_all_that_it_had(
    path: Path, monkeypatch: pytest.MonkeyPatch, sqlite_store: SqliteStore, tmp_path: Path
) -> None:
    """It has the same tables and indexes; its work goes on, and what is sent again is a duplicate."""
    async with open_all(sqlite_store) as opened:
        first, second = await opened.items(2, lane="l", claim=True)
    release(monkeypatch)

    async with open_all(sqlite_store) as opened:
        assert (await opened.states(first))[0] is RUNNING
        await opened.add(delivery("third"))
        (third,) = await opened.route(ONE, claim=False)
        assert third == second + 1
        assert await opened.states(third) == [WAITING]
        assert await opened.add(delivery("item-0", body=None)) == [AppendOutcome.DUPLICATE]

    async with SqliteStore(f"sqlite:///{tmp_path}/new.db").log():
        pass
    assert select(path, WHOLE) == select(tmp_path / "new.db", WHOLE)
    [(before,)] = select(path, "SELECT count(*) FROM seconds")
    assert select(path, "SELECT value FROM marks WHERE name = 'seconds'") == [(before,)]
    assert before > 0


@pytest.mark.parametrize("face", ["controls", "maintenance", "reports"])
async def test_readers_and_operators_do_not_migrate_a_database(
    made: Path, monkeypatch: pytest.MonkeyPatch, sqlite_store: SqliteStore, face: str
) -> None:
    """The message names both schemas and says what migrates it. The older version can go on."""
    second = release(monkeypatch)
    before = made.read_bytes()

    with pytest.raises(StoreRefused, match=rf"has schema {FIRST}, .* needs {second}: start `receiver serve`"):
        await enter(sqlite_store, face)

    assert made.read_bytes() == before
    assert [entry.name for entry in made.parent.iterdir()] == [made.name]


@contextmanager
def opened_here(path: Path) -> Iterator[None]:
    """Have a database open in this process."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("SELECT * FROM marks").fetchall()
        yield


@contextmanager
def opened_elsewhere(path: Path) -> Iterator[None]:
    """Have a database open in another process, with nothing of this package."""
    program = (
        "import sqlite3, sys; opened = sqlite3.connect(sys.argv[1]);"
        "opened.execute('SELECT * FROM marks').fetchall();"
        "print('open', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", program, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        other.stdout.readline()
        yield
        other.stdin.close()


@pytest.mark.parametrize("elsewhere", [True, False])
async def test_a_database_that_is_open_is_not_migrated(
    made: Path, monkeypatch: pytest.MonkeyPatch, elsewhere: bool
) -> None:
    """An older version that has it open would fail with each statement. It goes on, and the new one says why."""
    second = release(monkeypatch)
    store = SqliteStore(f"sqlite:///{made}", patience=timedelta(0))
    with opened_elsewhere(made) if elsewhere else opened_here(made):
        with pytest.raises(StoreError, match=r"another process has it open: stop .*Nothing was changed"):
            await enter(store, "log")
        assert select(made, "PRAGMA user_version") == [(second - 1,)]

    await enter(store, "log")
    assert select(made, "PRAGMA user_version") == [(second,)]


async def test_two_processes_may_migrate_at_once(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each migration is applied once."""
    release(monkeypatch)

    stores = [SqliteStore(f"sqlite:///{made}") for _ in range(4)]
    await asyncio.gather(*[enter(store, "queue") for store in stores])

    assert select(made, "SELECT count(*) FROM marks WHERE name = 'seconds'") == [(1,)]


async def test_a_migration_that_fails_changes_nothing(
    path: Path, monkeypatch: pytest.MonkeyPatch, sqlite_store: SqliteStore
) -> None:
    """Here its last statement does. The old version can go on with the file."""
    async with open_all(sqlite_store) as opened:
        await opened.items(1, ONE)
    before = select(path, WHOLE), select(path, "SELECT * FROM work_items")
    release(monkeypatch, f"{SECOND} UPDATE marks SET value = NULL WHERE name = 'seconds';")

    with pytest.raises(StoreError, match=r"marks\.value"):
        await enter(sqlite_store, "queue")

    assert (select(path, WHOLE), select(path, "SELECT * FROM work_items")) == before
    assert select(path, "PRAGMA user_version") == [(FIRST,)]


@pytest.mark.parametrize("version", [1, 15, FIRST - 1])
@pytest.mark.parametrize("face", [*FACES, "search", "maintenance"])
async def test_a_store_from_before_the_first_release_is_refused_untouched(
    made: Path, sqlite_store: SqliteStore, face: str, version: int
) -> None:
    """The message says how to move. No version before could have made a store with the number of this one."""
    make_prerelease(made, version)
    before = made.read_bytes()

    with pytest.raises(StoreRefused, match=rf"schema {version}, .*events export FILE.*events import FILE"):
        await enter(sqlite_store, face)
    with pytest.raises(StoreRefused, match="Nothing was changed"):
        sqlite_store.schema()

    assert made.read_bytes() == before
    assert [entry.name for entry in made.parent.iterdir()] == [made.name]
