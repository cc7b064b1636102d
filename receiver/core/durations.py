"""Durations as people write them: `60s`, `2m`, `1h30m`, `90d`, `200ms`."""

import re
from datetime import timedelta
from fractions import Fraction

MICROSECOND = timedelta(microseconds=1)
MAX_DURATION = timedelta(days=36_500)
WRONG_DURATION = "a duration is a number with its unit: 200ms, 60s, 2m, 1h30m or 90d, and at most 36500d"

_UNITS = {
    "us": 1,
    "ms": 1_000,
    "s": 1_000_000,
    "m": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
    "w": 604_800_000_000,
}
_PART = re.compile(r"(\d{1,15}(?:\.\d{1,6})?)(us|ms|[smhdw])", re.ASCII)
_WORD = re.compile(r"(?<=[\d ])([smhdw])(?:ec|in|r|econd|inute|our|ay|eek)s?\b", re.ASCII)
_SPACE = re.compile(r" +")
_WHOLE = re.compile(rf"(?:{_PART.pattern})+", re.ASCII)


def is_duration(written: str) -> bool:
    """Tell whether text is written like a duration."""
    return _WHOLE.fullmatch(written) is not None


def parse_duration(written: object) -> timedelta:
    """Return the duration that a text means; a timedelta is returned unchanged.

    The units are us, ms, s, m, h, d and w. A duration is a whole number of microseconds, and at most 36,500 days.
    Raises ValueError with one text for everything else, also for a number without a unit.
    """
    if isinstance(written, timedelta):
        return written
    if not isinstance(written, str) or not is_duration(written):
        raise ValueError(WRONG_DURATION)
    micros = sum((Fraction(number) * _UNITS[unit] for number, unit in _PART.findall(written)), Fraction())
    if micros.denominator != 1 or micros > MAX_DURATION // MICROSECOND:
        raise ValueError(WRONG_DURATION)
    return int(micros) * MICROSECOND


def spoken_duration(written: str) -> timedelta:
    """Return the duration that a text means, also in words: `5 minutes`, `1 hour 30 minutes`, or just `90s`.

    Raises ValueError as `parse_duration` does.
    """
    return parse_duration(_SPACE.sub("", _WORD.sub(lambda found: found[1], written.strip())))


def in_words(duration: timedelta) -> str:
    """Return the exact text of a duration in the same form: `1h30m`, `21m30s`, `200ms`, `0s`."""
    left = duration // MICROSECOND
    parts = []
    for unit in ("d", "h", "m", "s", "ms", "us"):
        number, left = divmod(left, _UNITS[unit])
        if number:
            parts.append(f"{number}{unit}")
    return "".join(parts) or "0s"
