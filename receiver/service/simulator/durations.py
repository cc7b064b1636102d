"""Durations as people write them in a scenario: `200ms`, `1.5s`, `1h30m`."""

import re
from datetime import timedelta
from fractions import Fraction

MICROSECOND = timedelta(microseconds=1)
MAX_DURATION = timedelta(days=3650)

_UNITS = {"us": 1, "ms": 1_000, "s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000, "d": 86_400_000_000}
_PART = re.compile(r"(\d{1,15}(?:\.\d{1,6})?)(us|ms|s|m|h|d)", re.ASCII)
_WHOLE = re.compile(rf"(?:{_PART.pattern})+", re.ASCII)


def parse_duration(written: object) -> timedelta:
    """Return the duration that a text such as `90s`, `1h30m` or `200ms` means; a timedelta is returned unchanged.

    The units are us, ms, s, m, h and d. A duration is at most 3,650 days long and a whole number of microseconds.
    Anything else is a ValueError, also a number without a unit.
    """
    if isinstance(written, timedelta):
        return written
    if not isinstance(written, str) or not _WHOLE.fullmatch(written):
        raise ValueError("a duration is text with its unit, as 200ms, 90s, 10m, 1h30m or 2d")
    micros = sum((Fraction(number) * _UNITS[unit] for number, unit in _PART.findall(written)), Fraction())
    if micros.denominator != 1:
        raise ValueError("a duration is a whole number of microseconds")
    if micros > MAX_DURATION // MICROSECOND:
        raise ValueError(f"a duration is at most {MAX_DURATION.days} days long")
    return int(micros) * MICROSECOND


def in_words(duration: timedelta) -> str:
    """Return the exact text of a duration in the same form: `1h30m`, `21m30s`, `200ms`, `0s`."""
    left = duration // MICROSECOND
    parts = []
    for unit, length in reversed(_UNITS.items()):
        number, left = divmod(left, length)
        if number:
            parts.append(f"{number}{unit}")
    return "".join(parts) or "0s"
