"""Every rule by which a work item moves: where it begins, when it may run, and what the end of an attempt means."""

import random
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from receiver.core.claims import HeldItem, JobPages
from receiver.core.retries import MAX_PAUSE, RetrySchedule
from receiver.core.types import HandlerSwitch, Trigger, WorkState
from receiver.core.work import NewWork
from receiver.core.work_states import Cause, next_state


@dataclass(frozen=True, slots=True)
class Succeeded:
    """The handler returned."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The handler raised, or was too slow.

    `after` is what it asked for itself, if it did, and `at_least` what a service that it called asked of it.
    """

    after: timedelta | None = None
    at_least: timedelta | None = None


@dataclass(frozen=True, slots=True)
class Refused:
    """The handler gave up."""


@dataclass(frozen=True, slots=True)
class Died:
    """The process of its own in which the handler ran did not survive it."""


Result = Succeeded | Failed | Refused | Died


@dataclass(frozen=True, slots=True)
class Complete:
    """The work item is done."""


@dataclass(frozen=True, slots=True)
class RetryAt:
    """The work item waits until then."""

    due_at: datetime


@dataclass(frozen=True, slots=True)
class Bury:
    """The work item is dead."""


POISON_AFTER = 2
"""A work item that this many processes died of, while it ran, is dead."""

Decision = Complete | RetryAt | Bury


@dataclass(frozen=True, slots=True)
class Release:
    """A held work item may run."""

    note: str


@dataclass(frozen=True, slots=True)
class RecheckAt:
    """A held work item waits on, until the next look."""

    at: datetime
    note: str


def decide(
    result: Result,
    *,
    attempt: int,
    schedule: RetrySchedule,
    now: datetime,
    rng: random.Random,
    deaths: int = 0,
) -> Decision:
    """Return what becomes of a work item after an attempt; `attempt` is its number without the uncounted ones.

    `deaths` is how many processes had died of it before.
    A pause asked for by the handler replaces the schedule's, without jitter; one that a service asked for makes it
    longer if need be, by a little more, so that not all come back together. The number of attempts stays.
    """
    match result:
        case Succeeded():
            return Complete()
        case Refused():
            return Bury()
        case Died() if deaths + 1 >= POISON_AFTER:
            return Bury()
        case Died():
            return decide(Failed(), attempt=attempt, schedule=schedule, now=now, rng=rng)
        case Failed(after, at_least):
            due_at = schedule.due_after(attempt, now=now, rng=rng)
            if due_at is None:
                return Bury()
            if after is not None:
                return RetryAt(now + min(after, MAX_PAUSE))
            if at_least is not None:
                due_at = max(due_at, now + min(at_least, MAX_PAUSE) * rng.uniform(1.0, 1.1))
            return RetryAt(due_at)


def state_after(decision: Decision) -> WorkState:
    """Return the state to which a decision moves a work item that runs."""
    match decision:
        case Complete():
            return next_state(WorkState.RUNNING, Cause.SUCCEEDED)
        case RetryAt():
            return next_state(WorkState.RUNNING, Cause.FAILED)
        case Bury():
            return next_state(WorkState.RUNNING, Cause.FAILED_FOR_GOOD)


def suspicious(*, lost: int, deaths: int) -> bool:
    """Tell whether an item may be what kills its workers, so that it has to run with nothing beside it.

    `lost` of its attempts ended with their worker, and `deaths` of those are known to have begun.
    """
    return deaths >= 1 or lost >= 2


def as_replay(work: NewWork) -> NewWork:
    """Return the work item as it is made for a delivery that has been routed before: any worker takes it."""
    trigger = Trigger.REPLAY if work.trigger is Trigger.DELIVERY else work.trigger
    return replace(work, claim=False, starts=False, trigger=trigger)


def made_by(work: NewWork, switch: HandlerSwitch, *, lane_busy: bool) -> Cause:
    """Return the cause that gives a new work item its state."""
    if switch is HandlerSwitch.DISABLED:
        return Cause.MADE_DISABLED
    if work.hold is not None:
        return Cause.MADE_HELD
    if lane_busy:
        return Cause.MADE_IN_BUSY_LANE
    if switch is HandlerSwitch.PAUSED or not work.claim:
        return Cause.MADE
    return Cause.MADE_CLAIMED


def initial_state(work: NewWork, switch: HandlerSwitch, *, lane_busy: bool) -> WorkState:
    """Return the state in which a work item begins."""
    return next_state(None, made_by(work, switch, lane_busy=lane_busy))


_SLACK = timedelta(milliseconds=100)
"""Claims come now and then and not evenly; a rate lets what fell due within this time begin together."""


@dataclass(frozen=True, slots=True)
class Pace:
    """The generic cell rate algorithm for one handler: attempts begin `interval` apart.

    `until` is the moment that the last attempt asked the next one to wait for.
    """

    interval: timedelta
    until: datetime

    def begin_from(self, now: datetime) -> datetime:
        """Return when the next attempt may begin."""
        return self._until(now) - _SLACK

    def allows(self, now: datetime) -> int:
        """Return how many attempts may begin now."""
        ahead = max(self._until(now) - now, timedelta(0))
        return max(0, (_SLACK - ahead) // self.interval + 1)

    def after(self, begun: int, now: datetime) -> datetime:
        """Return `until` after so many have begun."""
        return max(self._until(now), now) + begun * self.interval

    def _until(self, now: datetime) -> datetime:
        # Further ahead than it can have been put: the clock was set back, and nobody waits for it to come again.
        return now if self.until - now > _SLACK + self.interval else self.until


_LOOK = timedelta(seconds=1)


def check_hold(item: HeldItem, pages: JobPages, *, quiet: timedelta, now: datetime) -> Release | RecheckAt:
    """Return whether a terminal event may be handled, given what is known of its job's pages."""
    if pages.open_key is not None:
        missing = f"the page of delivery {pages.open_key} is not handled"
        then = now + _LOOK
    else:
        then = max(item.received_at, pages.last_at or item.received_at) + quiet
        last = "no page came" if pages.last_at is None else f"the last page came at {_clock(pages.last_at)}"
        if then <= now:
            return Release(f"every page is handled; {last}")
        missing = f"{last}, quiet until {_clock(then)}"
    if item.until <= now:
        return Release(f"waited long enough, though {missing}")
    return RecheckAt(min(then, item.until), f"waits: {missing}; until {_clock(item.until)} at most")


def _clock(moment: datetime) -> str:
    return f"{moment:%H:%M:%S} UTC"
