"""The ballast file of a SQLite store."""

import errno
import os
import stat
from pathlib import Path

import pytest

from receiver.stores.sqlite.store import SqliteStore
from receiver.stores.sqlite.system_files import BYTES, Ballast
from tests.doubles import event_of


def ballast_of(database: Path) -> Path:
    return database.with_name(f"{database.name}-ballast")


async def test_maintenance_makes_the_ballast(made: Path, sqlite_store: SqliteStore) -> None:
    """It takes room on the disk, only its owner can read it, and one that is there stays."""
    for _ in range(2):
        async with sqlite_store.maintenance():
            pass
        there = ballast_of(made).stat()
        assert (there.st_size, stat.S_IMODE(there.st_mode)) == (BYTES, 0o600)
        assert there.st_blocks * 512 >= BYTES


@pytest.mark.parametrize("size", [0, BYTES - 1])
def test_an_unfinished_ballast_is_made_anew(made: Path, size: int) -> None:
    """A process was killed while it made the file. On a full disk such a file would give nothing."""
    ballast_of(made).write_bytes(bytes(size))

    Ballast(made).make()

    there = ballast_of(made).stat()
    assert there.st_size == BYTES
    assert there.st_blocks * 512 >= BYTES


def test_a_ballast_is_given_up_once(made: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The log says so."""
    ballast = Ballast(made)
    ballast.make()

    assert ballast.give_up()
    assert not ballast.give_up()

    assert not ballast_of(made).exists()
    assert [event_of(record) for record in caplog.records] == ["ballast_given_up"]


def leave(monkeypatch: pytest.MonkeyPatch, mebibytes: float) -> None:
    """Let the disk seem to have only this room."""
    blocks = int(mebibytes * 256)
    found = os.statvfs_result((4_096, 4_096, 2 * blocks, blocks, blocks, 0, 0, 0, 0, 255))
    monkeypatch.setattr(os, "statvfs", lambda path: found)


async def test_a_disk_with_little_room_gets_no_ballast(
    made: Path, sqlite_store: SqliteStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It would be why the disk gets full. The log says so once, and `check` notes it."""
    leave(monkeypatch, 15.5)

    for _ in range(2):
        async with sqlite_store.maintenance():
            pass

    assert not ballast_of(made).exists()
    [told] = [record for record in caplog.records if event_of(record) == "ballast_not_made"]
    assert "16 MB are free, and it needs 17 MB" in vars(told)["reason"]
    assert any("16 MB are free, and it needs 17 MB" in note for note in await sqlite_store.health_notes())


async def test_a_command_is_told_in_sentences_instead_of_the_log(
    made: Path, sqlite_store: SqliteStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """That there is no room for a ballast, and that it was given up."""
    told: list[str] = []
    leave(monkeypatch, 15.5)
    async with sqlite_store.maintenance(tell=told.append):
        pass
    monkeypatch.undo()
    ballast = Ballast(made)
    ballast.make(told.append)

    assert ballast.give_up(told.append)

    assert told == [
        f"{made.name}-ballast was not made, and without it nothing can be pruned on a full disk: "
        "16 MB are free, and it needs 17 MB; take a larger disk",
        f"the disk is full: {made.name}-ballast was deleted, as pruning needs some room itself",
    ]
    assert caplog.records == []


def test_a_folder_that_cannot_be_written_gets_no_ballast(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A store works without one, and the log says why there is none."""
    Ballast(tmp_path / "nowhere" / "receiver.db").make()

    assert list(tmp_path.iterdir()) == []
    assert "No such file" in vars(caplog.records[-1])["reason"]


def test_a_ballast_without_its_room_is_not_left_behind(
    made: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """An empty file would be taken for a ballast."""

    def refuse(descriptor: int, offset: int, length: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", refuse, raising=False)

    Ballast(made).make()

    assert not ballast_of(made).exists()
    assert "No space left" in vars(caplog.records[-1])["reason"]
