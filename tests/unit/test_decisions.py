"""From the result of an attempt to what becomes of its work item."""

import random
from datetime import timedelta

import pytest

from receiver.decisions import Bury, Complete, Decision, Failed, Refused, Result, RetryAt, Succeeded, decide
from receiver.retries import RetrySchedule
from tests.doubles import NOON

SECOND = timedelta(seconds=1)
SCHEDULE = RetrySchedule((SECOND, SECOND * 10), jitter=0)


@pytest.mark.parametrize(
    ("result", "attempt", "decision"),
    [
        (Succeeded(), 1, Complete()),
        (Succeeded(), 3, Complete()),
        (Succeeded(), 99, Complete()),
        (Failed(), 1, RetryAt(NOON + SECOND)),
        (Failed(), 2, RetryAt(NOON + SECOND * 10)),
        (Failed(), 3, Bury()),
        (Failed(), 99, Bury()),
        (Failed(SECOND * 30), 1, RetryAt(NOON + SECOND * 30)),
        (Failed(timedelta(0)), 2, RetryAt(NOON)),
        (Failed(SECOND * 30), 3, Bury()),
        (Refused(), 1, Bury()),
        (Refused(), 3, Bury()),
    ],
    ids=str,
)
def test_a_result_leads_to_a_decision(result: Result, attempt: int, decision: Decision) -> None:
    """A pause that the handler asked for replaces the schedule's; the number of attempts stays."""
    assert decide(result, attempt=attempt, schedule=SCHEDULE, now=NOON, rng=random.Random(1)) == decision


def test_a_pause_asked_for_is_not_jittered() -> None:
    """The handler knows when the other side is back."""
    schedule = RetrySchedule((SECOND,), jitter=1)

    decision = decide(Failed(SECOND * 7), attempt=1, schedule=schedule, now=NOON, rng=random.Random(1))

    assert decision == RetryAt(NOON + SECOND * 7)


def test_a_pause_past_the_end_of_the_calendar_is_a_decision_too() -> None:
    """A handler may ask for anything; an error here would leave its work item without an end."""
    decision = decide(Failed(timedelta.max), attempt=1, schedule=SCHEDULE, now=NOON, rng=random.Random(1))

    assert isinstance(decision, RetryAt)
    assert decision.due_at > NOON
