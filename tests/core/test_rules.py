"""The rules of dispatch."""

import random
from datetime import datetime, timedelta
from typing import get_args

import pytest

from receiver.core.claims import HeldItem, JobPages, WorkItem
from receiver.core.deliveries import StoredDelivery
from receiver.core.retries import MAX_PAUSE, RetrySchedule
from receiver.core.rules import (
    ENDS,
    POISON_AFTER,
    Died,
    Failed,
    Pace,
    RecheckAt,
    Refused,
    Release,
    Result,
    Succeeded,
    after_attempt,
    check_hold,
    initial_state,
    refusal,
    set_back_by,
    suspicious,
)
from receiver.core.types import DeliveryKey, HandlerName, HandlerSwitch, Trigger, WorkState
from receiver.core.work import Hold, NewWork
from tests.doubles import NOON, delivery

SECOND, MINUTE, DAY = timedelta(seconds=1), timedelta(minutes=1), timedelta(days=1)
MICROSECOND = timedelta(microseconds=1)
SCHEDULE = RetrySchedule((SECOND, SECOND * 10), jitter=0)
ONE = HandlerName("one")
DEAD, DONE, WAITING = WorkState.DEAD, WorkState.DONE, WorkState.WAITING

# --- after_attempt


@pytest.mark.parametrize(
    ("result", "attempt", "end"),
    [
        (Succeeded(), 1, (DONE, NOON)),
        (Succeeded(), 3, (DONE, NOON)),
        (Succeeded(), 99, (DONE, NOON)),
        (Failed(), 1, (WAITING, NOON + SECOND)),
        (Failed(), 2, (WAITING, NOON + SECOND * 10)),
        (Failed(), 3, (DEAD, NOON)),
        (Failed(), 99, (DEAD, NOON)),
        (Failed(SECOND * 30), 1, (WAITING, NOON + SECOND * 30)),
        (Failed(timedelta(0)), 2, (WAITING, NOON)),
        (Failed(SECOND * 30), 3, (DEAD, NOON)),
        (Refused(), 1, (DEAD, NOON)),
        (Refused(), 3, (DEAD, NOON)),
        (Died(), 1, (WAITING, NOON + SECOND)),
        (Died(), 3, (DEAD, NOON)),
    ],
    ids=str,
)
def test_a_result_leads_to_a_state(result: Result, attempt: int, end: tuple[WorkState, datetime]) -> None:
    """A pause that the handler asked for replaces that of the schedule. The number of attempts stays."""
    assert after_attempt(result, attempt=attempt, schedule=SCHEDULE, now=NOON, rng=random.Random(1)) == end


def test_the_table_of_ends_has_every_result() -> None:
    """With an attempt left and without one. A success and a refusal do not depend on that."""
    assert set(ENDS) == {(result, left) for result in get_args(Result) for left in (True, False)}
    assert all(ENDS[result, True] is ENDS[result, False] for result in (Succeeded, Refused))


@pytest.mark.parametrize("asked", [timedelta(0), SECOND * 30, DAY, timedelta.max])
def test_a_pause_that_a_service_asks_for_makes_that_of_the_schedule_longer(asked: timedelta) -> None:
    """It is a little longer than that, so that not all items come back together, and never shorter."""
    rng, least = random.Random(1), max(SECOND * 10, min(asked, MAX_PAUSE))

    ends = [
        after_attempt(Failed(at_least=asked), attempt=2, schedule=SCHEDULE, now=NOON, rng=rng) for _ in range(50)
    ]

    assert {state for state, _ in ends} == {WAITING}
    dues = [due_at - NOON for _, due_at in ends]
    assert all(least <= due <= max(SECOND * 10, least * 1.1) for due in dues)
    assert len(set(dues)) == (50 if asked else 1)
    spent = after_attempt(Failed(at_least=asked), attempt=3, schedule=SCHEDULE, now=NOON, rng=rng)
    assert spent == (DEAD, NOON)


def test_an_item_is_dead_after_the_second_death() -> None:
    """The schedule would allow more attempts."""
    ends = [
        after_attempt(Died(), attempt=1, schedule=SCHEDULE, now=NOON, rng=random.Random(1), deaths=deaths)
        for deaths in range(POISON_AFTER + 1)
    ]

    assert ends == [(WAITING, NOON + SECOND), (DEAD, NOON), (DEAD, NOON)]


