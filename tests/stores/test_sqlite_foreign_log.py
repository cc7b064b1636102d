"""A write-ahead log that does not belong to its database, and one that is taken away from an open one."""
# ruff: noqa: ASYNC240 - looks at small files between two steps of a test, where nothing else runs

import asyncio
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from receiver.core.types import AppendOutcome
from receiver.errors import StoreError, StoreRefused
from receiver.stores.sqlite.files import prepare
from receiver.stores.sqlite.store import SqliteStore
from receiver.stores.sqlite.write_ahead_log import index_path, log_facts, log_path
from tests.doubles import LONG, appended, delivery
from tests.stores.rows import select

PAGE = 8_192


def copy_of(path: Path, name: str) -> Path:
    """Return a copy of the database with its log, as a crash at this moment would leave both."""
    copy = path.with_name(name)
    shutil.copy(path, copy)
    shutil.copy(log_path(path), log_path(copy))
    return copy


def write(path: Path, count: int, *, connections: int = 1, checkpoint: bool = False) -> None:
    """Commit with connections in turns, so that each commit raises the change counter, and leave a log."""
    opened = [sqlite3.connect(path, isolation_level=None) for _ in range(connections)]
    for number in range(count):
        opened[number % connections].execute("CREATE TABLE IF NOT EXISTS filler (x)")
        opened[number % connections].execute("INSERT INTO filler VALUES (zeroblob(20000))")
    if checkpoint:
        opened[0].execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
    for connection in opened:
        connection.close()


@pytest.fixture
def crashed(made: Path) -> Path:
    """A database with a log of some commits that nobody has open."""
    with closing(sqlite3.connect(made, isolation_level=None)) as keeper:
        keeper.execute("PRAGMA wal_autocheckpoint = 0")
        keeper.execute("SELECT * FROM marks").fetchall()
        write(made, 10, connections=2)
        return copy_of(made, "crashed.db")


def test_a_log_of_a_crash_belongs_to_its_database(crashed: Path) -> None:
    """What it holds is there afterwards."""
    prepare(crashed, create=False)

    assert select(crashed, "SELECT count(*) FROM filler") == [(10,)]


@pytest.mark.parametrize("checkpoints", [1, 2, 5])
def test_a_log_that_was_moved_in_part_belongs_to_its_database(made: Path, checkpoints: int) -> None:
    """A crash after some checkpoints leaves a log with a part that the database has, and one that it lacks."""
    with closing(sqlite3.connect(made, isolation_level=None)) as keeper:
        keeper.execute("SELECT * FROM marks").fetchall()
        for step in range(checkpoints):
            write(made, 3, connections=1 + step % 2, checkpoint=True)
            write(made, 2, connections=1 + step % 2)
            prepare(copy_of(made, f"crashed-{step}.db"), create=False)
        crashed = copy_of(made, "last.db")

    prepare(crashed, create=False)

    assert select(crashed, "SELECT count(*) FROM filler") == [(5 * checkpoints,)]
    assert select(crashed, "PRAGMA integrity_check") == [("ok",)]


def test_a_torn_end_of_a_log_changes_nothing(crashed: Path) -> None:
    """A power cut can leave any bytes there."""
    log = log_path(crashed)
    content = log.read_bytes()
    for length in (len(content) - 100, len(content) - PAGE, 32 + 24 + 100, 32 + 24 + PAGE, 40, 32, 31, 1, 0):
        log.write_bytes(content[:length] + b"\xff" * 50)
        copy = copy_of(crashed, "torn.db")
        prepare(copy, create=False)
        assert select(copy, "PRAGMA integrity_check") == [("ok",)]


def test_a_copy_of_a_database_beside_a_later_log_is_refused(crashed: Path) -> None:
    """Somebody restores a backup as a file and leaves the log of the database that was there."""
    backup = crashed.with_name("backup.db")
    shutil.copy(crashed, backup)
    with closing(sqlite3.connect(crashed, isolation_level=None)) as keeper:
        write(crashed, 4, connections=2, checkpoint=True)
        keeper.execute("PRAGMA wal_checkpoint(RESTART)").fetchone()
        write(crashed, 4, connections=2)
        shutil.copy(log_path(crashed), log_path(backup))
    before = backup.read_bytes(), log_path(backup).read_bytes()

    with pytest.raises(StoreRefused, match=r"backup\.db-wal does not belong to the database .*backup\.db"):
        prepare(backup, create=False)

    assert (backup.read_bytes(), log_path(backup).read_bytes()) == before
    assert not index_path(backup).exists()


