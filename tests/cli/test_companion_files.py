"""No command writes over a database, or over a file that belongs to one, however somebody spells its name."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from receiver.cli.main import receiver, run
from tests.cli.kept import delivery
from tests.cli.replaying import keep

pytestmark = pytest.mark.usefixtures("configured")

COMPANIONS = ("kept.db-wal", "kept.db-shm", "kept.db-locks", "kept.db-ballast", "kept.db-bodies-" + "0" * 16)


def invoke(*args: str) -> int:
    return run(receiver.main, list(args))


def contents() -> dict[str, tuple[int, bytes]]:
    """Return what makes up the store; readers write into the index of its log too."""
    return {
        one.name: (one.stat().st_ino, b"" if one.name.endswith("-shm") else one.read_bytes())
        for one in (*Path().glob("kept.db*"), *Path().glob("copy.db*"))
    }


@pytest.fixture
def used(configured: None) -> Iterator[None]:
    """Another program has the store open, and only its log has the newest event."""
    keep(delivery("a"))
    with closing(sqlite3.connect("kept.db", isolation_level=None)) as connection:
        connection.execute("UPDATE deliveries SET duplicates = 1")
        for name in COMPANIONS[2:]:
            Path(name).touch()
        yield


@pytest.mark.usefixtures("used")
@pytest.mark.parametrize("file", COMPANIONS)
def test_a_backup_does_not_replace_a_part_of_the_store(file: str, capfd: pytest.CaptureFixture[str]) -> None:
    """It did, and a server that used the store lost it."""
    before = contents()

    assert invoke("backup", file, "--force") == 2

    assert f"{file} belongs to the database " in capfd.readouterr().err
    assert contents() == before


@pytest.mark.usefixtures("used")
@pytest.mark.parametrize("file", ["kept.db-wal", "kept.db-locks"])
@pytest.mark.parametrize(
    "command",
    [
        ("backup", "{}", "--force", "--store", "sqlite:///other.db"),
        ("restore", "other.db", "--yes", "--store", "sqlite:///{}"),
        ("events", "export", "{}", "--force"),
        ("store", "copy", "sqlite:///other.db", "sqlite:///{}", "--yes"),
        ("simulate", "--trace", "{}"),
        ("simulate", "--html", "{}"),
        ("emulate", "--host", "192.0.2.1", "--port", "0", "--state", "{}"),
        ("events", "prune", "--older-than", "1d", "--yes", "--store", "sqlite:///{}"),
    ],
    ids=" ".join,
)
def test_what_belongs_to_a_database_is_not_written(
    command: tuple[str, ...], file: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """Nothing changes, and the message names the database."""
    keep(delivery("b"), store="sqlite:///other.db")
    before = contents()

    assert invoke(*(one.format(file) for one in command)) == 2

    err = capfd.readouterr().err
    assert f"{file} belongs to the database " in err
    assert "kept.db; name another file" in err
    assert contents() == before


@pytest.mark.usefixtures("used")
@pytest.mark.parametrize("spelling", ["./kept.db-wal", "link", "folder/kept.db-wal", "{cwd}/kept.db-wal"])
def test_another_spelling_is_the_same_file(spelling: str) -> None:
    """Be it a link to the file, or to its folder."""
    Path("link").symlink_to("kept.db-wal")
    Path("folder").symlink_to(Path.cwd(), target_is_directory=True)
    before = contents()

    assert invoke("backup", spelling.format(cwd=Path.cwd()), "--force") == 2
    assert contents() == before


@pytest.mark.usefixtures("configured")
@pytest.mark.parametrize(
    "command", [("events", "export", "kept.db", "--force"), ("simulate", "--trace", "kept.db")], ids=" ".join
)
def test_a_database_is_not_written_over(command: tuple[str, ...], capfd: pytest.CaptureFixture[str]) -> None:
    """Whoever wants it gone deletes it."""
    keep(delivery("a"))
    before = contents()

    assert invoke(*command) == 2

    assert "kept.db is a database; name another file" in capfd.readouterr().err
    assert contents() == before


@pytest.mark.usefixtures("configured")
def test_a_backup_does_not_remove_its_source_as_a_log(capfd: pytest.CaptureFixture[str]) -> None:
    """The store has the name that the log of the backup would have."""
    keep(delivery("a"), store="sqlite:///copy.db-wal")
    before = contents()

    assert invoke("backup", "copy.db", "--force", "--store", "sqlite:///copy.db-wal") == 2

    assert "copy.db is the file to copy from, or that one is its log" in capfd.readouterr().err
    assert contents() == before


@pytest.mark.usefixtures("configured")
def test_a_pipe_is_written_as_before() -> None:
    """Nobody waits for its other end."""
    os.mkfifo("pipe")
    reader = os.open("pipe", os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert invoke("simulate", "--duration", "2s", "--trace", "pipe") == 0
        assert os.read(reader, 1)
    finally:
        os.close(reader)
