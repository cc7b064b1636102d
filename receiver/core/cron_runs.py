"""When something runs next, by a cron expression in a time zone.

Local time has gaps and repeats when clocks are changed. As in the cron of Debian, a run at a fixed time is not lost
in a gap and does not come twice in a repeat: it comes right after the gap, or at the first of the two times. Runs
whose minute or hour begins with `*` follow the local clock, so they come in both halves of a repeat.
"""

import bisect
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo

from receiver.core.cron import Cron

MAX_DAYS = 367
"""Days that are searched unless the caller says how many: a year."""
UTC_NAME = "UTC"
_DAY, _MINUTE = timedelta(days=1), timedelta(minutes=1)


def next_run(cron: str, timezone: str, after: datetime, *, days: int = MAX_DAYS) -> datetime | None:
    """Return the first run after a moment, in UTC; None if there is none within so many days."""
    calendar = _Calendar.of(cron, timezone)
    first = after.astimezone(calendar.zone).date() - _DAY  # a gap can move a run of the day before
    for number in range(days + 1):
        found = calendar.runs_after(first + number * _DAY, after)
        if found:
            return found[0]
    return None


def last_runs(cron: str, timezone: str, since: datetime, until: datetime, most: int) -> list[datetime]:
    """Return the last runs after `since` and up to `until`, at most so many, the first one first.

    The work is that of the runs and of the days between them, however many runs there were before.
    """
    calendar = _Calendar.of(cron, timezone)
    day, first = until.astimezone(calendar.zone).date(), since.astimezone(calendar.zone).date() - _DAY
    found: list[datetime] = []
    while day >= first and len(found) < most:
        found[:0] = [run for run in calendar.runs_after(day, since) if run <= until]
        day -= _DAY
    return found[-most:]


def zone_of(name: str) -> tzinfo:
    """Return a time zone. UTC is known on slim systems too, which have no list of zones.

    Raises what ZoneInfo raises for a name that is not known: ZoneInfoNotFoundError, ValueError or OSError.
    """
    return UTC if name == UTC_NAME else ZoneInfo(name)


@dataclass(frozen=True, slots=True)
class _Calendar:
    """The runs of a schedule, day by day."""

    cron: Cron
    """The days and times in local time."""
    zone: tzinfo
    """The place whose clocks count."""
    times: tuple[timedelta, ...]
    """The runs of a day, since midnight."""
    follows_clock: bool
    """Whether runs come in both halves of a repeat."""

    @classmethod
    @lru_cache(maxsize=256)
    def of(cls, cron: str, timezone: str) -> "_Calendar":
        read = Cron.parse(cron)
        times = tuple(minute * _MINUTE for minute in read.times_of_day())
        return cls(read, zone_of(timezone), times, any(field.startswith("*") for field in cron.split()[:2]))

    def runs_after(self, day: date, after: datetime) -> list[datetime]:
        """Return the runs of a day after a moment, the first one first."""
        if not self.cron.runs_on(day):
            return []
        midnight = datetime(day.year, day.month, day.day)
        begin, end = (one.replace(tzinfo=self.zone).astimezone(UTC) for one in (midnight, midnight + _DAY))
        if end - begin == _DAY:  # the clocks are not changed on this day
            from_here = bisect.bisect_right(self.times, after - begin)
            return [begin + time for time in self.times[from_here:]]
        return sorted(run for run in self._runs_of(midnight) if run > after)

    def _runs_of(self, midnight: datetime) -> Iterator[datetime]:
        for time in self.times:
            local = midnight + time
            moments = {local.replace(tzinfo=self.zone, fold=fold).astimezone(UTC) for fold in (0, 1)}
            real = sorted(one for one in moments if one.astimezone(self.zone).replace(tzinfo=None) == local)
            if real:
                yield from real if self.follows_clock else real[:1]
            elif not self.follows_clock:
                yield _end_of_gap(min(moments), max(moments), self.zone)


def _end_of_gap(low: datetime, high: datetime, zone: tzinfo) -> datetime:
    """Return the moment at which the clocks were set forward, between two moments around it."""
    before = low.astimezone(zone).utcoffset()
    while high - low > timedelta(seconds=1):
        middle = low + (high - low) / 2
        if middle.astimezone(zone).utcoffset() == before:
            low = middle
        else:
            high = middle
    return high.replace(microsecond=0)
