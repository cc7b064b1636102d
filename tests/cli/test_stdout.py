"""Standard output that cannot be written: words and exit code 1, whatever the command."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.cli.kept import DEAD, STORE, WAITING, items, made
from tests.doubles import LONG

FULL = Path("/dev/full")
HANDLERS = """
from receiver import Router

router = Router()


@router.on("*")
def see(event): ...
"""
COMMANDS: Sequence[Sequence[str]] = [
    ["events", "list"],
    ["events", "list", "--json"],
    ["events", "show", "key-1"],
    ["events", "raw", "key-1"],
    ["events", "export"],
    ["jobs", "list", "--json"],
    ["work-items", "list"],
    ["work-items", "retry", "--state", "dead", "--yes"],
    ["handlers", "list"],
    ["tail"],
    ["replay", "--yes"],
    ["replay", "--yes", "--json"],
    ["replay", "--enqueue", "--yes"],
    ["simulate", "--json"],
    ["simulate", "--trace", "-"],
    ["check"],
    ["events", "--help"],
    ["--version"],
]


def ran(command: Sequence[str], to: str, *, unbuffered: bool = False) -> "subprocess.CompletedProcess[str]":
    """Run a command whose output goes where this redirection of a shell says."""
    return subprocess.run(
        ["sh", "-c", f'exec "$@" {to}', "sh", sys.executable, "-m", "receiver", *command],
        env={**os.environ, "RECEIVER_STORE": STORE, "PYTHONUNBUFFERED": "1" if unbuffered else ""},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LONG,
        check=False,
    )


@pytest.mark.skipif(not FULL.exists(), reason="needs a device that is always full")
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_full_disk_is_told(configured: None, command: Sequence[str]) -> None:
    """Also where Python only notices as the process ends, and where it has no buffer."""
    Path("handlers.py").write_text(HANDLERS)
    made(WAITING, DEAD)

    for unbuffered in (False, True):
        done = ran(command, f">{FULL}", unbuffered=unbuffered)
        assert done.returncode == 1, done.stderr
        assert done.stderr.splitlines()[-1].endswith("standard output: No space left on device")
        assert "Traceback" not in done.stderr
        assert "Exception ignored" not in done.stderr


@pytest.mark.skipif(not FULL.exists(), reason="needs a device that is always full")
def test_nothing_is_changed_before_the_plan_could_be_written(configured: None) -> None:
    """Whoever sees no plan has agreed to nothing."""
    made(DEAD)

    assert ran(["work-items", "retry", "1", "--yes"], f">{FULL}").returncode == 1

    assert [one.state for one in items()] == [DEAD]


@pytest.mark.parametrize("command", [["events", "list"], ["--version"]], ids=" ".join)
def test_without_a_standard_output_nobody_reads(configured: None, command: Sequence[str]) -> None:
    """As after `>&-`: the command runs, and is done."""
    made(WAITING)

    done = ran(command, ">&-")

    assert (done.returncode, done.stderr) == (0, "")
