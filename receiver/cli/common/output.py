"""How commands write: text that cannot control a terminal, moments, durations, JSON, exact bytes, and progress.

Progress is a bar with rate and time left on a terminal, with lines above it.
"""

import asyncio
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TextIO

import click

from receiver.core.clock import local_time
from receiver.core.text import escape_controls, escape_controls_in_json, shortened
from receiver.runtime.logs import log_lines_through
from receiver.service.samples import encode

_NARROWEST = 40
"""A narrower terminal wraps lines itself."""


def shown(value: object) -> str:
    """Return a value on one line, safe for a terminal, cut if it is long; `-` for None."""
    return "-" if value is None else escape_controls(shortened(str(value)))


def with_local_times(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a view for people: those that end in `_at` have their moments in local time."""
    return {
        name: local_time(datetime.fromisoformat(value)) if name.endswith("_at") and value else value
        for name, value in fields.items()
    }


def short_moment(when: datetime) -> str:
    """Return a moment in local time for a table: month, day, and time to the second. `--since` takes it too."""
    return f"{when.astimezone():%m-%dT%H:%M:%S}"


def duration(length: timedelta) -> str:
    """Return a duration in its two largest units: `12 ms`, `3.4 s`, `2 min 5 s`, `1 h 30 min`, `3 d 4 h`."""
    seconds = length.total_seconds()
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    for unit, name, smaller, smaller_name in (
        (86_400, "d", 3600, "h"),
        (3600, "h", 60, "min"),
        (60, "min", 1, "s"),
    ):
        whole, rest = divmod(int(seconds), unit)
        if whole:
            return f"{whole} {name} {rest // smaller} {smaller_name}"
    raise AssertionError("a minute or more is at least one minute")


def yes_or_no(value: bool) -> str:
    """Return a truth value as a word."""
    return "yes" if value else "no"


def quoted(word: str) -> str:
    """Return a word as a shell needs it, safe for a terminal."""
    return shlex.quote(escape_controls(word))


def terminal_width(stream: TextIO | None = None) -> int | None:
    """Return how many cells a line of a terminal has, at least 40; None if the stream is no terminal.

    The stream is standard output if none is given.
    """
    stream = sys.stdout if stream is None else stream
    if stream is None or not stream.isatty():
        return None
    return max(shutil.get_terminal_size().columns, _NARROWEST)


def note(remark: str) -> None:
    """Write a remark to standard error, so that a pipe gets only the output."""
    click.echo(remark, err=True)


def write_line(line: str) -> None:
    """Write a line to standard output; a character that its encoding lacks becomes an escape."""
    write_bytes(encoded(line, sys.stdout.encoding))


def encoded(line: str, encoding: str | None) -> bytes:
    """Return a line in an encoding, with its line feed."""
    return line.encode(encoding or "utf-8", "backslashreplace") + b"\n"


def write_bytes(data: bytes) -> None:
    """Write bytes to standard output as they are. They may stay in its buffer until `flush` or the end."""
    sys.stdout.buffer.write(data)


def write_json(value: object) -> None:
    """Write a value to standard output as JSON on one line; on a terminal, control characters become escapes."""
    line = encode(value)
    if sys.stdout.isatty():
        line = escape_controls_in_json(line.decode()).encode()
    write_bytes(line + b"\n")


force_option = click.option("--force", is_flag=True, help="Write to a terminal too.")


def refuse_terminal(*, force: bool) -> None:
    """Raise UsageError if standard output is a terminal, which the bytes of a body could control."""
    if sys.stdout.isatty() and not force:
        raise click.UsageError(
            "standard output is a terminal, and the body could control it: write it to a file (> FILE), "
            "use a pipe, or add --force"
        )


def flush() -> None:
    """Write the buffer of standard output to its reader."""
    sys.stdout.buffer.flush()


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
