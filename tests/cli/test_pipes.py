"""Pipes behind standard output and standard error: a reader may go, or be slow where the pipe is non-blocking."""

import errno
import os
import select
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile

import pytest

from receiver.cli.guide import guide
from receiver.cli.main import receiver, run
from tests.cli.bundling import keep_many
from tests.cli.kept import DEAD, STORE, made
from tests.doubles import LONG
from tests.process import warm

FULL = Path("/dev/full")
HANDLERS = """
import sys

from receiver import Router

router = Router()


@router.on("*")
def see(event):
    print("seen", file=sys.stderr)
"""
FAILING: Sequence[tuple[Sequence[str], int]] = [
    (["events", "show", "none"], 1),
    (["events", "list", "--bogus"], 2),
    (["work-items", "retry", "--state", "dead"], 2),
    (["backup", "there.db"], 2),
    (["events", "list", "--store", "sqlite:////none/x.db"], 3),
]


@contextmanager
def without_reader() -> Iterator[int]:
    """A pipe into which nobody can write any more."""
    reader, writer = os.pipe()
    os.close(reader)
    yield writer
    os.close(writer)


def ran(command: Sequence[str], stderr: int) -> tuple[int, str]:
    """Run a command, and return its exit code and its standard output."""
    with TemporaryFile() as stdout:
        environment = {**os.environ, "RECEIVER_STORE": STORE}
        process = warm.start(command, Path.cwd(), environment, stdout=stdout.fileno(), stderr=stderr)
        code = process.wait(LONG)
        stdout.seek(0)
        return code, stdout.read().decode()


@pytest.fixture
def kept(configured: None) -> None:
    """A store with an event and work that is dead, and a file that no backup replaces."""
    made(DEAD)
    Path("there.db").touch()


@pytest.mark.parametrize(("command", "code"), FAILING, ids=[" ".join(command) for command, _ in FAILING])
def test_a_failing_command_keeps_its_exit_code_without_a_reader_of_its_error(
    kept: None, command: Sequence[str], code: int
) -> None:
    with without_reader() as stderr:
        assert ran(command, stderr)[0] == code


@pytest.mark.skipif(not FULL.exists(), reason="needs a device that is always full")
def test_a_failing_command_keeps_its_exit_code_if_its_error_cannot_be_written(kept: None) -> None:
    with FULL.open("wb") as stderr:
        assert [ran(command, stderr.fileno())[0] for command, _ in FAILING] == [code for _, code in FAILING]


def test_a_command_goes_on_without_a_reader_of_its_remarks(configured: None) -> None:
    """The bundle has a damaged line, about which `replay` says a word, and the handler prints."""
    keep_many(3)
    Path("handlers.py").write_text(HANDLERS)
    assert run(receiver.main, ["events", "export", "bundle.jsonl"]) == 0
    with Path("bundle.jsonl").open("a") as bundle:
        bundle.write("damaged\n")

    with without_reader() as stderr:
        code, out = ran(["replay", "bundle.jsonl", "--yes"], stderr)

    assert code == 1  # the code for a damaged bundle
    assert "3 results" in out
    assert "3  succeeded  handlers.see" in out


def test_without_a_standard_error_the_command_runs(configured: None) -> None:
    """After `2>&-` what it would tell there is discarded."""
    keep_many(3)
    Path("handlers.py").write_text(HANDLERS)
    command = [sys.executable, "-m", "receiver", "replay", "--yes"]

    done = subprocess.run(["sh", "-c", '"$@" 2>&-', "sh", *command], stdout=subprocess.PIPE, text=True, check=True)

    assert "3 results" in done.stdout


def test_a_pipe_that_breaks_elsewhere_is_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Only the reader of standard output can have seen enough."""

    def fail(**_: object) -> None:
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    monkeypatch.setattr(guide, "callback", fail)

    assert run(receiver.main, ["guide"]) == 1
    assert capsys.readouterr().err == "receiver: the reader of a pipe has gone: Broken pipe\n"


@pytest.mark.parametrize(
    "command", [["events", "list"], ["events", "list", "--json"], ["events", "export"]], ids=" ".join
)
def test_a_slow_reader_of_a_non_blocking_pipe_gets_all(configured: None, command: Sequence[str]) -> None:
    """Another program that shares the pipe may have made it so."""
    keep_many(1_500)
    whole = warm.run(command, Path.cwd(), os.environ, within=LONG).stdout
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with TemporaryFile() as stderr, os.fdopen(reader, "rb") as output, ThreadPoolExecutor(1) as beside:
        process = warm.start(command, Path.cwd(), os.environ, stdout=writer, stderr=stderr.fileno())
        while select.select((), (writer,), (), 0)[1] and process.poll() is None:
            pass  # until the pipe takes no more
        os.close(writer)
        text = beside.submit(output.read)
        code = process.wait(LONG)
        stderr.seek(0)
        told = stderr.read().decode()

    assert code == 0, told
    assert len(text.result()) == len(whole) > 100_000
