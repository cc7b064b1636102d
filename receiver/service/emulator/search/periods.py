"""How recent hits have to be: the `tbs` of the search engine that the service asks."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

_DAYS = {"h": 1 / 24, "n": 1 / 1440, "s": 1 / 86400, "d": 1, "w": 7, "m": 31, "y": 366}
_RECENT = re.compile(r"qdr:([hnsdwmy])(\d{0,4})")
_DAY = re.compile(r"cd_(min|max):(\d{1,2})/(\d{1,2})/(\d{4})")
_TIME_RANGES = {"h": "day", "n": "day", "s": "day", "d": "day", "w": "week", "m": "month", "y": "year"}


@dataclass(frozen=True, slots=True)
class SearchPeriod:
    """What `tbs` says."""

    since: datetime | None = None
    """The oldest date of a hit."""
    until: datetime | None = None
    """The newest date of a hit."""
    by_date: bool = False
    """Whether the newest hits come first."""
    time_range: str = ""
    """The same period as `day`, `week`, `month` or `year`; empty for others."""
    unknown: tuple[str, ...] = ()
    """What was not understood, and changes nothing."""


def period_of(tbs: str, now: datetime) -> SearchPeriod:
    """Return what a text such as `qdr:d`, `sbd:1,qdr:w` or `cdr:1,cd_min:1/31/2026,cd_max:2/28/2026` says."""
    since = until = None
    by_date, time_range = False, ""
    unknown: list[str] = []
    for part in filter(None, (one.strip() for one in tbs.split(",")[:20])):
        if recent := _RECENT.fullmatch(part):
            since, until = now - timedelta(days=_DAYS[recent[1]] * int(recent[2] or 1)), now
            time_range = _TIME_RANGES[recent[1]] if recent[2] in ("", "1") else ""
        elif (found := _DAY.fullmatch(part)) and (day := _day(found)) is not None:
            since, until = (day, until) if found[1] == "min" else (since, day + timedelta(days=1))
        elif part in ("sbd:1", "sbd:0"):
            by_date = part == "sbd:1"
        elif part != "cdr:1":
            unknown.append(part[:100])
    return SearchPeriod(since, until, by_date, time_range, tuple(unknown))


def _day(found: re.Match[str]) -> datetime | None:
    try:
        return datetime(int(found[4]), int(found[2]), int(found[3]), tzinfo=UTC)
    except ValueError:
        return None
