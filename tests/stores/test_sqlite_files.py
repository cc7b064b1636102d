"""The SQLite file: how it is made, refused and left alone."""
# ruff: noqa: ASYNC240 - looks at small files between two steps of a test, where nothing else runs

import asyncio
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from receiver.core.ports.store import Store
from receiver.core.types import AppendOutcome
from receiver.errors import ConfigurationError, ReceiverError, StoreError, StoreRefused
from receiver.stores import open_store
from receiver.stores.sql.migrations import migrations_of
from receiver.stores.sqlite.store import SqliteStore
from tests.doubles import LONG, appended, delivery
from tests.stores.rows import execute, select

FACES = ("log", "queue", "controls", "reports")


async def enter(store: Store, face: str) -> None:
    """Open a face of a store and leave it again."""
    async with getattr(store, face)():
        pass


def newest() -> int:
    """Return the schema that this version writes."""
    return max(migrations_of("receiver.stores.sqlite"))


@pytest.mark.parametrize("face", FACES)
async def test_a_database_of_a_newer_version_is_refused_untouched(
    made: Path, sqlite_store: SqliteStore, face: str
) -> None:
    """The message names both versions and says what to do."""
    execute(made, "PRAGMA user_version = 999")
    before = made.read_bytes()

    with pytest.raises(StoreRefused, match=rf"newer version.*schema 999.*knows {newest()}.*Nothing was changed"):
        await enter(sqlite_store, face)

    assert made.read_bytes() == before


@pytest.mark.parametrize("face", FACES)
async def test_a_database_of_another_program_is_refused_untouched(
    path: Path, sqlite_store: SqliteStore, face: str
) -> None:
    """Its own version number may look like ours."""
    execute(path, "CREATE TABLE theirs (x)", f"PRAGMA user_version = {newest()}")
    before = path.read_bytes()

    with pytest.raises(StoreRefused, match="another program"):
        await enter(sqlite_store, face)

    assert path.read_bytes() == before
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize(
    "content",
    [b"hello", b"\0" * 10, b"x" * 600, b"garbage " * 2_000, b"SQLite format 3\0" + b"\xff" * 2_000],
    ids=["tiny", "nul", "short", "long", "right magic"],
)
async def test_a_file_that_is_no_database_is_refused_untouched(
    path: Path, sqlite_store: SqliteStore, face: str, content: bytes
) -> None:
    """The message says that it is none."""
    path.write_bytes(content)

    with pytest.raises(StoreRefused, match=r"not a SQLite database|another program"):
        await enter(sqlite_store, face)

    assert path.read_bytes() == content
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


async def test_an_empty_file_becomes_a_database(path: Path, sqlite_store: SqliteStore) -> None:
    """`touch receiver.db` makes one, or a container that mounts one."""
    path.touch()

    async with sqlite_store.log() as log:
        assert (await appended(log, delivery())).outcome is AppendOutcome.ACCEPTED


@pytest.mark.parametrize("face", ["controls", "reports"])
async def test_readers_and_operators_do_not_create_a_database(
    path: Path, sqlite_store: SqliteStore, face: str
) -> None:
    """The message says that there is none, and which command creates it."""
    with pytest.raises(StoreError, match=r"there is no database at .*receiver serve"):
        await enter(sqlite_store, face)

    assert list(path.parent.iterdir()) == []


@pytest.mark.parametrize("face", ["log", "queue"])
async def test_the_writers_create_a_database(path: Path, sqlite_store: SqliteStore, face: str) -> None:
    """Web process and worker may start in any order. They leave nothing but the database."""
    await enter(sqlite_store, face)

    assert [entry.name for entry in path.parent.iterdir()] == [path.name]
    assert select(path, "PRAGMA user_version") == [(newest(),)]
    assert select(path, "PRAGMA journal_mode") == [("wal",)]


def test_existence_is_checked_without_changing_anything(path: Path, sqlite_store: SqliteStore) -> None:
    """The answer is True for any file, and an error if there is none and none could be created."""
    assert not sqlite_store.exists()
    assert list(path.parent.iterdir()) == []
    path.touch()
    assert sqlite_store.exists()
    with pytest.raises(StoreRefused, match=r"there is no folder .*nowhere"):
        SqliteStore(f"sqlite:///{path.parent}/nowhere/x.db").exists()


async def test_a_database_is_readable_for_its_owner_only(path: Path, sqlite_store: SqliteStore) -> None:
    """Bodies can be confidential, and so are the files that SQLite puts beside it."""
    async with sqlite_store.log() as log:
        await appended(log, delivery())
        modes = {entry.name: stat.S_IMODE(entry.stat().st_mode) for entry in path.parent.iterdir()}

    assert modes == {"receiver.db": 0o600, "receiver.db-wal": 0o600, "receiver.db-shm": 0o600}


@pytest.mark.parametrize(
    ("name", "words"),
    [("nowhere/receiver.db", "no folder"), ("n" * 250, "too long"), ("file/receiver.db", "no folder")],
)
async def test_a_creation_that_fails_leaves_nothing(tmp_path: Path, name: str, words: str) -> None:
    """The message gives the cause in one line."""
    (tmp_path / "file").touch()

    with pytest.raises(StoreRefused, match=f"cannot create the database.*{words}"):
        await enter(SqliteStore(f"sqlite:///{tmp_path}/{name}"), "log")

    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


