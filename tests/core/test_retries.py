"""When a failed work item runs again."""

import random
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from receiver.core.retries import DEFAULT_SCHEDULE, RetrySchedule
from tests.doubles import NOON

SECOND = timedelta(seconds=1)


def test_the_default_is_eight_attempts_with_the_documented_pauses() -> None:
    """They are 1 s, 10 s, 1 min, 5 min, 15 min, 1 h and 6 h, each up to a fifth longer or shorter."""
    assert [pause.total_seconds() for pause in DEFAULT_SCHEDULE.pauses] == [1, 10, 60, 300, 900, 3600, 21600]
    assert (DEFAULT_SCHEDULE.attempts, DEFAULT_SCHEDULE.jitter) == (8, 0.2)


def test_a_schedule_is_spent_after_its_last_pause() -> None:
    """Two pauses allow three attempts; the third failure is final."""
    schedule = RetrySchedule((SECOND, SECOND * 5), jitter=0)
    due = [schedule.due_after(failed, now=NOON, rng=random.Random(1)) for failed in (1, 2, 3, 4)]

    assert due == [NOON + SECOND, NOON + SECOND * 5, None, None]
    assert schedule.attempts == 3


def test_without_pauses_there_is_one_attempt() -> None:
    """Its failure is final."""
    assert RetrySchedule(()).due_after(1, now=NOON, rng=random.Random(1)) is None


@given(st.integers(), st.integers(1, 7))
def test_a_pause_is_jittered_by_no_more_than_its_share(seed: int, failed: int) -> None:
    """The configured pause is in the middle."""
    pause = DEFAULT_SCHEDULE.pauses[failed - 1]
    due = DEFAULT_SCHEDULE.due_after(failed, now=NOON, rng=random.Random(seed))

    assert due is not None
    assert pause * 0.8 <= due - NOON <= pause * 1.2


def test_items_that_failed_together_have_different_pauses() -> None:
    """The generator is the same."""
    rng = random.Random(1)
    dues = {DEFAULT_SCHEDULE.due_after(3, now=NOON, rng=rng) for _ in range(50)}

    assert len(dues) == 50


@pytest.mark.parametrize(
    ("attempts", "pauses"), [(1, []), (2, [1]), (3, [1, 5]), (4, [1, 5, 5]), (6, [1, 5, 5, 5, 5])]
)
def test_a_schedule_can_be_shortened_or_extended(attempts: int, pauses: list[int]) -> None:
    """Its last pause repeats if there are more attempts."""
    schedule = RetrySchedule((SECOND, SECOND * 5), jitter=0.5).limited_to(attempts)

    assert schedule == RetrySchedule(tuple(SECOND * pause for pause in pauses), jitter=0.5)
    assert schedule.attempts == attempts


def test_a_schedule_without_pauses_is_extended_without_pauses() -> None:
    """There is no last pause, so the item runs again at once."""
    assert RetrySchedule(()).limited_to(3).pauses == (timedelta(0), timedelta(0))


@pytest.mark.parametrize("attempts", [0, -1])
def test_a_handler_runs_at_least_once(attempts: int) -> None:
    """Zero attempts are refused."""
    with pytest.raises(ValueError, match="1 or more"):
        DEFAULT_SCHEDULE.limited_to(attempts)


@pytest.mark.parametrize(
    ("pauses", "jitter"), [((-SECOND,), 0.2), ((SECOND,), -0.1), ((SECOND,), 1.1), ((SECOND,), float("nan"))]
)
def test_impossible_schedules_cannot_be_made(pauses: tuple[timedelta, ...], jitter: float) -> None:
    """They raise ValueError."""
    with pytest.raises(ValueError, match="pause"):
        RetrySchedule(pauses, jitter)