def test_a_pause_of_the_schedule_is_jittered() -> None:
    """By at most its share, and not the same for all items."""
    schedule, rng = RetrySchedule((MINUTE,), jitter=0.2), random.Random(1)

    ends = [after_attempt(Failed(), attempt=1, schedule=schedule, now=NOON, rng=rng) for _ in range(50)]

    pauses = [due_at - NOON for state, due_at in ends if state is WAITING]
    assert len(set(pauses)) == 50
    assert MINUTE * 0.8 <= min(pauses) < MINUTE < max(pauses) <= MINUTE * 1.2


def test_a_pause_asked_for_is_not_jittered() -> None:
    """The handler knows the right moment."""
    schedule = RetrySchedule((SECOND,), jitter=1)

    end = after_attempt(Failed(SECOND * 7), attempt=1, schedule=schedule, now=NOON, rng=random.Random(1))

    assert end == (WAITING, NOON + SECOND * 7)


def test_a_pause_past_the_end_of_the_calendar_is_an_end_too() -> None:
    """A handler may ask for any pause. An error here would leave its work item without an end."""
    end = after_attempt(Failed(timedelta.max), attempt=1, schedule=SCHEDULE, now=NOON, rng=random.Random(1))

    assert end == (WAITING, NOON + MAX_PAUSE)


# --- suspicious


@pytest.mark.parametrize(
    ("suspect", "started", "lost", "suspected"),
    [
        (False, False, 1, False),
        (False, False, 2, True),
        (False, False, 9, True),
        (False, True, 1, True),
        (True, False, 1, True),
    ],
)
def test_an_item_is_suspected_after_lost_attempts(suspect: bool, started: bool, lost: int, suspected: bool) -> None:
    """One that had started is enough. If it is unknown whether it had, it takes two."""
    assert suspicious(suspect=suspect, started=started, lost=lost) is suspected


def test_what_is_poison_was_suspected_before() -> None:
    """So it ran alone at least once, and no other item can be the cause."""
    assert suspicious(suspect=False, started=True, lost=1)
    assert POISON_AFTER >= 2


# --- refusal


def claimed(attempt: int = 1, uncounted: int = 0, deaths: int = 0) -> WorkItem:
    """Return a claimed work item with this history."""
    return WorkItem(1, ONE, attempt, uncounted, deaths, Trigger.RETRY, StoredDelivery(1, 0, delivery()))


@pytest.mark.parametrize("suspect", [False, True])
def test_an_item_whose_workers_died_twice_is_refused(suspect: bool) -> None:
    """However many attempts its schedule has left."""
    assert refusal(claimed(2, 1, deaths=POISON_AFTER - 1), SCHEDULE, suspect=suspect) is None
    assert refusal(claimed(3, 2, deaths=POISON_AFTER), SCHEDULE, suspect=suspect) == (
        f"not run again: {POISON_AFTER} workers died while it ran"
    )


def test_lost_leases_alone_end_an_item_only_with_its_schedule() -> None:
    """The first loss does not count, and what it loses as a suspect counts like any failure."""
    attempts = SCHEDULE.attempts
    assert refusal(claimed(attempts + 1, uncounted=1), SCHEDULE, suspect=True) is None
    assert "no attempt left" in str(refusal(claimed(attempts + 2, uncounted=1), SCHEDULE, suspect=True))


def test_an_item_that_is_no_suspect_has_the_attempt_that_it_waits_for() -> None:
    """Somebody may have given its handler fewer attempts meanwhile. The end of this attempt decides."""
    assert refusal(claimed(SCHEDULE.attempts + 5), SCHEDULE, suspect=False) is None


# --- set_back_by


@pytest.mark.parametrize(("seconds", "expected"), [(-9, 0), (0, 0), (59.9, 0), (60, 60), (86_400, 86_400)])
def test_a_clock_is_set_back_when_it_is_a_minute_behind(seconds: float, expected: float) -> None:
    """Workers that wait for the store are a little behind too."""
    assert set_back_by(NOON + timedelta(seconds=seconds), NOON) == timedelta(seconds=expected)


# --- initial_state

PLAIN, UNCLAIMED = NewWork(1, ONE), NewWork(1, ONE, claim=False)
HELD = NewWork(1, ONE, hold=Hold(NOON, NOON + MINUTE))
ON, PAUSED, DISABLED = HandlerSwitch.ON, HandlerSwitch.PAUSED, HandlerSwitch.DISABLED


