"""Databases that are being made: they go when their process has ended, and not before."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from receiver.stores.sqlite.files import unfinished
from receiver.stores.sqlite.store import SqliteStore
from tests.doubles import LONG


def names(path: Path) -> list[str]:
    return sorted(entry.name for entry in path.parent.iterdir())


def test_what_a_killed_process_was_making_is_removed_by_the_next(path: Path) -> None:
    """With the files of SQLite that belong to it, whatever it was to be. A file of somebody else stays."""
    program = """
import os, signal, sys
from pathlib import Path
from receiver.stores.sqlite.files import unfinished

with unfinished(Path(sys.argv[1])) as made:
    for suffix in ("-wal", "-shm", "-journal"):
        made.with_name(made.name + suffix).write_bytes(b"x")
    os.kill(os.getpid(), signal.SIGKILL)
"""
    command = [sys.executable, "-c", program, str(path.with_name("copy.db"))]
    assert subprocess.run(command, timeout=LONG, check=False).returncode == -signal.SIGKILL
    other = path.with_name(f".other-unfinished-{'0' * 16}")
    other.write_text("of somebody else")
    assert len(names(path)) == 6

    with unfinished(path) as made:
        assert made.stat().st_size == 0

    assert names(path) == [other.name]


async def test_a_start_removes_what_was_left_beside_the_store(made: Path, sqlite_store: SqliteStore) -> None:
    """The process was killed when the database had its name already."""
    mark = made.with_name(f".{made.name}-unfinished-{'0' * 16}")
    mark.touch()
    os.link(made, mark.with_name(f"{mark.name}.db"))

    async with sqlite_store.log():
        pass

    assert names(made) == [made.name]


def test_what_somebody_is_making_stays(path: Path) -> None:
    """Two processes may make the same database at once."""
    with unfinished(path) as first:
        first.write_bytes(b"first")
        with unfinished(path) as second:
            assert second != first
        assert first.read_bytes() == b"first"
    assert names(path) == []


def test_a_mark_that_is_removed_before_its_lock_is_made_again(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process may find it just then. Nobody would know of the database otherwise."""
    real, opened = os.open, []

    def open_and_lose(name: Path, *args: int) -> int:
        descriptor = real(name, *args)
        opened.append(name)
        if len(opened) == 1:
            name.unlink()
        return descriptor

    monkeypatch.setattr(os, "open", open_and_lose)

    with unfinished(path) as made:
        assert made.name.removesuffix(".db") in names(path)
    assert names(path) == []
