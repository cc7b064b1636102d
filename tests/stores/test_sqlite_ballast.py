"""The ballast file of a SQLite store."""

import os
import stat
from pathlib import Path

import pytest

from receiver.stores.sqlite.ballast import BYTES, Ballast
from receiver.stores.sqlite.store import SqliteStore
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


def test_a_ballast_is_given_up_once(made: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The log says so."""
    ballast = Ballast(made)
    ballast.make()

    assert ballast.give_up()
    assert not ballast.give_up()

    assert not ballast_of(made).exists()
    assert [event_of(record) for record in caplog.records] == ["ballast_given_up"]


def test_a_disk_with_little_room_gets_no_ballast(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The ballast would be the reason why it gets full."""
    little = os.statvfs_result((4_096, 4_096, 10_000, 5_000, 5_000, 0, 0, 0, 0, 255))
    monkeypatch.setattr(os, "statvfs", lambda path: little)

    Ballast(made).make()

    assert not ballast_of(made).exists()


def test_a_folder_that_cannot_be_written_gets_no_ballast(tmp_path: Path) -> None:
    """A store works without one."""
    Ballast(tmp_path / "nowhere" / "receiver.db").make()

    assert list(tmp_path.iterdir()) == []