@pytest.mark.parametrize(
    ("work", "switch", "lane_busy", "state"),
    [
        (PLAIN, ON, False, WorkState.RUNNING),
        (PLAIN, ON, True, WorkState.QUEUED),
        (PLAIN, PAUSED, False, WorkState.WAITING),
        (PLAIN, PAUSED, True, WorkState.QUEUED),
        (PLAIN, DISABLED, False, WorkState.SKIPPED),
        (PLAIN, DISABLED, True, WorkState.SKIPPED),
        (UNCLAIMED, ON, False, WorkState.WAITING),
        (UNCLAIMED, ON, True, WorkState.QUEUED),
        (UNCLAIMED, PAUSED, False, WorkState.WAITING),
        (UNCLAIMED, PAUSED, True, WorkState.QUEUED),
        (UNCLAIMED, DISABLED, False, WorkState.SKIPPED),
        (HELD, ON, False, WorkState.HELD),
        (HELD, ON, True, WorkState.HELD),
        (HELD, PAUSED, False, WorkState.HELD),
        (HELD, PAUSED, True, WorkState.HELD),
        (HELD, DISABLED, False, WorkState.SKIPPED),
        (HELD, DISABLED, True, WorkState.SKIPPED),
    ],
)
def test_a_work_item_begins_in_its_state(
    work: NewWork, switch: HandlerSwitch, lane_busy: bool, state: WorkState
) -> None:
    """The switch decides first, then the hold, then the lane, and then the claim."""
    assert initial_state(work, switch, lane_busy=lane_busy) is state


# --- Pace

SLACK = timedelta(milliseconds=100)


@pytest.mark.parametrize(
    ("interval", "ahead", "allowed"),
    [
        (SECOND, -DAY, 1),
        (SECOND, timedelta(0), 1),
        (SECOND, SLACK, 1),
        (SECOND, SLACK + MICROSECOND, 0),
        (SECOND, SECOND, 0),
        (SECOND, SECOND + SLACK, 0),
        (SLACK, -DAY, 2),
        (SLACK, timedelta(0), 2),
        (SLACK, MICROSECOND, 1),
        (SLACK, SLACK, 1),
        (SLACK, SLACK + MICROSECOND, 0),
        (SLACK / 10, -DAY, 11),
        (SLACK / 10, SLACK / 2, 6),
        (SLACK / 10, SLACK, 1),
        (MICROSECOND, -DAY, 100_001),
        (DAY, timedelta(0), 1),
        (DAY, DAY, 0),
    ],
)
def test_a_pace_allows_attempts_within_its_slack(interval: timedelta, ahead: timedelta, allowed: int) -> None:
    """`ahead` is the time until the next attempt may begin. A quiet time allows no burst."""
    assert Pace(interval, NOON + ahead).allows(NOON) == allowed


@pytest.mark.parametrize("ahead", [-DAY, -MICROSECOND, timedelta(0), MICROSECOND, SLACK])
@pytest.mark.parametrize("begun", [0, 1, 2, 5])
def test_each_attempt_moves_the_next_one_by_an_interval(ahead: timedelta, begun: int) -> None:
    """It counts from the moment set by the last attempt, or from now if that has passed."""
    pace = Pace(SECOND, NOON + ahead)

    assert pace.after(begun, NOON) == NOON + max(ahead, timedelta(0)) + begun * SECOND


@pytest.mark.parametrize("interval", [MICROSECOND * 7, timedelta(milliseconds=33), SECOND / 3, MINUTE, DAY])
def test_over_any_time_a_pace_keeps_its_rate(interval: timedelta) -> None:
    """At any moments, it allows the attempts of the rate, one more, and those within its slack."""
    rng, now, pace, begun = random.Random(1), NOON, Pace(interval, NOON), 0
    for _ in range(2_000):
        allowed = rng.randint(0, pace.allows(now))
        pace = Pace(interval, pace.after(allowed, now))
        begun += allowed
        assert begun <= (now - NOON + SLACK) // interval + 1
        now += rng.random() * 3 * interval

    assert begun > 500


@pytest.mark.parametrize("interval", [SLACK / 10, SLACK, SECOND, DAY])
@pytest.mark.parametrize("ahead", [-DAY, timedelta(0), SLACK / 3, SLACK])
def test_an_attempt_is_allowed_at_the_moment_that_a_pace_names(interval: timedelta, ahead: timedelta) -> None:
    """It is not allowed a microsecond before. So a worker that sleeps until then finds work."""
    pace = Pace(interval, NOON + ahead)
    put_off = Pace(interval, pace.after(pace.allows(NOON), NOON))
    begin = put_off.begin_from(NOON)

    assert begin > NOON
    assert put_off.allows(begin - MICROSECOND) == 0
    assert put_off.allows(begin) == 1


