"""The states of a delivery as the service sees it, the moves between them, its time-out and its retry delays.

The rules of this table (interface specification, section States and transitions): an attempt succeeds with a 2xx
within the time-out. Everything else is a failure, and the next attempt starts a pause after it. After the third
retry there is none. A delivery in an end state takes no further attempt.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum


class State(StrEnum):
    """The state of a delivery: the attempt that comes next, or its end."""

    ATTEMPT = "attempt"
    RETRY_1 = "retry 1"
    RETRY_2 = "retry 2"
    RETRY_3 = "retry 3"
    DELIVERED = "delivered"
    FAILED = "failed"


class EndpointResponse(StrEnum):
    """How the service judges one attempt."""

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
    """A delivery in this state takes no attempt. Its state has not changed."""


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
            raise ValueError("the time-out and every pause must be longer than 0")

    def span(self, failure: timedelta) -> timedelta:
        """Return the time from the first attempt's start to the last one's, if each fails after `failure`."""
        return sum(self.pauses, len(self.pauses) * failure)


SERVICE = SenderSchedule()
"""The service's own values. No other place has them."""


def after(state: State, answer: EndpointResponse) -> State:
    """Return the state that an attempt made in `state` leads to. Raises IllegalMove in an end state."""
    try:
        return MOVES[state][answer]
    except KeyError:
        raise IllegalMove(f"a delivery that is {state} takes no attempt, so none can be a {answer}") from None


def pause_before(state: State, schedule: SenderSchedule = SERVICE) -> timedelta | None:
    """Return the pause between the failure before and the attempt of this state; None if there is no such pause."""
    return schedule.pauses[RETRIES.index(state)] if state in RETRIES else None
