"""Durations, moments and sizes as people write them: `1h30m`, `08-04 10:00`, `32MB`."""

import re
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from fractions import Fraction

MICROSECOND = timedelta(microseconds=1)
MAX_DURATION = timedelta(days=36_500)
WRONG_DURATION = "a duration is a number with its unit: 200ms, 60s, 2m, 1h30m or 90d, and at most 36500d"

_DURATION_UNITS = {
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
    """Return whether text is written like a duration."""
    return _WHOLE.fullmatch(written) is not None


def parse_duration(written: object) -> timedelta:
    """Return the duration that a text means; a timedelta is returned unchanged.

    The units are us, ms, s, m, h, d and w. A duration is a whole number of microseconds, and at most 36,500 days.
    Raises ValueError, always with the same text, for everything else: also for a number without a unit.
    """
    if isinstance(written, timedelta):
        return written
    if not isinstance(written, str) or not is_duration(written):
        raise ValueError(WRONG_DURATION)
    micros = sum((Fraction(number) * _DURATION_UNITS[unit] for number, unit in _PART.findall(written)), Fraction())
    if micros.denominator != 1 or micros > MAX_DURATION // MICROSECOND:
        raise ValueError(WRONG_DURATION)
    return int(micros) * MICROSECOND


def spoken_duration(written: str) -> timedelta:
    """Return the duration that a text means, also with words: `5 minutes`, `1 hour 30 minutes`, or just `90s`.

    Raises ValueError as `parse_duration` does.
    """
    return parse_duration(_SPACE.sub("", _WORD.sub(lambda found: found[1], written.strip())))


def in_words(duration: timedelta) -> str:
    """Return the exact text of a duration: `1h30m`, `21m30s`, `200ms`, `0s`."""
    left = duration // MICROSECOND
    parts = []
    for unit in ("d", "h", "m", "s", "ms", "us"):
        number, left = divmod(left, _DURATION_UNITS[unit])
        if number:
            parts.append(f"{number}{unit}")
    return "".join(parts) or "0s"


_YEARLESS = re.compile(r"\d\d-\d\d[ T]\d\d:\d\d(:\d\d)?")
_LEAP_YEARS = 9
"""29 February comes again within this many years."""


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
    """Return whether a text means another moment tomorrow."""
    return is_duration(written) or _YEARLESS.fullmatch(written) is not None


def _last_such(written: str, now: datetime) -> datetime:
    """Return the last moment up to now with this month, day and time; raise ValueError if there is no such day."""
    latest = now.astimezone().year
    for year in range(latest, latest - _LEAP_YEARS, -1):
        with suppress(ValueError):  # no 29th of February
            if (moment := datetime.fromisoformat(f"{year}-{written}").astimezone(UTC)) <= now:
                return moment
    raise ValueError(written)


MAX_SIZE = 2**63 - 1
"""The longest file that a system can have, in bytes."""
WRONG_SIZE = (
    "a size is a number of bytes, or has a unit such as in 500kB, 32MB (32,000,000 bytes) or 32MiB (33,554,432)"
)

# The prefixes of the SI and of IEC 80000-13: https://physics.nist.gov/cuu/Units/binary.html. A bare `M` is refused,
# because it means 10^6 in some programs and 2^20 in others.
_SIZE_UNITS = {
    "B": 1,
    **{f"{prefix}B": 1_000**power for power, prefix in enumerate("kMGT", start=1)},
    **{f"{prefix}iB": 1_024**power for power, prefix in enumerate("KMGT", start=1)},
}
_BYTES = {unit.lower(): length for unit, length in _SIZE_UNITS.items()}
_SIZE = re.compile(rf"(\d{{1,19}}(?:\.\d{{1,9}})?) ?({'|'.join(_BYTES)})?", re.ASCII | re.IGNORECASE)

_SHOWN_UNITS = ("bytes", "KB", "MB", "GB", "TB")


def parse_size(written: str) -> int:
    """Return the bytes that a text means. Raises ValueError, always with the same text, for anything else.

    `kB`, `MB`, `GB` and `TB` are powers of 1,000; `KiB`, `MiB`, `GiB` and `TiB` are powers of 1,024. Upper and
    lower case are the same. A number without a unit is in bytes.
    """
    found = _SIZE.fullmatch(written.strip())
    if found is None:
        raise ValueError(WRONG_SIZE)
    size = Fraction(found[1]) * _BYTES[(found[2] or "B").lower()]
    if size.denominator != 1 or size > MAX_SIZE:
        raise ValueError(WRONG_SIZE)
    return int(size)


def written_size(size: int) -> str:
    """Return the shortest exact text of a size: `32MiB`, `500kB`, `1023`."""
    exact = [
        f"{size // length}{unit}"
        for unit, length in _SIZE_UNITS.items()
        if size and size % length == 0 and length > 1
    ]
    return min(exact, key=len, default=str(size))


def shown_size(number: int) -> str:
    """Return a number of bytes in the largest unit that fits, in steps of a thousand: `12 KB`, `3.4 MB`."""
    amount, unit = float(number), 0
    while amount >= 1_000 and unit < len(_SHOWN_UNITS) - 1:
        amount, unit = amount / 1_000, unit + 1
    return f"{amount:.1f} {_SHOWN_UNITS[unit]}" if unit and amount < 10 else f"{amount:.0f} {_SHOWN_UNITS[unit]}"
