"""The table of states: every state with every answer, and the service's own time-out and pauses."""

import re
from datetime import timedelta
from itertools import product

import pytest

from receiver.routing.options import DEFAULT_QUIET
from receiver.service.schedule import (
    ATTEMPTS,
    MOVES,
    SERVICE,
    EndpointResponse,
    IllegalMove,
    SenderSchedule,
    State,
    after,
    pause_before,
)
from tests.cases import for_each

MINUTE = timedelta(minutes=1)

EXPECTED = {
    ("attempt", "success"): "delivered",
    ("attempt", "failure"): "retry 1",
    ("retry 1", "success"): "delivered",
    ("retry 1", "failure"): "retry 2",
    ("retry 2", "success"): "delivered",
    ("retry 2", "failure"): "retry 3",
    ("retry 3", "success"): "delivered",
    ("retry 3", "failure"): "failed",
}
"""Interface specification, section States and transitions."""


@for_each(("state", "answer"), list(product(State, EndpointResponse)))
def test_every_state_moves_as_the_interface_says(state: State, answer: EndpointResponse) -> None:
    """A move that is not in the table raises an error that names both."""
    before = {one: dict(moves) for one, moves in MOVES.items()}

    if (state.value, answer.value) in EXPECTED:
        assert after(state, answer).value == EXPECTED[state.value, answer.value]
    else:
        with pytest.raises(IllegalMove, match=re.escape(f"{state} takes no attempt, so none can be a {answer}")):
            after(state, answer)

    assert before == MOVES


def test_the_service_pauses_one_five_and_fifteen_minutes_and_waits_ten_seconds() -> None:
    """The first attempt and the end states have no pause before them."""
    assert SERVICE.timeout == timedelta(seconds=10)
    assert {state.value: pause_before(state) for state in State} == {
        "attempt": None,
        "retry 1": MINUTE,
        "retry 2": 5 * MINUTE,
        "retry 3": 15 * MINUTE,
        "delivered": None,
        "failed": None,
    }
    assert len(ATTEMPTS) == 4


def test_pauses_are_parameters() -> None:
    """A schedule of one's own changes every pause."""
    pauses = (MINUTE * 2, MINUTE * 3, MINUTE * 4)

    assert [pause_before(state, SenderSchedule(pauses=pauses)) for state in ATTEMPTS[1:]] == list(pauses)


@pytest.mark.parametrize(
    ("timeout", "pauses"),
    [(timedelta(0), SERVICE.pauses), (MINUTE, (MINUTE, timedelta(0), MINUTE)), (-MINUTE, SERVICE.pauses)],
)
def test_a_schedule_without_waiting_cannot_be_made(
    timeout: timedelta, pauses: tuple[timedelta, timedelta, timedelta]
) -> None:
    """The error comes when the schedule is made."""
    with pytest.raises(ValueError, match="longer than 0"):
        SenderSchedule(timeout, pauses)


def test_the_default_quiet_time_is_longer_than_a_first_retry() -> None:
    """A page that failed once is then not missed by a handler that waits for all pages."""
    assert SERVICE.timeout + SERVICE.pauses[0] < DEFAULT_QUIET
