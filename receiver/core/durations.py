"""Durations as people write them: `30m`, `2h`, `7d`, `1h30m`."""

import re
from datetime import timedelta

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_DURATION = re.compile(r"(?:\d+[smhdw])+", re.ASCII)


def is_duration(written: str) -> bool:
    """Tell whether text is written like a duration."""
    return _DURATION.fullmatch(written) is not None


def parse_duration(written: str) -> timedelta:
    """Return the duration that a text describes. Raises ValueError for other text and for too long durations."""
    if not is_duration(written):
        raise ValueError(f"{written!r} is not a duration: write 30m, 2h, 7d or 1h30m")
    parts = re.findall(r"(\d+)([smhdw])", written)
    try:
        return sum((timedelta(**{_UNITS[unit]: int(number)}) for number, unit in parts), timedelta())
    except OverflowError:
        raise ValueError(f"{written!r} is too long for a duration") from None
