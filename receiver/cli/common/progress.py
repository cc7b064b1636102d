"""The progress of long commands: on a terminal a bar with rate and time left, and lines above it."""

import asyncio
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from receiver.cli.common.output import encoded
from receiver.runtime.logs import log_lines_through

if TYPE_CHECKING:  # its import takes 50 ms, and only terminals need it
    from rich.progress import Progress


_PERIOD = 0.1
"""Seconds."""
_MAX_FLUSHES = 100
"""Flushes in a period. One for each of 10,000 lines in a second took a tenth of the processor time of a replay."""


class ProgressLines:
    """Writes lines to standard output, for code that runs in an event loop, and moves the bar if there is one.

    The reader gets each line at once; of more than 100 lines in a tenth of a second it gets the others at the end
    of that time. It keeps the standard output of the moment at which it is made, since a block may redirect it.
    """

    def __init__(self, bar: "Progress | None" = None) -> None:
        self._bar = bar
        self._on_terminal = sys.stdout.isatty()
        self._out = sys.stdout
        self._until = 0.0
        self._flushes = 0

    def write(self, line: str) -> None:
        """Write a line; above the bar if both are on the same terminal."""
        if self._on_terminal and self._bar is not None and self._bar.live.is_started:
            self._bar.console.out(line, highlight=False)
        else:
            self._out.buffer.write(encoded(line, self._out.encoding))
            self._flush_in_time()

    def advance(self, number: int) -> None:
        """Count this number of further steps as done."""
        if self._bar is not None:
            self._bar.start()
            self._bar.advance(self._bar.task_ids[0], number)

    def _flush_in_time(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        if now >= self._until:
            self._until, self._flushes = now + _PERIOD, 0
        self._flushes += 1
        if self._flushes <= _MAX_FLUSHES:
            self._out.buffer.flush()
        elif self._flushes == _MAX_FLUSHES + 1:
            loop.call_at(self._until, self._flush_rest)

    def _flush_rest(self) -> None:
        with suppress(OSError):  # the bytes stay in the buffer, so the next flush fails for the same reason
            self._out.buffer.flush()


@contextmanager
def lines_and_progress(title: str, total: int | None) -> Iterator[ProgressLines]:
    """Show a progress bar on a terminal, and give the block a writer of lines.

    The bar appears with the first step, so that a short command shows none. Log lines and what handlers print to
    the same terminal stand above the bar.
    """
    if not sys.stderr.isatty():
        yield ProgressLines()
        return
    bar = _bar()
    bar.add_task(title, total=total)
    with log_lines_through(lambda lines: bar.console.out(lines, end="", highlight=False)):
        try:
            yield ProgressLines(bar)
        finally:
            if bar.live.is_started:
                bar.stop()


@contextmanager
def progress(title: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """Show a progress bar on a terminal, and give the block a function that moves it."""
    with lines_and_progress(title, total) as lines:
        yield lines.advance


def _bar() -> "Progress":
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        ProgressColumn,
        Task,
        TextColumn,
        TimeRemainingColumn,
    )
    from rich.text import Text

    class ProgressRate(ProgressColumn):
        """Steps per second."""

        def render(self, task: Task) -> Text:
            return Text("" if task.speed is None else f"{task.speed:,.0f}/s")

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        ProgressRate(),
        TimeRemainingColumn(),
    )
    # What handlers print to a pipe must not end up on the terminal.
    to_terminal = sys.stdout.isatty()
    return Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=to_terminal)
