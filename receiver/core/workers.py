"""Workers as they show themselves."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from receiver.core.types import HandlerName, WorkerId

_SECOND = timedelta(seconds=1)
LATE = timedelta(minutes=2)
"""A worker that has not been seen for so long hangs, or was killed."""
KEPT = timedelta(days=1)
"""How long a worker is remembered that has not been seen."""


@dataclass(frozen=True, slots=True)
class WorkerSign:
    """Who a worker is: one run of a process, on a machine, of a version of this program."""

    name: WorkerId
    machine: str
    pid: int
    version: str
    started_at: datetime


@dataclass(frozen=True, slots=True)
class WorkerReport:
    """A worker that has not said that it ended."""

    sign: WorkerSign
    seen_at: datetime
    """When it last said that it lives."""
    running: Mapping[HandlerName, int]
    """How many work items it has leased, by handler."""

    def is_late(self, now: datetime) -> bool:
        """Tell whether it has not been seen for a while."""
        return now - self.seen_at > LATE

    def unseen(self, now: datetime) -> timedelta:
        """Return for how many whole seconds it has not been seen."""
        return max(now - self.seen_at, timedelta(0)) // _SECOND * _SECOND
