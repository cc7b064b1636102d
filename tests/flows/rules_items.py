"""Parts of the model: handlers, work items, and the times at which attempts with a rate began."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from receiver.core.deliveries import Delivery
from receiver.core.types import AttemptOutcome, HandlerName, Trigger, WorkerId, WorkState
from receiver.core.work import Attempt
from receiver.core.work_states import LANE_HEADS, Cause, next_state

WAITING, QUEUED, HELD, RUNNING = WorkState.WAITING, WorkState.QUEUED, WorkState.HELD, WorkState.RUNNING
DONE, DEAD, SKIPPED = WorkState.DONE, WorkState.DEAD, WorkState.SKIPPED

SLACK = timedelta(milliseconds=100)
"""A rate lets attempts within this time begin together."""


@dataclass(frozen=True, slots=True, repr=False)
class Policy:
    """A handler: the types that it wants, and its options."""

    name: HandlerName
    types: tuple[str, ...]
    pauses: tuple[timedelta, ...] = (timedelta(seconds=1), timedelta(minutes=1))
    lane: Callable[[Delivery], str | None] = lambda delivery: None
    holds_when_dead: bool = False
    concurrency: int | None = None
    interval: timedelta | None = None
    quiet: timedelta | None = None
    at_most: timedelta = timedelta(0)

    def __repr__(self) -> str:
        return self.name

    @property
    def limited(self) -> bool:
        """Tell whether a limit over all workers applies to it."""
        return self.concurrency is not None or self.interval is not None


@dataclass(slots=True)
class Item:
    """A work item as the rules see it. `asked_at` is its number at the last retry by an operator.

    `late` says that it joined its lane later than it arrived: after a retry, or after it was held.
    """

    id: int
    source: Delivery
    policy: Policy
    lane: str | None
    state: WorkState
    due_at: datetime
    hold_until: datetime | None
    owner: WorkerId | None = None
    until: datetime | None = None
    begun: bool = False
    number: int = 0
    asked_at: int = 0
    late: bool = False
    stands: bool = False
    """It is dead, and its lane stands still until an operator decides."""
    error: str | None = None
    note: str | None = None
    history: list[Attempt] = field(default_factory=list)
    died_running: set[int] = field(default_factory=set)
    lost_running: set[int] = field(default_factory=set)
    lost_alone: set[int] = field(default_factory=set)
    """The numbers of attempts that had started when their worker died, or when they were lost, or that were lost
    when the item was a suspect before."""

    def move(self, cause: Cause) -> None:
        """Change its state as the table of states says."""
        self.state = next_state(self.state, cause)

    @property
    def since_asked(self) -> list[Attempt]:
        """The attempts since the last retry by an operator."""
        return [one for one in self.history if one.number > self.asked_at]

    @property
    def failures(self) -> int:
        """How many attempts count against its schedule."""
        return sum(
            one.outcome is not AttemptOutcome.LOST or one.number in self.lost_alone for one in self.since_asked
        )

    @property
    def lost(self) -> int:
        """How many of these attempts ended with their worker."""
        return sum(one.outcome is AttemptOutcome.LOST for one in self.since_asked)

    @property
    def deaths(self) -> int:
        """How many workers certainly died in these attempts after they had started it."""
        return sum(one.number in self.died_running for one in self.since_asked)

    @property
    def suspect(self) -> bool:
        """Tell whether one attempt that had started was lost, or two in all."""
        return self.lost > 1 or any(one.number in self.lost_running for one in self.since_asked)

    @property
    def forward(self) -> bool:
        """Tell whether the others of its lane wait for it."""
        return self.lane is not None and (self.state in LANE_HEADS or self.stands)

    @property
    def trigger(self) -> Trigger:
        """Why its present attempt runs."""
        return Trigger.DELIVERY if self.number == 1 else Trigger.RETRY

    def is_of(self, worker: WorkerId) -> bool:
        """Tell whether this worker has it leased."""
        return self.state is RUNNING and self.owner == worker


class Rate:
    """When attempts of one handler have begun, since the clock was last set back.

    What began before that may hold up the next one, but not for longer than after any other attempt.
    """

    def __init__(self, interval: timedelta) -> None:
        self._interval = interval
        self._begun: list[datetime] = []
        self._before: list[datetime] = []

    def begin(self, count: int, now: datetime) -> None:
        """Note that `count` attempts begin, and assert that they may."""
        assert count <= self.most(now), f"{count} began at {now}, though the last ones did at {self._begun[-3:]}"
        self._begun += [now] * count

    def set_back(self) -> None:
        """Note that the attempts so far now lie in the future."""
        if (free := self._free(self._begun)) is not None:
            self._before.append(free)
        self._begun = []

    def most(self, now: datetime) -> int:
        """Return how many may begin."""
        return self._room(self._begun, now)

    def least(self, now: datetime) -> int:
        """Return how many must begin, if so many are due."""
        return min(self._room(begun, now) for begun in self._perhaps(now))

    def earliest(self, now: datetime) -> datetime:
        """Return the moment from which the next may begin."""
        return (self._free(self._begun) or now) - SLACK

    def latest(self, now: datetime) -> datetime:
        """Return the moment from which the next must begin."""
        return max((self._free(begun) or now) - SLACK for begun in self._perhaps(now))

    def _perhaps(self, now: datetime) -> list[list[datetime]]:
        """Return the attempts that a store may know of."""
        near = [one - self._interval for one in self._before if one - now <= SLACK + self._interval]
        return [self._begun, *([one, *self._begun] for one in near)]

    def _room(self, begun: list[datetime], now: datetime) -> int:
        count = 0
        while self._apart([*begun, *[now] * (count + 1)]):
            count += 1
        return count

    def _apart(self, begun: list[datetime]) -> bool:
        last, places = begun[-1], len(begun)
        return all(last - one >= (places - 1 - n) * self._interval - SLACK for n, one in enumerate(begun))

    def _free(self, begun: list[datetime]) -> datetime | None:
        """Return when the next one would begin if all began on time."""
        places = len(begun)
        return max((one + (places - n) * self._interval for n, one in enumerate(begun)), default=None)
