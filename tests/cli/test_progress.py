"""Log lines beside a progress bar."""

import asyncio
import io
import logging
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest

from receiver.cli.common.output import ProgressLines, lines_and_progress
from receiver.runtime.log_lines import ConsoleFormatter
from receiver.runtime.logs import BackgroundHandler
from tests.doubles import LONG


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


class Pipe(io.BytesIO):
    """A pipe with a reader that goes away. `news` is set when that reader has so many lines, or when it is gone."""

    def __init__(self, lines: int, *, goes_after: int | None = None) -> None:
        super().__init__()
        self.news = asyncio.Event()
        self._lines = lines
        self._goes_after = goes_after

    def write(self, data: Any, /) -> int:
        if self.lines() == self._goes_after:
            self.news.set()
            raise BrokenPipeError
        written = super().write(data)
        if self.lines() == self._lines:
            self.news.set()
        return written

    def come_back(self) -> None:
        """Let the reader take the rest."""
        self._goes_after = None

    def lines(self) -> int:
        """Return how many lines the reader has got."""
        return self.getvalue().count(b"\n")


@pytest.fixture
def into(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Pipe], ProgressLines]]:
    """Makes a writer into a pipe, whose time stands still for what it writes at once."""
    opened: list[tuple[Pipe, io.TextIOWrapper]] = []

    def make(pipe: Pipe) -> ProgressLines:
        opened.append((pipe, io.TextIOWrapper(io.BufferedWriter(cast("Any", pipe), 100_000))))
        monkeypatch.setattr(sys, "stdout", opened[-1][1])
        now = asyncio.get_running_loop().time()
        monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now)
        lines = ProgressLines()
        for number in range(1_000):
            lines.write(str(number))
        monkeypatch.undo()
        return lines

    yield make
    for pipe, output in opened:
        pipe.come_back()  # Python would complain of a file that it cannot close
        output.close()


async def test_a_pipe_gets_the_first_lines_at_once_and_then_many_together(
    into: Callable[[Pipe], ProgressLines],
) -> None:
    """The last of them come without another write."""
    pipe = Pipe(1_000)

    into(pipe)

    assert pipe.lines() == 100
    async with asyncio.timeout(LONG):
        await pipe.news.wait()


async def test_a_reader_that_is_gone_is_noticed_by_the_next_line(into: Callable[[Pipe], ProgressLines]) -> None:
    """What comes later by itself has nobody to raise to."""
    told: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
    pipe = Pipe(1_000, goes_after=100)

    lines = into(pipe)
    async with asyncio.timeout(LONG):
        await pipe.news.wait()
    await asyncio.sleep(0)

    assert told == []
    with pytest.raises(BrokenPipeError):
        lines.write("next")
