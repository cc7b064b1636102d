"""When a monitor runs: cron expressions, or words that the service turns into one."""

import itertools
import re
from typing import Annotated, Self

from pydantic import AfterValidator, model_validator

from receiver.requests.base import Request

_SHORTEST_MINUTES = 5
_PART = re.compile(r"(?:\*|(\d{1,2})(?:-(\d{1,2}))?)(?:/(\d{1,2}))?")


def _check_cron(value: str) -> str:
    fields = value.split()
    if len(fields) != 5:
        raise ValueError("a cron expression has five fields: minute, hour, day, month and weekday")
    minutes = sorted(_minutes(fields[0]))
    gaps = [later - earlier for earlier, later in itertools.pairwise(minutes)]
    if fields[1] == "*":
        gaps.append(minutes[0] + 60 - minutes[-1])
    if any(gap < _SHORTEST_MINUTES for gap in gaps):
        raise ValueError(f"runs are at least {_SHORTEST_MINUTES} minutes apart")
    return value


def _minutes(field: str) -> set[int]:
    """Return the minutes of an hour that a cron field names (crontab(5))."""
    minutes: set[int] = set()
    for part in field.split(","):
        found = _PART.fullmatch(part)
        if found is None:
            raise ValueError("the first field names minutes, such as 0, 5-20, */15 or 0,30")
        first, last, step = found.groups()
        begin = int(first or 0)
        end = int(last) if last else begin if first and not step else 59
        if not begin <= end <= 59 or step == "0" or step == "00":
            raise ValueError("minutes are 0 to 59, the lower one first, and steps are 1 or more")
        minutes.update(range(begin, end + 1, int(step or 1)))
    return minutes


class Schedule(Request):
    """Exactly one of `cron` and `text`. The service answers with `cron` in either case."""

    cron: Annotated[str, AfterValidator(_check_cron)] | None = None
    """Five fields, and at least five minutes between two runs."""
    text: str | None = None
    """Such as `daily at 9:00`."""
    timezone: str | None = None
    """UTC unless it is given."""

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if (self.cron is None) == (self.text is None):
            raise ValueError("give exactly one of cron and text")
        return self
