"""The simulation: attempts in virtual time, from a heap of the next ends and starts."""

import heapq
from collections.abc import Iterator
from typing import NamedTuple

from receiver.core.units import MICROSECOND
from receiver.service.schedule import ATTEMPTS, EndpointResponse, SenderSchedule, State, after, pause_before
from receiver.service.simulator.arrivals import Arrival, arrivals
from receiver.service.simulator.endpoint import ResponseKind, SimulatedEndpoint
from receiver.service.simulator.scenario import Scenario

_END, _START = 0, 1
_NUMBERS = {state: number for number, state in enumerate(ATTEMPTS, start=1)}


class SimulatedAttempt(NamedTuple):
    """One attempt of a delivery and its end."""

    delivery: int
    """Number of the delivery, from 1 in the order of creation."""
    attempt: int
    """Number of the attempt of this delivery, from 1."""
    job: int
    """Number of the delivery's job, as in `Arrival`."""
    created_us: int
    """When the delivery was created, in microseconds from the start of the scenario."""
    started_us: int
    """When the attempt started, in the same unit."""
    ended_us: int
    """When the attempt ended, in the same unit."""
    waited_us: int
    """Microseconds that the request waited in the endpoint's queue."""
    outcome: ResponseKind
    """How the endpoint responded."""
    state: State
    """Where the attempt led the delivery to."""
    arrived: bool
    """Whether the request reached the receiver, in time or late."""
    arrived_before: bool
    """Whether an earlier attempt of the delivery had reached it."""


def simulate(scenario: Scenario) -> Iterator[SimulatedAttempt]:
    """Yield all attempts in the order of their ends; at one moment, in the order of deliveries.

    At one moment attempts end before others start, and these start in the order of deliveries. Only running
    attempts and waiting retries take memory.
    """
    coming = arrivals(scenario.arrivals, scenario.seed)
    endpoint = SimulatedEndpoint(scenario)
    pauses = _pauses(scenario.schedule)
    heap: list[tuple[int, int, int, SimulatedAttempt]] = []
    created = 0
    arrival = next(coming, None)
    while heap or arrival:
        if arrival and (not heap or (arrival.created_us, _START, created + 1) < heap[0]):
            created += 1
            started = _attempt(endpoint, created, arrival, State.ATTEMPT, arrival.created_us, False)
            arrival = next(coming, None)
        else:
            now, what, _, attempt = heapq.heappop(heap)
            if what == _END:
                yield attempt
                if (pause := pauses[attempt.state]) is not None:
                    heapq.heappush(heap, (now + pause, _START, attempt.delivery, attempt))
                continue
            started = _retry(endpoint, attempt, now)
        heapq.heappush(heap, (started.ended_us, _END, started.delivery, started))


def _pauses(schedule: SenderSchedule) -> dict[State, int | None]:
    """Return the microseconds between the failure before and the attempt of each state."""
    pauses = {state: pause_before(state, schedule) for state in State}
    return {state: None if pause is None else pause // MICROSECOND for state, pause in pauses.items()}


def _retry(endpoint: SimulatedEndpoint, failed: SimulatedAttempt, now: int) -> SimulatedAttempt:
    arrival = Arrival(failed.created_us, failed.job)
    return _attempt(endpoint, failed.delivery, arrival, failed.state, now, failed.arrived or failed.arrived_before)


def _attempt(
    endpoint: SimulatedEndpoint, delivery: int, arrival: Arrival, state: State, now: int, arrived_before: bool
) -> SimulatedAttempt:
    """Return the attempt of a delivery in this state that starts now."""
    outcome, ended, waited = endpoint.answer(now)
    ok = outcome is ResponseKind.OK
    arrived = ok or outcome is ResponseKind.LATE
    state_after = after(state, EndpointResponse.SUCCESS if ok else EndpointResponse.FAILURE)
    return SimulatedAttempt(  # by position: arguments by name make a whole simulation a tenth slower
        delivery,
        _NUMBERS[state],
        arrival.job,
        arrival.created_us,
        now,
        ended,
        waited,
        outcome,
        state_after,
        arrived,
        arrived_before,
    )
