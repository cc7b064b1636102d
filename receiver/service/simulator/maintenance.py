"""Maintenance that takes the endpoint down: its loss in one part, and the shortest split that loses nothing."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta

from receiver.core.units import MICROSECOND
from receiver.service.schedule import State
from receiver.service.simulator.arrivals import arrivals
from receiver.service.simulator.report import SimulationReport, report_on
from receiver.service.simulator.run import SimulatedAttempt, simulate
from receiver.service.simulator.scenario import ArrivalPattern, Outage, OutageKind, Scenario

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
        lost += _is_loss(attempt)
        if lost > allowed:
            return True
    return False


def _is_loss(attempt: SimulatedAttempt) -> bool:
    return attempt.state is State.FAILED and not (attempt.arrived or attempt.arrived_before)


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
