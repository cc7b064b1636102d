"""Standard output: a full disk is an error with exit code 1, and a terminal gets no control characters."""

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import pytest

from receiver.cli.common.output import write_json
from receiver.cli.simulate.output import STDOUT, tracing
from receiver.service.simulator.run import simulate
from receiver.service.simulator.scenario import ArrivalPattern, Scenario
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
    """This also holds if Python notices it only at the end of the process."""
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
    """In this case the write itself fails."""
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
def test_nothing_is_changed_if_the_plan_cannot_be_written(configured: None) -> None:
    """Nobody agrees to a plan without seeing it."""
    made(DEAD)

    assert ran(["work-items", "retry", "1", "--yes"], f">{FULL}").returncode == 1

    assert [one.state for one in items()] == [DEAD]


@pytest.mark.parametrize("command", [["events", "list"], ["--version"]], ids=" ".join)
def test_without_a_standard_output_the_command_runs(configured: None, command: Sequence[str]) -> None:
    """After `>&-` the command runs and succeeds."""
    made(WAITING)

    done = ran(command, ">&-")

    assert (done.returncode, done.stderr) == (0, "")


class Terminal(io.TextIOWrapper):
    """A standard output that says it is a terminal, or not."""

    def __init__(self, *, is_terminal: bool) -> None:
        self.written = io.BytesIO()
        super().__init__(self.written, encoding="utf-8")
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal


def written_by_simulate(value: Mapping[str, Any]) -> None:
    """Write a line of `simulate --trace`, with these fields."""
    [attempt] = simulate(Scenario(arrivals=ArrivalPattern(at=[timedelta(0)])))
    with tracing(STDOUT) as write_attempt:
        write_attempt(attempt, value)


@pytest.mark.parametrize("write", [write_json, written_by_simulate])
@pytest.mark.parametrize("is_terminal", [True, False])
def test_json_on_a_terminal_holds_no_control_characters(
    monkeypatch: pytest.MonkeyPatch, is_terminal: bool, write: Callable[[Mapping[str, Any]], None]
) -> None:
    """C1 controls and marks that turn the text around are escapes there; the JSON says the same."""
    value = {"a\x9b31m": "\u202eevil\x7f \U000e0001 café 😀"}
    out = Terminal(is_terminal=is_terminal)
    monkeypatch.setattr(sys, "stdout", out)

    write(value)

    text = out.written.getvalue().decode()
    assert value.items() <= json.loads(text).items()
    assert text.removesuffix("\n").isprintable() == is_terminal
    assert "café 😀" in text


def test_the_first_three_descriptors_are_open_whatever_the_parent_has_closed() -> None:
    """A socket with such a number would end the process when the event loop closes it."""
    script = "from receiver.cli.common.stdout import open_standard_files; open_standard_files(); "
    script += "import os, socket; here = socket.socket().fileno(); "
    script += "raise SystemExit(here < 3 or not all(os.get_inheritable(number) for number in range(3)))"

    done = subprocess.run(["sh", "-c", '"$@" <&- >&- 2>&-', "sh", sys.executable, "-c", script], check=False)

    assert done.returncode == 0
