"""Cron expressions as the service reads them.

They have the five fields of POSIX crontab, with its lists and ranges, and also steps
(https://pubs.opengroup.org/onlinepubs/9799919799/utilities/crontab.html). The service's public behaviour differs in
three ways: only numbers are taken, no names; `5/15` is just 5; and a run needs both its day of the month and its
weekday, where POSIX takes either if both are given.

Local time has gaps and repeats when clocks are changed. As in the cron of Debian, a run at a fixed time is not lost
in a gap and does not come twice in a repeat: it comes right after the gap, or at the first of the two times. Runs
whose minute or hour begins with `*` follow the local clock, and come in both halves of a repeat.
"""

import bisect
import calendar
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import NamedTuple, Self
from zoneinfo import ZoneInfo

SHORTEST_PAUSE = timedelta(minutes=5)
"""The service refuses a schedule with less time between two runs."""
_DAY = timedelta(days=1)
_LEAP_YEAR = 2000
_SUNDAY = 7

_CalendarDay = tuple[int, int]
"""A month and a day of the month, in any year."""


def _days_in_turn() -> frozenset[tuple[_CalendarDay, _CalendarDay]]:
    """Return the pairs of calendar days that can follow each other."""
    year = [date(_LEAP_YEAR, 1, 1) + n * _DAY for n in range(367)]
    pairs = itertools.pairwise((day.month, day.day) for day in year)
    return frozenset([*pairs, ((2, 28), (3, 1))])


_DAYS_IN_TURN = _days_in_turn()


class _Field(NamedTuple):
    """One of the five fields."""

    what: str
    """What it counts, for errors."""
    lowest: int
    highest: int

    def read(self, text: str) -> frozenset[int]:
        """Return the numbers that a field allows. Raises ValueError, which says what is wrong with it."""
        return frozenset(itertools.chain.from_iterable(self._read_item(item) for item in text.split(",")))

    def _read_item(self, item: str) -> range:
        span, has_step, step = item.partition("/")
        first, is_range, last = span.partition("-")
        if span == "*":
            begin, end = self.lowest, self.highest
        else:
            begin = self._number(first)
            end = self._number(last) if is_range else begin
        width = self._number(step) if has_step else 1
        if not self.lowest <= begin <= end <= self.highest or width == 0:
            raise ValueError(
                f"{self.what} are {self.lowest} to {self.highest}, the lower one first, and steps are 1 or more"
            )
        return range(begin, end + 1, width)

    def _number(self, text: str) -> int:
        if not (text.isascii() and text.isdigit() and len(text) <= 2):
            low = self.lowest
            raise ValueError(f"{self.what} are named as {low}, 5-10, */2 or {low},6; words are not taken")
        return int(text)


_FIELDS = (
    _Field("minutes", 0, 59),
    _Field("hours", 0, 23),
    _Field("days", 1, 31),
    _Field("months", 1, 12),
    _Field("weekdays", 0, 7),
)


@dataclass(frozen=True, slots=True)
class Cron:
    """A cron expression as the numbers that each field allows. A run needs all five, in local time."""

    minutes: frozenset[int]
    """0 to 59."""
    hours: frozenset[int]
    """0 to 23."""
    days: frozenset[int]
    """Days of the month, 1 to 31."""
    months: frozenset[int]
    """1 to 12."""
    weekdays: frozenset[int]
    """0 to 6, Sunday is 0."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read an expression, even one without any run. Raises ValueError, which names the wrong field."""
        texts = text.split()
        if len(texts) != len(_FIELDS):
            raise ValueError("a cron expression has five fields: minute, hour, day, month and weekday")
        minutes, hours, days, months, weekdays = map(_Field.read, _FIELDS, texts)
        return cls(minutes, hours, days, months, frozenset(number % _SUNDAY for number in weekdays))

    def runs_on(self, day: date) -> bool:
        """Return whether there is a run on a day."""
        return day.day in self.days and day.month in self.months and day.isoweekday() % _SUNDAY in self.weekdays

    def times_of_day(self) -> list[int]:
        """Return the runs of a day in minutes since midnight, in order."""
        return sorted(60 * hour + minute for hour in self.hours for minute in self.minutes)

    def has_days(self) -> bool:
        """Return whether its days exist in any year."""
        return bool(self._calendar_days())

    def require_valid(self) -> None:
        """Raise ValueError if no year has a run, or if two runs are too close together.

        The service also requires a run within a year from now. That depends on the day and is left to the service.
        """
        days = self._calendar_days()
        if not days:
            raise ValueError("there is no such day: a run needs its day, its month and its weekday together")
        times = [timedelta(minutes=minute) for minute in self.times_of_day()]
        if any((weekday + 1) % _SUNDAY in self.weekdays for weekday in self.weekdays) and any(
            first in days and second in days for first, second in _DAYS_IN_TURN
        ):
            times.append(times[0] + _DAY)
        if any(later - earlier < SHORTEST_PAUSE for earlier, later in itertools.pairwise(times)):
            raise ValueError(f"runs are at least {SHORTEST_PAUSE // timedelta(minutes=1)} minutes apart")

    def _calendar_days(self) -> set[_CalendarDay]:
        """Return the days that exist in some year. Over the years each of them falls on every weekday."""
        return {
            (month, day)
            for month in self.months
            for day in self.days
            if day <= calendar.monthrange(_LEAP_YEAR, month)[1]
        }


MAX_DAYS = 367
"""How many days are searched by default: a year."""
UTC_NAME = "UTC"
_MINUTE = timedelta(minutes=1)


def next_run(cron: str, timezone: str, after: datetime, *, days: int = MAX_DAYS) -> datetime | None:
    """Return the first run after a moment, in UTC; None if there is none within `days`."""
    calendar = _Calendar.of(cron, timezone)
    first = after.astimezone(calendar.zone).date() - _DAY  # a gap can move a run of the day before
    for number in range(days + 1):
        found = calendar.runs_after(first + number * _DAY, after)
        if found:
            return found[0]
    return None


def last_runs(cron: str, timezone: str, since: datetime, until: datetime, most: int) -> list[datetime]:
    """Return the last runs after `since` and up to `until`, at most `most`, in order.

    The work grows with these runs and the days between them, not with the number of earlier runs.
    """
    calendar = _Calendar.of(cron, timezone)
    day, first = until.astimezone(calendar.zone).date(), since.astimezone(calendar.zone).date() - _DAY
    found: list[datetime] = []
    while day >= first and len(found) < most:
        found[:0] = [run for run in calendar.runs_after(day, since) if run <= until]
        day -= _DAY
    return found[-most:]


def zone_of(name: str) -> tzinfo:
    """Return a time zone. UTC works even on slim systems, which have no list of zones.

    Raises what ZoneInfo raises for an unknown name: ZoneInfoNotFoundError, ValueError or OSError.
    """
    return UTC if name == UTC_NAME else ZoneInfo(name)


@dataclass(frozen=True, slots=True)
class _Calendar:
    """The runs of a schedule, day by day."""

    cron: Cron
    zone: tzinfo
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
        """Return the runs of a day after a moment, in order."""
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
