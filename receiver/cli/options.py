"""What several commands share: the filters of every listing, the store's flag, and output that does no harm."""

import functools
import re
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import click

from receiver.clock import SystemClock
from receiver.records import DeliveryFilter
from receiver.types import DeliveryState

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_AGO = re.compile(r"(?:\d+[smhdw])+")

Command = Callable[..., Any]


def parse_moment(written: str, now: datetime) -> datetime:
    """Return the moment that ISO 8601 text or a duration ago (`30m`, `2h`, `7d`, `1h30m`) stands for, in UTC.

    A moment without a zone is local time. Anything else is a ValueError.
    """
    try:
        if _AGO.fullmatch(written):
            return now - _duration(written)
        return datetime.fromisoformat(written).astimezone(UTC)
    except (ValueError, OverflowError, OSError):
        raise ValueError(
            f"{written!r} is no moment: write 2026-08-04T08:00:00Z, 2026-08-04 10:00 for local time, "
            "or how long ago: 30m, 2h, 7d"
        ) from None


def harmless(outside: str, *, keep: str = "") -> str:
    """Return text from outside, what could steer a terminal written as escapes; characters in `keep` stay."""
    if outside.isprintable():
        return outside
    return "".join(
        char if char.isprintable() or char in keep else char.encode("unicode_escape").decode("ascii")
        for char in outside
    )


def short_id(key: str) -> str:
    """Return the beginning of a delivery's id that is enough to tell it from others by eye, and to ask for it."""
    is_uuid = len(key) == 36 and key[8] == "-"
    return harmless(key[:8] if is_uuid else key[:15])


def iso(when: datetime, timespec: str = "microseconds") -> str:
    """Return a moment as ISO 8601 in UTC, with a Z."""
    return when.astimezone(UTC).replace(tzinfo=None).isoformat(timespec=timespec) + "Z"


def write_line(line: str) -> None:
    """Write a line to standard output; what its encoding lacks becomes an escape."""
    write_bytes(line.encode(sys.stdout.encoding or "utf-8", "backslashreplace") + b"\n")


def write_bytes(data: bytes) -> None:
    """Write bytes to standard output as they are. They may stay in its buffer until `flush` or the end."""
    sys.stdout.buffer.write(data)


def flush() -> None:
    """Let everything written so far be seen."""
    sys.stdout.buffer.flush()


def text(value: str) -> str:
    """Accept an argument that ends up in a store or a listing: one of other bytes comes in as lone surrogates."""
    try:
        value.encode()
    except UnicodeEncodeError:
        raise click.BadParameter(f"{harmless(value)} is not UTF-8 text") from None
    return value


def moment(value: str) -> datetime:
    """Accept a moment, absolute or as a duration ago."""
    try:
        return parse_moment(value, SystemClock().now())
    except ValueError as exc:
        raise click.BadParameter(str(exc)) from None


def json_option(command: Command) -> Command:
    """Add `--json`, which every listing has, as the argument `as_json`."""
    return click.option("--json", "as_json", is_flag=True, help="One JSON object per line.")(command)


def store_option(command: Command) -> Command:
    """Add `--store URL` as the argument `store`; None means the settings decide."""
    return click.option(
        "--store", type=text, metavar="URL", help="The store to read, instead of the one in the settings."
    )(command)


def filter_options(command: Command) -> Command:
    """Add the filters that every listing and mass action has, as one argument `wanted`, a DeliveryFilter."""

    @functools.wraps(command)
    def filtered(
        *args: Any,
        event_type: str | None,
        job_id: str | None,
        since: datetime | None,
        until: datetime | None,
        state: str | None,
        limit: int | None,
        **kwargs: Any,
    ) -> Any:
        wanted = DeliveryFilter(
            type=event_type,
            job_id=job_id,
            since=since,
            until=until,
            state=None if state is None else DeliveryState(state),
            limit=limit,
        )
        return command(*args, wanted=wanted, **kwargs)

    for option in reversed(_FILTERS):
        filtered = option(filtered)
    return filtered


_FILTERS = (
    click.option("--type", "event_type", type=text, metavar="GLOB", help="Only types that match, as 'crawl.*'."),
    click.option("--job", "job_id", type=text, metavar="ID", help="Only this job, or this check of a monitor."),
    click.option(
        "--since",
        type=moment,
        metavar="WHEN",
        help="Only what came then or later: ISO 8601, in local time unless it ends in Z or an offset, or 30m, 2h, "
        "7d ago.",
    ),
    click.option("--until", type=moment, metavar="WHEN", help="Only what came before; written like --since."),
    click.option("--state", type=click.Choice([state.value for state in DeliveryState]), help="Only this state."),
    click.option("--limit", type=click.IntRange(min=1), metavar="N", help="At most this many, the newest first."),
)


def _duration(written: str) -> timedelta:
    parts = re.findall(r"(\d+)([smhdw])", written)
    return sum((timedelta(**{_UNITS[unit]: int(number)}) for number, unit in parts), timedelta())
