"""The longest outage that loses nothing: by simulation, and by theory."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice, pairwise

from receiver.core.units import MICROSECOND
from receiver.errors import ConfigurationError
from receiver.service.schedule import ATTEMPTS, SenderSchedule, State
from receiver.service.simulator.arrivals import arrivals
from receiver.service.simulator.run import simulate
from receiver.service.simulator.scenario import (
    ArrivalPattern,
    Endpoint,
    Latency,
    Outage,
    OutageKind,
    Scenario,
    Waits,
)

KINDS = (OutageKind.REFUSE, OutageKind.HANG)
_STEPS = 4
SCAN_LIMIT = 100_000
_SIMULATED = 1_000
_AT_ONCE = Endpoint(latency=Latency(p50=timedelta(0)))
_NOTHING = timedelta(0)


@dataclass(frozen=True, slots=True)
class Survived:
    """The longest outage that loses nothing, if it begins at a certain moment.

    That moment either lies before a delivery is created, or an attempt of a delivery has just failed.
    """

    kind: OutageKind
    """How attempts fail in the outage."""
    next_in: timedelta | None
    """How long after the beginning of the outage the next delivery is created; None in the second case."""
    failed: int
    """Number of the attempt that has just failed; 0 in the first case."""
    simulated: timedelta
    """The longest outage that loses nothing, by the simulation."""
    theory: timedelta
    """The same by the theory."""


def always_survived(kind: OutageKind, schedule: SenderSchedule) -> timedelta:
    """Return the longest outage of one of KINDS that loses nothing whenever it begins, by theory.

    A delivery that is created when the outage begins is lost if its last attempt starts in the outage too. An
    outage that ends at the moment of that attempt is over.
    """
    return schedule.span(_failure(kind, schedule))


def survive(scenario: Scenario) -> Iterator[Survived]:
    """Yield the answers for both kinds of outage: for moments in the longest gap, and after failed attempts.

    Of the scenario, only the creation of deliveries and the service's waits count: outside of the outage the
    endpoint answers at once. A scenario without deliveries is a ConfigurationError.
    """
    coming = islice(arrivals(scenario.arrivals, scenario.seed), SCAN_LIMIT)
    moments = [arrival.created_us * MICROSECOND for arrival in coming]
    if not moments:
        raise ConfigurationError(
            "nothing arrives in this scenario: arrivals.rate and arrivals.duration are too small"
        )
    schedule = scenario.schedule
    for kind in KINDS:
        for start in _starts(moments):
            after = [moment for moment in moments if moment >= start][:_SIMULATED]
            next_in = after[0] - start
            longest = _longest(_Question(kind, scenario.sender, after, start))
            yield Survived(kind, next_in, 0, longest, next_in + always_survived(kind, schedule))
        for failed in range(1, len(ATTEMPTS)):
            start, last = _failed_at(failed, kind, schedule), always_survived(kind, schedule)
            longest = _longest(_Question(kind, scenario.sender, [_NOTHING], start))
            yield Survived(kind, None, failed, longest, last - start)


@dataclass(frozen=True, slots=True)
class _Question:
    """Whether an outage from `start` on loses a delivery. All attempts before it have failed."""

    kind: OutageKind
    """How attempts fail in the outage."""
    sender: Waits
    """How long the service waits."""
    created: Sequence[timedelta]
    """When the deliveries are created, the earliest first."""
    start: timedelta
    """When the outage begins."""

    def loses(self, length: timedelta) -> bool:
        outages = [Outage(start=self.start, end=self.start + length, kind=self.kind)]
        if self.created[0] < self.start:
            outages.append(Outage(start=self.created[0], end=self.start, kind=self.kind))
        scenario = Scenario(
            arrivals=ArrivalPattern(at=tuple(self.created)),
            endpoint=_AT_ONCE,
            outages=tuple(outages),
            sender=self.sender,
        )
        return any(attempt.state is State.FAILED for attempt in simulate(scenario))


def _longest(question: _Question) -> timedelta:
    """Return the longest outage that loses nothing, to the microsecond."""
    too_long = timedelta(seconds=1)
    while not question.loses(too_long):
        too_long *= 2
    survived = _NOTHING
    while too_long - survived > MICROSECOND:
        middle = (survived + too_long) // 2
        if question.loses(middle):
            too_long = middle
        else:
            survived = middle
    return survived


def _starts(moments: Sequence[timedelta]) -> list[timedelta]:
    """Return moments in the longest gap, the last at its end."""
    before, after = max(pairwise([_NOTHING, *moments]), key=lambda gap: gap[1] - gap[0])
    steps = [after - (after - before) * step // _STEPS for step in reversed(range(_STEPS))]
    return sorted(set(steps))


def _failed_at(attempt: int, kind: OutageKind, schedule: SenderSchedule) -> timedelta:
    """Return when this attempt of a delivery created at 0 fails, if all before it fail."""
    failure = _failure(kind, schedule)
    return sum(schedule.pauses[: attempt - 1], attempt * failure)


def _failure(kind: OutageKind, schedule: SenderSchedule) -> timedelta:
    """Return how long an attempt takes to fail in such an outage."""
    return schedule.timeout if kind is OutageKind.HANG else _NOTHING