def test_a_later_database_beside_an_old_log_is_refused(crashed: Path) -> None:
    """Its commits would undo later ones."""
    old = log_path(crashed).read_bytes()
    write(crashed, 10, connections=2)
    log_path(crashed).write_bytes(old)

    with pytest.raises(StoreRefused, match="does not belong"):
        prepare(crashed, create=False)


@pytest.mark.parametrize("content", [b"", b"x" * 50])
def test_a_log_beside_an_empty_file_is_refused(crashed: Path, content: bytes) -> None:
    """SQLite would delete it, and it may be all that is left."""
    crashed.write_bytes(content)

    with pytest.raises(StoreRefused, match="does not belong"):
        prepare(crashed, create=True)

    assert log_path(crashed).stat().st_size > 0


def test_a_log_with_pages_of_another_size_is_refused(crashed: Path, tmp_path: Path) -> None:
    """It cannot be of this database."""
    other = tmp_path / "other.db"
    with closing(sqlite3.connect(other, isolation_level=None)) as connection:
        connection.executescript("PRAGMA page_size = 1024; PRAGMA journal_mode = WAL; CREATE TABLE t (x)")
        shutil.copy(log_path(other), log_path(crashed))

    with pytest.raises(StoreRefused, match="does not belong"):
        prepare(crashed, create=False)


def test_what_is_no_log_has_no_facts(tmp_path: Path) -> None:
    """SQLite finds nothing in it either."""
    for content in (b"", b"short", b"\0" * 100, bytes.fromhex("377f0682") + b"\0" * 28):
        (tmp_path / "wal").write_bytes(content)
        assert log_facts(tmp_path / "wal") is None
    assert log_facts(tmp_path / "missing") is None


async def test_the_log_of_an_open_database_is_not_checked(made: Path, sqlite_store: SqliteStore) -> None:
    """It changes while it would be read, and the process that opened the database has checked it."""
    async with sqlite_store.log() as log:
        await appended(log, delivery())
        content = bytearray(made.read_bytes())
        content[24:28] = b"\xff" * 4  # as if the log were of another time
        made.write_bytes(content)
        prepare(made, create=False)
        program = "import sys, pathlib; from receiver.stores.sqlite.files import prepare; " + (
            "prepare(pathlib.Path(sys.argv[1]), create=False)"
        )
        await asyncio.to_thread(
            subprocess.run, [sys.executable, "-c", program, str(made)], timeout=LONG, check=True
        )


@pytest.mark.parametrize("deed", ["deleted", "moved", "replaced"])
async def test_a_log_that_is_taken_away_fails_every_append(
    made: Path, sqlite_store: SqliteStore, deed: str
) -> None:
    """SQLite would write more into a file that nobody finds again. When it is back, it is used again."""
    log_file, aside = log_path(made), made.with_name("aside")
    async with sqlite_store.log() as log:
        await appended(log, delivery("before"))
        log_file.rename(aside)
        if deed == "deleted":
            aside.unlink()
        if deed == "replaced":
            log_file.touch()

        for _ in range(2):
            with pytest.raises(StoreError, match=r"the log of the database, .*-wal was moved or deleted"):
                await appended(log, delivery("after"))

        if deed == "moved":
            aside.rename(log_file)
            assert (await appended(log, delivery("after"))).outcome is AppendOutcome.ACCEPTED

    assert select(made, "SELECT min(key) FROM deliveries WHERE key <> 'after'") == [("before",)]


async def test_a_log_that_is_gone_before_the_first_append_fails_it(made: Path, sqlite_store: SqliteStore) -> None:
    """To open the store has opened the log."""
    async with sqlite_store.log() as log:
        log_path(made).unlink()

        with pytest.raises(StoreError, match="was moved or deleted"):
            await appended(log, delivery())
