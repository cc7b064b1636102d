"""Standard output that cannot be written: words and exit code 1, whatever the command."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryFile

import pytest

from tests.cli.kept import DEAD, STORE, WAITING, items, made
from tests.doubles import LONG
from tests.process import warm

FULL = Path("/dev/full")
HANDLERS = """
from receiver import Router

router = Router()


@router.on("*")
def see(event): ...
"""
UNBUFFERED: Sequence[Sequence[str]] = [["events", "list"], ["events", "export"], ["--version"]]
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


def ran(command: Sequence[str], to: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    """Run a command whose output goes where this redirection of a shell says."""
    return subprocess.run(
        ["sh", "-c", f'exec "$@" {to}', "sh", sys.executable, "-m", "receiver", *command],
        env={**os.environ, "RECEIVER_STORE": STORE, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LONG,
        check=False,
    )


@pytest.mark.skipif(not FULL.exists(), reason="needs a device that is always full")
def test_each_command_reports_a_full_disk(configured: None) -> None:
    """Also where Python notices only when the process ends."""
    Path("handlers.py").write_text(HANDLERS)
    made(WAITING, DEAD)

    for command in COMMANDS:
        with FULL.open("wb") as full, TemporaryFile() as stderr:
            process = warm.start(
                command,
                Path.cwd(),
                {**os.environ, "RECEIVER_STORE": STORE},
                stdout=full.fileno(),
                stderr=stderr.fileno(),
            )
            code = process.wait(LONG)
            stderr.seek(0)
            check_full_disk_reported(command, code, stderr.read().decode())


@pytest.mark.skipif(not FULL.exists(), reason="needs a device that is always full")
@pytest.mark.parametrize("command", UNBUFFERED, ids=" ".join)
def test_a_full_disk_is_reported_where_python_has_no_buffer(configured: None, command: Sequence[str]) -> None:
    """The write itself fails then."""
    made(WAITING)

    done = ran(command, f">{FULL}", PYTHONUNBUFFERED="1")

    check_full_disk_reported(command, done.returncode, done.stderr)


def check_full_disk_reported(command: Sequence[str], code: int, stderr: str) -> None:
    """Check that a command ended with exit code 1 and one line that says why."""
    assert code == 1, (command, stderr)
    assert stderr.splitlines()[-1].endswith("standard output: No space left on device"), command
    assert "Traceback" not in stderr
    assert "Exception ignored" not in stderr


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