def test_a_creation_that_runs_out_of_space_leaves_nothing(tmp_path: Path) -> None:
    """Here a limit on the size of files stands in for a full disk."""
    program = """
import asyncio, resource, signal, sys
from receiver.errors import ReceiverError
from receiver.stores import open_store

async def main():
    async with open_store("sqlite:///" + sys.argv[1]).log():
        print("opened")

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))
try:
    asyncio.run(main())
except ReceiverError as exc:
    print(type(exc).__name__, exc)
"""
    command = [sys.executable, "-B", "-c", program, str(tmp_path / "receiver.db")]  # -B: no cache is cut short

    done = subprocess.run(command, capture_output=True, text=True, timeout=LONG, check=True)

    assert done.stdout.startswith("StoreError the database")
    assert done.stderr == ""
    assert list(tmp_path.iterdir()) == []


async def test_many_threads_may_open_an_empty_path_at_once(tmp_path: Path) -> None:
    """One of them makes the database, and everything that they store is there."""
    for attempt in range(10):
        path = tmp_path / str(attempt) / "receiver.db"
        path.parent.mkdir()

        def use(name: str, path: Path = path) -> AppendOutcome:
            async def append() -> AppendOutcome:
                async with SqliteStore(f"sqlite:///{path}").log() as log:
                    return (await appended(log, delivery(name))).outcome

            return asyncio.run(append())

        outcomes = await asyncio.gather(*[asyncio.to_thread(use, str(n)) for n in range(4)])

        assert outcomes == [AppendOutcome.ACCEPTED] * 4
        assert select(path, "SELECT count(*) FROM deliveries") == [(4,)]
        left = {entry.name for entry in path.parent.iterdir()} - {"receiver.db-locks"}  # of a checkpoint in between
        assert left == {"receiver.db"}


def test_processes_may_open_an_empty_path_at_once(path: Path) -> None:
    """A Procfile starts web process and worker together."""
    program = """
import asyncio, sys
from receiver.stores import open_store

async def main():
    store = open_store("sqlite:///" + sys.argv[1])
    sys.stdin.read()  # until all have started
    async with store.queue(), store.log() as log:
        await log.probe(__import__("datetime").datetime.fromtimestamp(0, __import__("datetime").UTC))

asyncio.run(main())
"""
    started = [
        subprocess.Popen(
            [sys.executable, "-c", program, str(path)], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for _ in range(3)
    ]
    errors = [process.communicate(timeout=LONG)[1] for process in started]

    assert errors == [""] * 3
    assert [process.returncode for process in started] == [0] * 3
    assert [entry.name for entry in path.parent.iterdir()] == ["receiver.db"]


@pytest.mark.parametrize("name", ["with space.db", "per%cent.db", "que?stion.db", "ha#sh.db", "ünï.db", "a&b=c.db"])
async def test_any_file_name_will_do(tmp_path: Path, name: str) -> None:
    """Characters with a meaning in URIs have none here."""
    store = SqliteStore(f"sqlite:///{tmp_path}/{name}")

    async with store.log() as log, store.reports() as reports:
        await appended(log, delivery())
        assert await reports.count_unfinished() == 1

    assert [entry.name for entry in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("sqlite://", "names no database file"),
        ("sqlite:///", "names no database file"),
        ("sqlite:///:memory:", "names no database file"),
        ("sqlite:receiver.db", "names no database file"),
        ("postgresql://user:hidden-password@[host/db", "no address of a PostgreSQL database"),
        ("postgresql://user:hidden-password@host/db?unknown=1", "libpq takes no option unknown"),
        ("postgresql://user:hidden-password@host/db?schema=No", "cannot be the schema"),
        ("memory://", "ends with its process"),
        ("mysql://user:hidden-password@host/db", "no store has addresses that begin with mysql:; write"),
        ("receiver.db", "this is no address of a store; write sqlite:///receiver.db"),
        ("", "write sqlite:///receiver.db"),
    ],
)
def test_an_address_that_leads_nowhere_is_refused(url: str, words: str) -> None:
    """The message says what to write, and has no password."""
    with pytest.raises(ConfigurationError, match=words) as caught:
        open_store(url)

    assert "hidden-password" not in str(caught.value)


def test_three_slashes_are_relative_and_four_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tools read such addresses in the same way."""
    monkeypatch.chdir(tmp_path)

    async def make(url: str) -> None:
        await enter(open_store(url), "log")

    asyncio.run(make("sqlite:///near.db"))
    asyncio.run(make(f"sqlite:///{tmp_path}/far.db"))

    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["far.db", "near.db"]


async def test_a_folder_in_place_of_the_file_is_a_clear_error(tmp_path: Path) -> None:
    """The user gets no traceback of SQLite."""
    with pytest.raises(ReceiverError, match=str(tmp_path)):
        await enter(SqliteStore(f"sqlite:///{tmp_path}"), "log")
