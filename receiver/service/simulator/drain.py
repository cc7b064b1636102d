"""The smallest capacity with which an endpoint works off the retries after an outage."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from receiver.core.units import MICROSECOND
from receiver.errors import ConfigurationError
from receiver.service.schedule import ATTEMPTS
from receiver.service.simulator.arrivals import arrivals
from receiver.service.simulator.endpoint import mean_latency
from receiver.service.simulator.run import simulate
from receiver.service.simulator.scenario import Scenario

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
            "the traffic ends too soon after the last outage to tell whether a wave drains: "
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
