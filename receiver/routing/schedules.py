"""When a handler runs by itself: at even intervals, or by a cron expression in a time zone."""

import itertools
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Protocol

from typing_extensions import override

from receiver.core.cron import UTC_NAME, Cron, last_runs, next_run, zone_of
from receiver.core.units import MICROSECOND, in_words, spoken_duration
from receiver.errors import HandlerError, as_duration

Pause = str | float | timedelta
"""A duration such as `5 minutes` or `5m`, a number of seconds, or a timedelta."""

SHORTEST_INTERVAL, LONGEST_INTERVAL = timedelta(seconds=1), timedelta(days=366)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LEAP_YEARS_DAYS = 8 * 366 + 1
"""29 February is missing for eight years around 2100."""
_COMPARED_RUNS = 10
_DAYS, _WEEKDAYS = frozenset(range(1, 32)), frozenset(range(7))
_STEP_OF_ONE = re.compile(r"(?:^|,)\d+/")


class RunTimes(Protocol):
    """The moments at which a handler runs. They are the same for every worker, whenever it started."""

    @property
    def text(self) -> str:
        """The schedule for people; another text is another schedule."""

    def next_after(self, moment: datetime) -> datetime:
        """Return the first run after a moment."""

    def last_until(self, moment: datetime, *, since: datetime) -> datetime:
        """Return the last run up to a moment. There is one at `since`."""

    def shortest_gap(self) -> timedelta:
        """Return the approximate shortest time between two runs."""


@dataclass(frozen=True, slots=True)
class IntervalTimes(RunTimes):
    """Runs at even intervals from the beginning of 1970 in UTC: every hour is on the hour."""

    interval: timedelta

    @property
    @override
    def text(self) -> str:
        return f"every {in_words(self.interval)}"

    @override
    def next_after(self, moment: datetime) -> datetime:
        return _EPOCH + ((moment - _EPOCH) // self.interval + 1) * self.interval

    @override
    def last_until(self, moment: datetime, *, since: datetime) -> datetime:
        return _EPOCH + (moment - _EPOCH) // self.interval * self.interval

    @override
    def shortest_gap(self) -> timedelta:
        return self.interval


@dataclass(frozen=True, slots=True)
class CronTimes(RunTimes):
    """Runs by a cron expression on the clocks of a time zone. `core.cron` says how it follows changed clocks."""

    cron: str
    timezone: str

    @property
    @override
    def text(self) -> str:
        return f"cron {self.cron} {self.timezone}"

    @override
    def next_after(self, moment: datetime) -> datetime:
        found = next_run(self.cron, self.timezone, moment, days=_LEAP_YEARS_DAYS)
        if found is None:
            raise AssertionError(f"{self.text} has no run, and registration did not refuse it")
        return found

    @override
    def last_until(self, moment: datetime, *, since: datetime) -> datetime:
        found = last_runs(self.cron, self.timezone, since - MICROSECOND, moment, 1)
        return found[0] if found else since

    @override
    def shortest_gap(self) -> timedelta:
        runs = [self.next_after(_EPOCH)]
        while len(runs) < _COMPARED_RUNS:
            runs.append(self.next_after(runs[-1]))
        return min(later - earlier for earlier, later in itertools.pairwise(runs))


def read_times(handler: str, interval: object, cron: object, timezone: object) -> RunTimes:
    """Return the times of a handler. Raises HandlerError for a schedule that is not one."""
    if (interval is None) == (cron is None):
        raise HandlerError(
            f'{handler}: give every(...) an interval or cron=, as in every("5 minutes") or every(cron="0 9 * * 1")'
        )
    if cron is not None:
        return _cron(handler, cron, UTC_NAME if timezone is None else timezone)
    if timezone is not None:
        raise HandlerError(f"{handler}: timezone= is for cron=; an interval has none")
    found = read_pause(handler, "every(...)", interval)
    if not SHORTEST_INTERVAL <= found <= LONGEST_INTERVAL or found % SHORTEST_INTERVAL:
        raise HandlerError(
            f"{handler}: every(...) takes whole seconds, from {in_words(SHORTEST_INTERVAL)} "
            f"to {in_words(LONGEST_INTERVAL)}, not {in_words(max(found, timedelta(0)))}"
        )
    return IntervalTimes(found)


def read_pause(owner: str, option: str, given: object) -> timedelta:
    """Return a duration. Raises HandlerError for anything else."""
    try:
        return spoken_duration(given) if isinstance(given, str) else as_duration(given)
    except ValueError:
        raise HandlerError(
            f"{owner}: {option} takes a text such as '5 minutes' or '5m', seconds, or a timedelta, not {given!r}"
        ) from None


def _cron(handler: str, cron: object, timezone: object) -> CronTimes:
    if not isinstance(cron, str):
        raise HandlerError(f"{handler}: cron= takes a text such as '0 9 * * 1', not {cron!r}")
    if not isinstance(timezone, str) or not _is_zone(timezone):
        raise HandlerError(
            f"{handler}: timezone= takes the name of a time zone, such as 'Europe/Berlin', not {timezone!r}; "
            "where the system has no zones, install the package tzdata"
        )
    text = " ".join(cron.split())
    try:
        read = Cron.parse(text)
    except ValueError as exc:
        raise HandlerError(f"{handler}: cron={cron!r} is not understood: {exc}") from None
    if read.days != _DAYS and read.weekdays != _WEEKDAYS:
        # POSIX runs on either of the two, the service on both together; an author may mean either rule.
        raise HandlerError(f"{handler}: cron={cron!r} names days of the month and weekdays: write * for one")
    if _STEP_OF_ONE.search(text.replace(" ", ",")):
        # Some programs read 5/15 as 5-59/15, and the service as 5.
        raise HandlerError(f"{handler}: cron={cron!r} has a step without a range: write it as in */15 or 5-20/5")
    if not read.has_days():
        raise HandlerError(f"{handler}: cron={cron!r} names a day that no year has")
    return CronTimes(text, timezone)


def _is_zone(name: str) -> bool:
    try:
        zone_of(name)
    except (KeyError, ValueError, OSError):  # ZoneInfoNotFoundError is a KeyError; OSError: a folder, as in Europe
        return False
    return True
