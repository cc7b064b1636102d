"""Moments in answers."""

from datetime import datetime


def wire_time(moment: datetime) -> str:
    """Return a moment as answers have it: ISO 8601 in UTC with milliseconds and Z."""
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"