@pytest.mark.parametrize("back", [MINUTE, DAY, DAY * 365])
def test_a_pace_does_not_wait_for_a_clock_that_was_set_back(back: timedelta) -> None:
    """A moment that is further ahead than any attempt can set counts as now."""
    pace = Pace(SECOND, NOON)
    now = NOON - back

    assert pace.allows(now) == 1
    assert pace.begin_from(now) <= now
    assert pace.after(1, now) == now + SECOND


def test_a_pace_waits_for_the_furthest_moment_that_an_attempt_can_set() -> None:
    """It is an interval and the slack. With one microsecond more, the clock was set back."""
    furthest = Pace(SECOND, NOON + SECOND + SLACK)

    assert furthest.allows(NOON) == 0
    assert furthest.begin_from(NOON) == NOON + SECOND
    assert Pace(SECOND, NOON + SECOND + SLACK + MICROSECOND).allows(NOON) == 1


# --- check_hold

QUIET = timedelta(minutes=2)
ITEM = HeldItem(1, ONE, "crawl.completed", "job", NOON, NOON + MINUTE * 25)
OPEN = DeliveryKey("page-7")


def looked(pages: JobPages, passed: timedelta) -> Release | RecheckAt:
    """Check at this time after the event has arrived."""
    return check_hold(ITEM, pages, quiet=QUIET, now=NOON + passed)


@pytest.mark.parametrize(
    ("last", "quiet_from"),
    [
        (None, timedelta(0)),
        (-MINUTE, timedelta(0)),
        (timedelta(0), timedelta(0)),
        (MINUTE, MINUTE),
        (MINUTE * 10, MINUTE * 10),
    ],
)
def test_an_event_is_released_after_a_quiet_time(last: timedelta | None, quiet_from: timedelta) -> None:
    """It counts from the last page, or from the event if that came later."""
    pages = JobPages(None if last is None else NOON + last, None)

    early = looked(pages, quiet_from + QUIET - MICROSECOND)
    assert isinstance(early, RecheckAt)
    assert early.at == NOON + quiet_from + QUIET
    assert isinstance(looked(pages, quiet_from + QUIET), Release)


def test_an_open_page_keeps_an_event_waiting() -> None:
    """It is checked again soon. The note names the page and the end of the hold."""
    waits = looked(JobPages(NOON, OPEN), MINUTE * 20)

    assert isinstance(waits, RecheckAt)
    assert waits.at == NOON + MINUTE * 20 + SECOND
    assert "page-7" in waits.note
    assert "12:25:00" in waits.note


@pytest.mark.parametrize("pages", [JobPages(NOON + MINUTE * 25, None), JobPages(NOON, OPEN), JobPages(None, OPEN)])
def test_an_event_waits_no_longer_than_its_hold(pages: JobPages) -> None:
    """Then it is handled in any case, and the note names what is missing. No check is later than that."""
    almost = looked(pages, MINUTE * 25 - SECOND / 2)
    assert isinstance(almost, RecheckAt)
    assert almost.at == ITEM.until

    released = looked(pages, MINUTE * 25)
    assert isinstance(released, Release)
    assert "waited long enough" in released.note
    assert ("page-7" in released.note) is (pages.open_key is not None)


def test_a_note_says_when_the_last_page_came() -> None:
    """Or it says that none came."""
    late, none = looked(JobPages(NOON + MINUTE, None), DAY), looked(JobPages(None, None), DAY)

    assert isinstance(late, Release)
    assert "12:01:00 UTC" in late.note
    assert isinstance(none, Release)
    assert "no page came" in none.note


def test_an_event_that_waits_for_quiet_says_until_when() -> None:
    """A reader sees that nothing is wrong."""
    waits = looked(JobPages(NOON + MINUTE, None), MINUTE)

    assert isinstance(waits, RecheckAt)
    assert "12:01:00" in waits.note
    assert "12:03:00" in waits.note


def test_without_a_quiet_time_an_event_waits_for_open_pages_only() -> None:
    """It is released at once."""
    assert isinstance(check_hold(ITEM, JobPages(NOON, None), quiet=timedelta(0), now=NOON), Release)
    assert isinstance(check_hold(ITEM, JobPages(NOON, OPEN), quiet=timedelta(0), now=NOON), RecheckAt)
