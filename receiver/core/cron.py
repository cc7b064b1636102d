"""Cron expressions as the service reads them.

They have the five fields of POSIX crontab and its lists and ranges, and steps beside them
(https://pubs.opengroup.org/onlinepubs/9799919799/utilities/crontab.html). By the service's public behaviour three
things differ: only numbers are taken, no names; `5/15` is just 5; and a run needs both its day of the month and its
weekday, where POSIX takes either if both are given.
"""

import calendar
import itertools
from dataclasses import dataclass
from datetime import date, timedelta
from typing import NamedTuple, Self

SHORTEST_PAUSE = timedelta(minutes=5)
"""The service refuses a schedule with less time between two runs."""
_DAY = timedelta(days=1)
_LEAP_YEAR = 2000
_SUNDAY = 7

_CalendarDay = tuple[int, int]
"""A month and a day of the month, in any year."""


def _days_in_turn() -> frozenset[tuple[_CalendarDay, _CalendarDay]]:
    """Return every two calendar days of which the second can follow the first."""
    year = [date(_LEAP_YEAR, 1, 1) + n * _DAY for n in range(367)]
    pairs = itertools.pairwise((day.month, day.day) for day in year)
    return frozenset([*pairs, ((2, 28), (3, 1))])


_DAYS_IN_TURN = _days_in_turn()


class _Field(NamedTuple):
    """One of the five fields."""

    what: str
    """What it counts, for errors."""
    lowest: int
    """Its smallest number."""
    highest: int
    """Its largest number."""

    def read(self, text: str) -> frozenset[int]:
        """Return the numbers that a field allows. A ValueError says what is wrong with it."""
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
        """Read an expression, whenever its runs are. A ValueError names the field that is wrong."""
        texts = text.split()
        if len(texts) != len(_FIELDS):
            raise ValueError("a cron expression has five fields: minute, hour, day, month and weekday")
        minutes, hours, days, months, weekdays = map(_Field.read, _FIELDS, texts)
        return cls(minutes, hours, days, months, frozenset(number % _SUNDAY for number in weekdays))

    def runs_on(self, day: date) -> bool:
        """Tell whether there is a run on a day."""
        return day.day in self.days and day.month in self.months and day.isoweekday() % _SUNDAY in self.weekdays

    def times_of_day(self) -> list[int]:
        """Return the runs of a day in minutes since midnight, the first one first."""
        return sorted(60 * hour + minute for hour in self.hours for minute in self.minutes)

    def has_days(self) -> bool:
        """Tell whether some year has such a day."""
        return bool(self._calendar_days())

    def require_valid(self) -> None:
        """Raise a ValueError if no year has a run, or if two runs come too soon after each other.

        The service also asks for a run within a year from now. This depends on the day and is left to the service.
        """
        calendar_days = self._calendar_days()
        if not self.has_days():
            raise ValueError("there is no such day: a run needs its day, its month and its weekday together")
        times = [timedelta(minutes=minute) for minute in self.times_of_day()]
        if self._runs_two_days_in_turn(calendar_days):
            times.append(times[0] + _DAY)
        if any(later - earlier < SHORTEST_PAUSE for earlier, later in itertools.pairwise(times)):
            raise ValueError(f"runs are at least {SHORTEST_PAUSE // timedelta(minutes=1)} minutes apart")

    def _calendar_days(self) -> set[_CalendarDay]:
        """Return the days that exist in some year. In the course of years each of them falls on every weekday."""
        return {
            (month, day)
            for month in self.months
            for day in self.days
            if day <= calendar.monthrange(_LEAP_YEAR, month)[1]
        }

    def _runs_two_days_in_turn(self, calendar_days: set[_CalendarDay]) -> bool:
        return any((weekday + 1) % _SUNDAY in self.weekdays for weekday in self.weekdays) and any(
            first in calendar_days and second in calendar_days for first, second in _DAYS_IN_TURN
        )
