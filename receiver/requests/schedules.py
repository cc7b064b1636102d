"""When a monitor runs: a cron expression, or words that the service turns into one."""

import itertools
import re
from typing import Annotated, Self

from pydantic import AfterValidator, model_validator

from receiver.requests.base import Request
from receiver.requests.fields import ScheduleFields

_SHORTEST_MINUTES = 5
_PART = re.compile(r"(?:\*|(\d{1,2})(?:-(\d{1,2}))?)(?:/(\d{1,2}))?")


def _check_cron(value: str) -> str:
    fields = value.split()
    if len(fields) != 5:
        raise ValueError("a cron expression has five fields: minute, hour, day, month and weekday")
    minutes = _named("minutes", fields[0], highest=59)
    hours = _named("hours", fields[1], highest=23)
    gaps = [later - earlier for earlier, later in itertools.pairwise(minutes)]
    if any(later - earlier == 1 for earlier, later in itertools.pairwise(hours)):
        gaps.append(minutes[0] + 60 - minutes[-1])
    if any(gap < _SHORTEST_MINUTES for gap in gaps):
        raise ValueError(f"runs are at least {_SHORTEST_MINUTES} minutes apart")
    return value


def _named(what: str, field: str, *, highest: int) -> list[int]:
    """Return the numbers in a cron field (crontab(5)), the lowest first."""
    named: set[int] = set()
    for part in field.split(","):
        found = _PART.fullmatch(part)
        if found is None:
            raise ValueError(f"{what} are named as 0, 5-20, */15 or 0,30")
        first, last, step = found.groups()
        begin = int(first or 0)
        end = int(last) if last else begin if first and not step else highest
        if not begin <= end <= highest or step == "0" or step == "00":
            raise ValueError(f"{what} are 0 to {highest}, the lower one first, and steps are 1 or more")
        named.update(range(begin, end + 1, int(step or 1)))
    return sorted(named)


class Schedule(Request, ScheduleFields):
    """Exactly one of `cron` and `text`. The service answers with `cron` in either case."""

    cron: Annotated[str, AfterValidator(_check_cron)] | None = None
    text: str | None = None
    """The schedule in words, such as `daily at 9:00`."""

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if (self.cron is None) == (self.text is None):
            raise ValueError("give exactly one of cron and text")
        return self
