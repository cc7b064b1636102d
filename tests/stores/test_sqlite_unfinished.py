"""Databases that are being made: they go when their process has ended, and not before."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from receiver.stores.sqlite.unfinished import unfinished
from tests.doubles import LONG


def names(path: Path) -> list[str]:
    return sorted(entry.name for entry in path.parent.iterdir())


def test_what_a_killed_process_was_making_is_removed_by_the_next(path: Path) -> None:
    """With the files of SQLite that belong to it. What another name stands for stays."""
    program = """
import os, signal, sys
from pathlib import Path
from receiver.stores.sqlite.unfinished import unfinished

with unfinished(Path(sys.argv[1])) as made:
    for suffix in ("-wal", "-shm", "-journal"):
        made.with_name(made.name + suffix).write_bytes(b"x")
    os.kill(os.getpid(), signal.SIGKILL)
"""
    for target in (path, path.with_name("other.db")):
        command = [sys.executable, "-c", program, str(target)]
        assert subprocess.run(command, timeout=LONG, check=False).returncode == -signal.SIGKILL
    assert len(names(path)) == 10

    with unfinished(path) as made:
        assert made.stat().st_size == 0

    assert len(names(path)) == 5
    assert all(name.startswith(".other.db-") for name in names(path))


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
