"""Moments as people write them: `2026-08-04T08:00:00Z`, `08-04 10:00`, or `2h` for two hours ago."""

import re
from contextlib import suppress
from datetime import UTC, datetime

from receiver.core.durations import is_duration, parse_duration

_YEARLESS = re.compile(r"\d\d-\d\d[ T]\d\d:\d\d(:\d\d)?")
_LEAP_YEARS = 9
"""A day that only leap years have comes again within so many years."""


def parse_moment(written: str, now: datetime) -> datetime:
    """Return a moment in UTC from ISO 8601 text, or from a duration before now (`30m`, `2h`, `7d`, `1h30m`).

    A moment without a zone is local time. Without a year, as tables have it, it is the last such moment up to now.
    Other text raises ValueError.
    """
    try:
        if is_duration(written):
            return now - parse_duration(written)
        if _YEARLESS.fullmatch(written):
            return _last_such(written, now)
        return datetime.fromisoformat(written).astimezone(UTC)
    except (ValueError, OverflowError, OSError):
        raise ValueError(
            f"invalid timestamp {written!r}: write 2026-08-04T08:00:00Z, 2026-08-04 10:00 for local time, "
            "or a duration before now: 30m, 2h, 7d"
        ) from None


def depends_on_now(written: str) -> bool:
    """Tell whether the moment of a text is another one tomorrow."""
    return is_duration(written) or _YEARLESS.fullmatch(written) is not None


def _last_such(written: str, now: datetime) -> datetime:
    """Return the last moment up to now with this month, day and time; raise ValueError if there is no such day."""
    latest = now.astimezone().year
    for year in range(latest, latest - _LEAP_YEARS, -1):
        with suppress(ValueError):  # no 29th of February
            if (moment := datetime.fromisoformat(f"{year}-{written}").astimezone(UTC)) <= now:
                return moment
    raise ValueError(written)
