"""How many deliveries came lately, for the charts of the first page."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from receiver.core.activity import MINUTE

Point = tuple[datetime, int]
"""The beginning of a span of time, and how many deliveries came in it."""


def last_steps(now: datetime, span: timedelta, step: timedelta) -> Sequence[datetime]:
    """Return when each step of the last span began, the oldest first. A step has whole minutes."""
    size = step // MINUTE
    end = now.replace(second=0, microsecond=0)
    end -= (end.minute + end.hour * 60) % size * MINUTE
    return [end - at * step for at in range(span // step - 1, -1, -1)]


def by_span(minutes: Mapping[datetime, int], steps: Sequence[datetime], step: timedelta) -> Sequence[Point]:
    """Return how many deliveries came in each step, from the counts of minutes."""
    size = step // MINUTE
    return [(one, sum(minutes.get(one + at * MINUTE, 0) for at in range(size))) for one in steps]
