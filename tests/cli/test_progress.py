"""Log lines beside a progress bar."""

import io
import logging
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from receiver.cli.common.progress import lines_and_progress
from receiver.core.log_lines import ConsoleFormatter
from receiver.core.logs import BackgroundHandler


class Terminal(io.StringIO):
    """A standard error that is a terminal."""

    def isatty(self) -> bool:
        return True


@dataclass
class Program:
    """A program that logs in the background, with the terminal that a bar is drawn on, and the logger."""

    direct: Path
    log: logging.Logger
    handler: BackgroundHandler
    terminal: Terminal = field(default_factory=Terminal)


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Program]:
    """The lines that are not handed to the bar go to the file `direct`."""
    direct = tmp_path / "direct"
    with direct.open("w") as stream:
        handler = BackgroundHandler(stream)
        handler.setFormatter(ConsoleFormatter(colour=True))
        program = Program(direct, logging.getLogger("beside"), handler)
        root = logging.getLogger()
        root.addHandler(handler)
        yield program
        root.removeHandler(handler)
        handler.close()


def test_log_lines_stand_above_the_bar(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the bar is on the terminal they are written by what draws it; before and after, directly."""
    monkeypatch.setattr(sys, "stderr", program.terminal)  # here, since pytest sets it between fixture and test
    program.log.warning("before")
    with lines_and_progress("replaying", 3) as lines:
        lines.advance(1)
        program.log.warning("during %s", "x" * 300)
        lines.advance(1)
    program.log.warning("after")
    program.handler.close()

    shown = program.terminal.getvalue()
    assert f"\x1b[33mWARNING beside: during {'x' * 300}\x1b[0m\n" in shown
    assert "before" not in shown
    assert "after" not in shown
    assert [line.split()[-1].removesuffix("\x1b[0m") for line in program.direct.read_text().splitlines()] == [
        "before",
        "after",
    ]


def test_without_a_terminal_log_lines_go_their_own_way(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no bar."""
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with lines_and_progress("replaying", 3) as lines:
        lines.advance(1)
        program.log.warning("during")
    program.handler.close()

    assert "during" in program.direct.read_text()


def test_a_print_to_a_pipe_does_not_come_to_the_terminal(
    program: Program, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The bar is on the terminal of standard error alone."""
    monkeypatch.setattr(sys, "stderr", program.terminal)
    with lines_and_progress("replaying", 3) as lines:
        lines.advance(1)
        sys.stdout.write("printed by a handler\n")

    assert "printed by a handler" not in program.terminal.getvalue()
    assert "printed by a handler" in capfd.readouterr().out
