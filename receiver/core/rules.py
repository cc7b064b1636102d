"""The rules of work: in which state an item begins, when it may run, and what the end of an attempt means."""

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import MappingProxyType

from receiver.core.claims import ClaimLimits, HeldItem, JobPages, Settlement, WorkItem
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

    `after` is the pause that the handler asked for, and `at_least` the pause that a service asked the handler for.
    """

    after: timedelta | None = None
    at_least: timedelta | None = None


@dataclass(frozen=True, slots=True)
class Refused:
    """The handler gave up."""


@dataclass(frozen=True, slots=True)
class Died:
    """The process in which the handler ran has died."""


Result = Succeeded | Failed | Refused | Died


POISON_AFTER = 2
"""A work item is dead after this many processes have certainly died while they ran it."""

ENDS: Mapping[tuple[type[Result], bool], Cause] = MappingProxyType(
    {
        (Succeeded, True): Cause.SUCCEEDED,
        (Succeeded, False): Cause.SUCCEEDED,
        (Failed, True): Cause.FAILED,
        (Failed, False): Cause.FAILED_FOR_GOOD,
        (Died, True): Cause.FAILED,
        (Died, False): Cause.FAILED_FOR_GOOD,
        (Refused, True): Cause.FAILED_FOR_GOOD,
        (Refused, False): Cause.FAILED_FOR_GOOD,
    }
)
"""Why a running work item changes its state, by the result of the attempt and by whether an attempt is left."""

_STATES = {row: next_state(WorkState.RUNNING, cause) for row, cause in ENDS.items()}


def after_attempt(
    result: Result,
    *,
    attempt: int,
    schedule: RetrySchedule,
    now: datetime,
    rng: random.Random,
    deaths: int = 0,
) -> tuple[WorkState, datetime]:
    """Return the state that follows from a result by `ENDS`, and when the item is due if that is WAITING.

    `attempt` is the number of the attempt without the uncounted ones. `deaths` counts the processes that had died
    before while they ran the item.
    """
    if isinstance(result, Succeeded | Refused):
        return _STATES[type(result), True], now
    due_at = None
    if isinstance(result, Failed) or deaths + 1 < POISON_AFTER:
        due_at = _due_again(result, schedule.due_after(attempt, now=now, rng=rng), now, rng)
    return _STATES[type(result), due_at is not None], due_at or now


def _due_again(
    result: Failed | Died, due_at: datetime | None, now: datetime, rng: random.Random
) -> datetime | None:
    """Return when the next attempt is due; `due_at` is what the schedule says, None if no attempt is left.

    A pause that the handler asked for replaces that of the schedule, without jitter. A pause that a service asked
    for makes it longer if necessary, with a little jitter, which spreads the items that come back.
    """
    if due_at is None or isinstance(result, Died):
        return due_at
    if result.after is not None:
        return now + min(result.after, MAX_PAUSE)
    if result.at_least is not None:
        return max(due_at, now + min(result.at_least, MAX_PAUSE) * rng.uniform(1.0, 1.1))
    return due_at


SUSPECT_LOSSES = 2
"""After this many lost attempts a work item is suspicious."""


def suspicious(*, suspect: bool, started: bool, lost: int) -> bool:
    """Return whether an item may have killed or blocked its workers, when an attempt is lost. It then runs alone.

    `suspect` is whether it was suspicious before, and `started` whether the lost attempt had started. `lost`
    counts this attempt too.
    """
    return suspect or started or lost >= SUSPECT_LOSSES


def refusal(item: WorkItem, schedule: RetrySchedule, *, suspect: bool) -> str | None:
    """Return why a claimed item must not run again, None if it may.

    Only deaths make an item poison. A lost lease is no proof: its worker may have been suspended, or the machine
    was busy. So the first lost attempt that had started does not count in the schedule, but from then on the item
    is a suspect. Attempts that it loses as a suspect, when nothing else runs beside it, count.
    """
    if item.deaths >= POISON_AFTER:
        return f"not run again: {item.deaths} workers died while it ran"
    if suspect and item.attempt - item.uncounted > schedule.attempts:
        return "not run again: it has no attempt left, and in the last one its worker lost the lease"
    return None


MIN_SET_BACK = timedelta(minutes=1)
"""A clock so far behind the latest moment of the store was set back. Less is the time to wait for a lock."""
TIME_STEP = timedelta(seconds=10)
"""A store notes a later moment only if it is so much later, to save writes."""


def set_back_by(latest: datetime, now: datetime) -> timedelta:
    """Return how far the clock was set back since the `latest` moment that the store has noted, or zero."""
    return latest - now if latest - now >= MIN_SET_BACK else timedelta(0)


def as_replay(work: NewWork) -> NewWork:
    """Return the work item for a delivery that was routed before: any worker may claim it."""
    trigger = Trigger.REPLAY if work.trigger is Trigger.DELIVERY else work.trigger
    return work._replace(claim=False, starts=False, trigger=trigger)


def later_work(settlements: Iterable[Settlement]) -> list[NewWork]:
    """Return what those attempts asked for that succeeded. Their workers still had the leases."""
    return [
        NewWork(later.seq, later.handler, claim=False, trigger=Trigger.LATER, due_at=later.due_at)
        for one in settlements
        if one.state is WorkState.DONE
        for later in one.later
    ]


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


MAX_FOLLOWERS = 64
"""Followers that come with one item at most."""


def followers_each(wanted: ClaimLimits, claimed: int, heads: int) -> int:
    """Return how many followers may come with each head of a lane: they share the room that a claim leaves."""
    if wanted.suspects or not heads:
        return 0
    return min(max(0, wanted.limit - claimed) // heads, MAX_FOLLOWERS)


def with_worker(work: Sequence[NewWork], states: Sequence[WorkState]) -> list[bool]:
    """Return which new items the worker that made them may run: those claimed, and their followers.

    Where the head of a lane is new, nothing was queued there before, so what is queued now follows the head.
    """
    lanes = {
        (one.handler, one.lane)
        for one, state in zip(work, states, strict=True)
        if state is WorkState.RUNNING and one.lane is not None
    }
    return [
        state is WorkState.RUNNING or (state is WorkState.QUEUED and (one.handler, one.lane) in lanes)
        for one, state in zip(work, states, strict=True)
    ]


_SLACK = timedelta(milliseconds=100)
"""Claims do not come at even intervals, so attempts that fall due within this time may begin together."""


@dataclass(frozen=True, slots=True)
class Pace:
    """The generic cell rate algorithm for one handler: attempts begin `interval` apart.

    `until` is the moment before which the next attempt should not begin.
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
        """Return `until` after `begun` more attempts have begun."""
        return max(self._until(now), now) + begun * self.interval

    def _until(self, now: datetime) -> datetime:
        # No attempt sets it so far ahead: the clock was set back. Nothing should wait until it comes there again.
        return now if self.until - now > _SLACK + self.interval else self.until


@dataclass(frozen=True, slots=True)
class Release:
    """A held work item may run."""

    note: str


@dataclass(frozen=True, slots=True)
class RecheckAt:
    """A held work item stays held until the next check."""

    at: datetime
    note: str


_RECHECK = timedelta(seconds=1)


def check_hold(item: HeldItem, pages: JobPages, *, quiet: timedelta, now: datetime) -> Release | RecheckAt:
    """Decide whether the terminal event of a job may be handled, by what is known of the job's pages."""
    if pages.open_key is not None:
        missing = f"the page of delivery {pages.open_key} is not handled"
        then = now + _RECHECK
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
