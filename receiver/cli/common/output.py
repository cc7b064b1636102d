"""What every command writes: text that cannot steer a terminal, moments, durations, and bytes as they are."""

import shlex
import sys
from datetime import UTC, datetime, timedelta

import click

from receiver.core.text import escape_controls, shortened


def shown(value: object) -> str:
    """Return a value on one line, harmless and not endless; `-` for what is missing."""
    return "-" if value is None else escape_controls(shortened(str(value)))


def iso(when: datetime, timespec: str = "microseconds") -> str:
    """Return a moment as ISO 8601 in UTC, with a Z."""
    return when.astimezone(UTC).replace(tzinfo=None).isoformat(timespec=timespec) + "Z"


def clock(when: datetime) -> str:
    """Return a moment in UTC as a table has it: month, day, and time to the second."""
    return iso(when, "seconds")[5:-1].replace("T", " ")


def duration(length: timedelta) -> str:
    """Return a duration in the units that say enough: `12 ms`, `3.4 s`, `2 min 5 s`, `1 h 30 min`, `3 d 4 h`."""
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


def quoted(word: str) -> str:
    """Return a word as it is written in a shell, harmless."""
    return shlex.quote(escape_controls(word))


def note(words: str) -> None:
    """Say something beside the output proper, on standard error, so that a pipe gets that only."""
    click.echo(words, err=True)


def write_line(line: str) -> None:
    """Write a line to standard output; what its encoding lacks becomes an escape."""
    write_bytes(encoded(line, sys.stdout.encoding))


def encoded(line: str, encoding: str | None) -> bytes:
    """Return a line as it is written in an encoding, with its end."""
    return line.encode(encoding or "utf-8", "backslashreplace") + b"\n"


def write_bytes(data: bytes) -> None:
    """Write bytes to standard output as they are. They may stay in its buffer until `flush` or the end."""
    sys.stdout.buffer.write(data)


def flush() -> None:
    """Let everything written so far be seen."""
    sys.stdout.buffer.flush()
