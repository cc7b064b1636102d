"""The states of a delivery as the service sees it, the moves between them, and its time-out and pauses.

The rules of this table (interface specification, section States and transitions): an attempt succeeds with a 2xx
within the time-out. Whatever else comes, or nothing, is a failure, and the next attempt starts a pause after it.
After the third retry there is none. A delivery in an end state takes no further attempt.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum


class State(StrEnum):
    """Where a delivery stands: the attempt that comes next, or its end."""

    ATTEMPT = "attempt"
    RETRY_1 = "retry 1"
    RETRY_2 = "retry 2"
    RETRY_3 = "retry 3"
    DELIVERED = "delivered"
    FAILED = "failed"


class EndpointResponse(StrEnum):
    """What the service makes of one attempt."""

    SUCCESS = "success"
    FAILURE = "failure"


MOVES: Mapping[State, Mapping[EndpointResponse, State]] = {
    State.ATTEMPT: {EndpointResponse.SUCCESS: State.DELIVERED, EndpointResponse.FAILURE: State.RETRY_1},
    State.RETRY_1: {EndpointResponse.SUCCESS: State.DELIVERED, EndpointResponse.FAILURE: State.RETRY_2},
    State.RETRY_2: {EndpointResponse.SUCCESS: State.DELIVERED, EndpointResponse.FAILURE: State.RETRY_3},
    State.RETRY_3: {EndpointResponse.SUCCESS: State.DELIVERED, EndpointResponse.FAILURE: State.FAILED},
    State.DELIVERED: {},
    State.FAILED: {},
}
RETRIES = (State.RETRY_1, State.RETRY_2, State.RETRY_3)
ATTEMPTS = (State.ATTEMPT, *RETRIES)
"""The states in which a delivery is attempted, in their order."""


class IllegalMove(ValueError):
    """A delivery in this state takes no attempt. Nothing has changed."""


@dataclass(frozen=True, slots=True)
class SenderSchedule:
    """How long the service waits. A ValueError refuses a duration that is not longer than 0."""

    timeout: timedelta = timedelta(seconds=10)
    """How long an attempt waits for its answer; an answer at the very end is in time."""
    pauses: tuple[timedelta, timedelta, timedelta] = (
        timedelta(minutes=1),
        timedelta(minutes=5),
        timedelta(minutes=15),
    )
    """How long it waits before each retry, from the failure before it."""

    def __post_init__(self) -> None:
        if min(self.timeout, *self.pauses) <= timedelta(0):
            raise ValueError("the time-out and every pause are longer than nothing")

    def span(self, failure: timedelta) -> timedelta:
        """Return the time from the first attempt's start to the last one's, if each fails after `failure`."""
        return sum(self.pauses, len(self.pauses) * failure)


SERVICE = SenderSchedule()
"""The service's own values; the only place that has them."""


def after(state: State, answer: EndpointResponse) -> State:
    """Return the state that an attempt made in `state` leads to. Raises IllegalMove in an end state."""
    try:
        return MOVES[state][answer]
    except KeyError:
        raise IllegalMove(f"a delivery that is {state} takes no attempt, so none can be a {answer}") from None


def pause_before(state: State, schedule: SenderSchedule = SERVICE) -> timedelta | None:
    """Return how long after the failure before it the attempt of this state starts; None where there is no such."""
    return schedule.pauses[RETRIES.index(state)] if state in RETRIES else None
