"""When a monitor runs next, by its cron expression in its time zone.

Local time has gaps and repeats when clocks are changed. As in the cron of Debian, a run at a fixed time is not lost
in a gap and does not come twice in a repeat: it comes right after the gap, or at the first of the two times. Runs
whose minute or hour begins with `*` follow the local clock, so they come in both halves of a repeat.
"""

import hashlib
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

from receiver.requests.cron import Cron

MAX_DAYS = 367
"""Days that are searched: the service refuses a schedule without a run within a year."""
LONGEST_JITTER = timedelta(minutes=5)
"""How much later than its minute a run may come, if the emulator imitates the service in this."""
_DAY, _MINUTE = timedelta(days=1), timedelta(minutes=1)


def next_run(cron: str, timezone: str, after: datetime) -> datetime | None:
    """Return the first run after a moment, in UTC; None if there is none within a year."""
    read, zone = Cron.parse(cron), ZoneInfo(timezone)
    follows_clock = any(field.startswith("*") for field in cron.split()[:2])
    first = after.astimezone(zone).date() - _DAY  # a gap can move a run of the day before
    found: list[datetime] = []
    for number in range(MAX_DAYS + 1):
        day = first + number * _DAY
        if read.runs_on(day):
            found = [run for run in _runs_of_day(read, zone, day, follows_clock=follows_clock) if run > after]
        if found:
            return min(found)
    return None


def _runs_of_day(cron: Cron, zone: ZoneInfo, day: date, *, follows_clock: bool) -> Iterator[datetime]:
    midnight = datetime(day.year, day.month, day.day)
    for minute in cron.times_of_day():
        local = midnight + minute * _MINUTE
        moments = {local.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1)}
        real = sorted(one for one in moments if one.astimezone(zone).replace(tzinfo=None) == local)
        if real:
            yield from real if follows_clock else real[:1]
        elif not follows_clock:
            yield _end_of_gap(min(moments), max(moments), zone)


def _end_of_gap(low: datetime, high: datetime, zone: ZoneInfo) -> datetime:
    """Return the moment at which the clocks were set forward, between two moments around it."""
    before = low.astimezone(zone).utcoffset()
    while high - low > timedelta(seconds=1):
        middle = low + (high - low) / 2
        if middle.astimezone(zone).utcoffset() == before:
            low = middle
        else:
            high = middle
    return high.replace(microsecond=0)


def interval_of(cron: str, timezone: str, after: datetime) -> timedelta | None:
    """Return the time between the next two runs; None if there are no two within a year."""
    first = next_run(cron, timezone, after)
    second = None if first is None else next_run(cron, timezone, first)
    return None if first is None or second is None else second - first


def jitter_of(monitor_id: str, interval: timedelta | None) -> timedelta:
    """Return how much later than its minute each run of a monitor comes, as the service spreads them."""
    number = int.from_bytes(hashlib.sha256(monitor_id.encode()).digest()[:4], "big")
    bound = min(LONGEST_JITTER, LONGEST_JITTER if interval is None else interval / 2)
    milliseconds = max(1, bound // timedelta(milliseconds=1))
    return timedelta(milliseconds=number % milliseconds)
