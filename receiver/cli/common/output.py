"""How commands write: text that cannot control a terminal, moments, durations, JSON, and exact bytes."""

import shlex
import sys
from datetime import datetime, timedelta

import click

from receiver.core.clock import iso
from receiver.core.text import escape_controls, shortened
from receiver.service.samples import encode


def shown(value: object) -> str:
    """Return a value on one line, safe for a terminal, cut if it is long; `-` for None."""
    return "-" if value is None else escape_controls(shortened(str(value)))


def clock(when: datetime) -> str:
    """Return a moment in UTC for a table: month, day, and time to the second."""
    return iso(when, "seconds")[5:-1].replace("T", " ")


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
    """Write a value to standard output as JSON on one line."""
    write_bytes(encode(value) + b"\n")


def write_body(body: bytes) -> None:
    """Write a body to standard output as it is; on a terminal, control characters become escapes."""
    if sys.stdout.isatty():
        write_line(escape_controls(body.decode("utf-8", "backslashreplace"), keep="\n\t"))
    else:
        write_bytes(body)


def flush() -> None:
    """Write the buffer of standard output to its reader."""
    sys.stdout.buffer.flush()
