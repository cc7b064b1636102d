"""How far a long command is: a bar on a terminal, with rate and time left, and lines that do not disturb it."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from receiver.cli.common.output import encoded

if TYPE_CHECKING:  # it takes 50 ms, and is needed on terminals only
    from rich.progress import Progress


class ProgressLines:
    """Writes lines to what is standard output now, and moves the bar, if there is one."""

    def __init__(self, bar: "Progress | None" = None) -> None:
        self._bar = bar
        self._on_terminal = sys.stdout.isatty()
        self._out = sys.stdout

    def write(self, line: str) -> None:
        """Write a line, above the bar where both are on the same terminal."""
        if self._on_terminal and self._bar is not None and self._bar.live.is_started:
            self._bar.console.out(line, highlight=False)
        else:
            self._out.buffer.write(encoded(line, self._out.encoding))
            if self._on_terminal:
                self._out.buffer.flush()

    def advance(self, number: int) -> None:
        """Say that so many more are done."""
        if self._bar is not None:
            self._bar.start()
            self._bar.advance(self._bar.task_ids[0], number)


@contextmanager
def lines_and_progress(words: str, total: int | None) -> Iterator[ProgressLines]:
    """Show on a terminal how far it is, while the block writes lines through what it is given.

    Nothing is shown before the first step, so that what is done at once needs no bar.
    """
    if not sys.stderr.isatty():
        yield ProgressLines()
        return
    bar = _bar()
    bar.add_task(words, total=total)
    try:
        yield ProgressLines(bar)
    finally:
        if bar.live.is_started:
            bar.stop()


@contextmanager
def progress(words: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """Show the same for a block that writes nothing, and is given a function to say how far it is."""
    with lines_and_progress(words, total) as lines:
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
        """How many a second."""

        def render(self, task: Task) -> Text:
            return Text("" if task.speed is None else f"{task.speed:,.0f}/s")

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        ProgressRate(),
        TimeRemainingColumn(),
    )
    return Progress(*columns, console=Console(stderr=True), transient=True)
