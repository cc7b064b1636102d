"""Policies of a handler, besides its retries, as plain values that a worker follows."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Any

_RATE = re.compile(r"([1-9]\d{0,6})/(s|sec|second|min|minute|h|hour|d|day)")
_PERIODS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


class RunsIn(StrEnum):
    """Where a handler's function runs."""

    LOOP = "loop"
    """In the worker's event loop: async functions."""
    THREAD = "thread"
    """In one of the worker's threads: plain functions, unless they ask for a process."""
    PROCESS = "process"
    """In one of the worker's processes, with its own interpreter lock: plain functions that compute."""


@dataclass(frozen=True, slots=True)
class Lane:
    """Work items of one handler with the same key run one after the other, in the order of arrival.

    An event with the key None has no lane. An item that waits for its retry stops its lane. A dead item releases
    the lane, unless `holds_when_dead`: then the lane stops until the item is retried or buried.
    """

    key: Callable[[Any], str | None]
    holds_when_dead: bool = False


def job_of(event: Any) -> str | None:
    """Return the key of `ordered=True`: one lane for each job."""
    job_id: str | None = event.job_id
    return job_id


@dataclass(frozen=True, slots=True)
class AfterPages:
    """A terminal event waits until the pages of its job are handled and no page has arrived for `quiet`.

    It waits at most `at_most`, even if pages are still missing then.
    """

    at_most: timedelta
    quiet: timedelta


@dataclass(frozen=True, slots=True)
class Batch:
    """A handler gets a list of `size` events, or of the events that came within `linger` of the first one."""

    size: int
    linger: timedelta


@dataclass(frozen=True, slots=True)
class Rate:
    """Attempts of one handler start at least this far apart, over all workers and restarts."""

    interval: timedelta

    @classmethod
    def parse(cls, written: str) -> "Rate":
        """Read a text such as `30/min`; the unit is s, min, h or d. Raises ValueError for any other text."""
        found = _RATE.fullmatch(written)
        if found is None:
            raise ValueError(
                f"{written!r} is not a rate: write a number and a unit, as in '10/s', '30/min' or '500/h'"
            )
        interval = timedelta(seconds=_PERIODS[found[2][0]]) / int(found[1])
        if not interval:
            raise ValueError(f"{written!r} is faster than a clock can measure; leave the rate out")
        return cls(interval)
