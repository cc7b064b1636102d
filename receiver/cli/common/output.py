"""How commands write: text that cannot control a terminal, moments, durations, JSON, and exact bytes."""

import shlex
import shutil
import sys
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, TextIO

import click

from receiver.core.clock import local_time
from receiver.core.text import escape_controls, escape_controls_in_json, shortened
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
