"""What the end of an attempt means for its work item: done, again later, or dead."""

import random
from dataclasses import dataclass
from datetime import datetime, timedelta

from receiver.retries import LONGEST_PAUSE, RetrySchedule


@dataclass(frozen=True, slots=True)
class Succeeded:
    """The handler returned."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The handler raised, or was too slow. `after` is what it asked for itself, if it did."""

    after: timedelta | None = None


@dataclass(frozen=True, slots=True)
class Refused:
    """The handler gave up."""


Result = Succeeded | Failed | Refused


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


ALONE_AFTER = 2
"""A work item whose workers died this often runs with nothing beside it: the next death names the culprit."""
POISON_AFTER = 6
"""A work item whose workers died this often is dead: four of them ran nothing else. Fewer would bury what was only
there when somebody killed the process from outside."""

Decision = Complete | RetryAt | Bury


def decide(result: Result, *, attempt: int, schedule: RetrySchedule, now: datetime, rng: random.Random) -> Decision:
    """Return what becomes of a work item after an attempt; `attempt` is its number without the lost ones.

    A pause asked for by the handler replaces the schedule's, without jitter; the number of attempts stays.
    """
    match result:
        case Succeeded():
            return Complete()
        case Refused():
            return Bury()
        case Failed(after):
            due_at = schedule.due_after(attempt, now=now, rng=rng)
            if due_at is None:
                return Bury()
            return RetryAt(due_at if after is None else now + min(after, LONGEST_PAUSE))
