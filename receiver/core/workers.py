"""Workers as they show themselves."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from receiver.core.rules import Pace
from receiver.core.types import HandlerName, WorkerId

_SECOND = timedelta(seconds=1)
LATE = timedelta(minutes=2)
"""A worker that has not been seen for so long hangs, or was killed."""
KEPT = timedelta(days=1)
"""How long a worker is remembered that has not been seen."""


@dataclass(frozen=True, slots=True)
class HandlerLimits:
    """What a handler may do at most, over all workers; None is no limit of its own."""

    concurrency: int | None = None
    """How many attempts run at one time."""
    interval: timedelta | None = None
    """How far apart attempts begin."""


@dataclass(frozen=True, slots=True)
class WorkerSign:
    """Who a worker is: one run of a process, on a machine, of a version of this program."""

    name: WorkerId
    machine: str
    pid: int
    version: str
    started_at: datetime
    slots: int = 0
    """How many attempts it runs at one time; 0 if it is of a version that does not say so."""
    limits: Mapping[HandlerName, HandlerLimits] = field(default_factory=dict)
    """Its handlers that have limits of their own."""


@dataclass(frozen=True, slots=True)
class WorkerReport:
    """A worker that has not said that it ended."""

    sign: WorkerSign
    seen_at: datetime
    """When it last said that it lives."""
    running: Mapping[HandlerName, int]
    """How many work items it has leased, by handler."""
    is_dead: bool = False
    """Its process has certainly ended. A store may not know that of a worker that is dead."""

    def is_late(self, now: datetime) -> bool:
        """Tell whether it is dead, or has not been seen for a while."""
        return self.is_dead or now - self.seen_at > LATE

    @property
    def suspicion(self) -> str:
        """What must have happened to it if it is late, for people."""
        return "it was killed" if self.is_dead else "it hangs, or was killed"

    def unseen(self, now: datetime) -> timedelta:
        """Return for how many whole seconds it has not been seen."""
        return max(now - self.seen_at, timedelta(0)) // _SECOND * _SECOND


@dataclass(frozen=True, slots=True)
class HandlerUse:
    """How much of its limits a handler uses now."""

    running: int
    """How many of its attempts run, in all workers."""
    most: int
    """How many may run: by its own limit, else the slots of all workers."""
    has_own_limit: bool
    """Whether that is its own limit."""
    interval: timedelta | None
    """How far apart attempts begin; None without a rate."""
    next_from: datetime | None
    """When the next attempt may begin by the rate; None if it may begin now."""

    @property
    def per_minute(self) -> float | None:
        """How many attempts may begin in a minute; None without a rate."""
        return None if self.interval is None else timedelta(minutes=1) / self.interval


def use_of(
    handler: HandlerName, workers: Sequence[WorkerReport], paced_until: datetime | None, now: datetime
) -> HandlerUse:
    """Return what a handler uses, as its living workers show it. While versions change, the lower limit counts."""
    alive = [one for one in workers if not one.is_late(now)]
    limits = [one.sign.limits[handler] for one in alive if handler in one.sign.limits]
    own = min((one.concurrency for one in limits if one.concurrency is not None), default=None)
    interval = max((one.interval for one in limits if one.interval is not None), default=None)
    begin = None
    if interval is not None and paced_until is not None:
        begin = Pace(interval, paced_until).begin_from(now)
    return HandlerUse(
        running=sum(one.running.get(handler, 0) for one in workers),
        most=sum(one.sign.slots for one in alive) if own is None else own,
        has_own_limit=own is not None,
        interval=interval,
        next_from=begin if begin is not None and begin > now else None,
    )
