"""Questions to the simulator: which outages lose nothing, how to split maintenance, what capacity is enough."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice, pairwise

from receiver.core.units import MICROSECOND
from receiver.errors import ConfigurationError
from receiver.service.schedule import ATTEMPTS, SenderSchedule, State
from receiver.service.simulator.arrivals import arrivals
from receiver.service.simulator.endpoint import mean_latency
from receiver.service.simulator.report import SimulationReport, report_on
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


_STEP = timedelta(minutes=1)
MAX_PART = 60
MAX_UP = 30
_PROBED = 200


@dataclass(frozen=True, slots=True)
class Split:
    """Maintenance in several parts, with the endpoint up for the same time between them."""

    parts: tuple[timedelta, ...]
    """How long each part of the work takes."""
    up: timedelta
    """How long the endpoint is up between two parts."""

    @property
    def takes(self) -> timedelta:
        """The time from the beginning of the first part to the end of the last."""
        return sum(self.parts, (len(self.parts) - 1) * self.up)


@dataclass(frozen=True, slots=True)
class Advice:
    """What maintenance costs, and the best way to split it."""

    without: SimulationReport
    """The result without maintenance."""
    at_one_go: SimulationReport
    """The result with all of the work in one part."""
    best: Split | None
    """The best way to split the work; None if no split that was tried is good."""
    tried: int
    """How many splits were tried."""


def advise(scenario: Scenario, length: timedelta, *, start: timedelta, kind: OutageKind) -> Advice:
    """Return what maintenance of this length from `start` on costs, in addition to the outages of the scenario.

    A split is good if it loses no more than the scenario without maintenance. The best one is the good split that
    ends first, among equals the one with the fewest parts. All times are whole minutes, except for one part.
    """
    without = report_on(scenario)
    whole = Split((length,), timedelta(0))
    at_one_go = report_on(_with(scenario, whole, start, kind))
    if at_one_go.lost <= without.lost:
        return Advice(without, at_one_go, whole, tried=1)
    probe = _probe(scenario, start, length)
    tried = 1
    for tried, split in enumerate(_splits(length), start=2):
        if not without.lost and _loses_more(_with(probe, split, start, kind), 0):
            continue
        if not _loses_more(_with(scenario, split, start, kind), without.lost):
            return Advice(without, at_one_go, split, tried)
    return Advice(without, at_one_go, None, tried)


def _probe(scenario: Scenario, start: timedelta, length: timedelta) -> Scenario:
    """Return a scenario of few deliveries without faults: a split that loses some of them loses some of all."""
    end = start + 2 * length
    created = [arrival.created_us * MICROSECOND for arrival in arrivals(scenario.arrivals, scenario.seed)]
    within = [moment for moment in created if start <= moment < end]
    at = tuple(within[:: len(within) // _PROBED + 1])
    faultless = scenario.endpoint.model_copy(update={"error_rate": 0.0, "capacity": None})
    return scenario.model_copy(update={"arrivals": ArrivalPattern(at=at), "endpoint": faultless})


def _with(scenario: Scenario, split: Split, start: timedelta, kind: OutageKind) -> Scenario:
    outages = []
    for part in split.parts:
        outages.append(Outage(start=start, end=start + part, kind=kind))
        start += part + split.up
    return scenario.model_copy(update={"outages": (*scenario.outages, *outages)})


def _loses_more(scenario: Scenario, allowed: int) -> bool:
    lost = 0
    for attempt in simulate(scenario):
        lost += attempt.state is State.FAILED and not (attempt.arrived or attempt.arrived_before)
        if lost > allowed:
            return True
    return False


def _splits(length: timedelta) -> Sequence[Split]:
    """Return all splits to try, the one that ends first at the beginning."""
    return sorted(set(_all_splits(length)), key=lambda split: (split.takes, len(split.parts), split.parts))


def _all_splits(length: timedelta) -> Iterator[Split]:
    """Yield splits into parts of equal length and a rest, which comes first or last."""
    for minutes in range(1, MAX_PART + 1):
        part = minutes * _STEP
        if part >= length:
            return
        number, rest = divmod(length, part)
        parts = number * (part,)
        for up in range(1, MAX_UP + 1):
            yield Split((*parts, rest) if rest else parts, up * _STEP)
            yield Split((rest, *parts) if rest else parts, up * _STEP)


MAX_BACKLOG = 1_000_000
_TAIL = 10


@dataclass(frozen=True, slots=True)
class Trial:
    """One capacity, and when the endpoint's queue is drained with it."""

    capacity: int
    """How many requests the endpoint works on at one time."""
    drained_at: timedelta | None
    """When the last attempt ended that had waited in the queue for the whole time-out, 0 if none had.

    None if such an attempt starts in the last tenth of the traffic: then the queue never drains.
    """


@dataclass(frozen=True, slots=True)
class Load:
    """How many requests the endpoint works on at one time, on average."""

    alone: float
    """Requests at one time on average, if no attempt fails."""
    at_most: float
    """Requests at one time on average, if every delivery takes all its attempts."""


def load(scenario: Scenario) -> Load:
    """Return the mean load of a scenario: rate times latency (Little's law)."""
    number, last = _traffic(scenario)
    alone = (number - 1) / (last / MICROSECOND) * (mean_latency(scenario.endpoint) / MICROSECOND)
    return Load(alone, len(ATTEMPTS) * alone)


def trials(scenario: Scenario) -> Iterator[Trial]:
    """Yield the capacities that are tried until the smallest sufficient one is known, beginning at the mean load.

    Raises ConfigurationError if the traffic ends too soon after the last outage for an answer.
    """
    _, last = _traffic(scenario)
    tail = last - last // _TAIL
    if any(outage.end > tail for outage in scenario.outages):
        raise ConfigurationError(
            "the traffic ends too soon after the last outage to see whether a wave drains: "
            "let arrivals.duration be longer"
        )
    too_small, enough = 0, max(1, int(load(scenario).alone))
    while (trial := _try(scenario, enough, tail)).drained_at is None and enough < MAX_BACKLOG:
        yield trial
        too_small, enough = enough, 2 * enough
    yield trial
    while enough - too_small > 1:
        trial = _try(scenario, (too_small + enough) // 2, tail)
        yield trial
        if trial.drained_at is None:
            too_small = trial.capacity
        else:
            enough = trial.capacity


def _try(scenario: Scenario, capacity: int, tail: timedelta) -> Trial:
    endpoint = scenario.endpoint.model_copy(update={"capacity": capacity})
    timeout_us, tail_us = scenario.schedule.timeout // MICROSECOND, tail // MICROSECOND
    overloaded_until_us = 0
    for attempt in simulate(scenario.model_copy(update={"endpoint": endpoint})):
        if attempt.waited_us >= timeout_us:
            if attempt.started_us >= tail_us:
                return Trial(capacity, None)
            overloaded_until_us = attempt.ended_us
    return Trial(capacity, overloaded_until_us * MICROSECOND)


def _traffic(scenario: Scenario) -> tuple[int, timedelta]:
    """Return how many deliveries are created, and when the last one is created."""
    number, last = 0, 0
    for number, (last, _) in enumerate(arrivals(scenario.arrivals, scenario.seed), start=1):  # noqa: B007
        pass
    if not last:
        raise ConfigurationError("this needs traffic that lasts: deliveries at more than one moment")
    return number, last * MICROSECOND
