"""The contract of Controls for work items in each of their states."""

import random
from datetime import timedelta

import pytest

from receiver.core.claims import ClaimLimits
from receiver.core.retries import RetrySchedule
from receiver.core.rules import Failed, after_attempt
from receiver.core.types import DeliveryState, Trigger, WorkState
from receiver.errors import StoreError
from receiver.stores.sqlite.store import SqliteStore
from tests.doubles import NOON
from tests.stores.opened import (
    DAY,
    DEAD,
    DONE,
    HELD,
    LEASE,
    MUCH,
    ONE,
    QUEUED,
    RUNNING,
    SECOND,
    SKIPPED,
    SUSPECTS,
    WAITING,
    A,
    B,
    Opened,
    after_noon,
    ended,
)

LATER = after_noon(SECOND * 5)

# --- Retrying


@pytest.mark.parametrize("state", [DEAD, SKIPPED, WAITING, HELD])
async def test_what_is_retried_is_due_at_once(opened: Opened, state: WorkState) -> None:
    """It was dead, skipped, waiting or held before."""
    work_id = await opened.in_state(state)

    assert await opened.controls.retry([work_id], now=LATER) == 1

    seen = await opened.seen(work_id)
    assert (seen.state, seen.due_at) == (WAITING, LATER)
    assert await opened.claimed(now=SECOND * 5) == [work_id]


@pytest.mark.parametrize("state", [DONE, RUNNING, QUEUED])
async def test_what_cannot_be_retried_stays_as_it_is(opened: Opened, state: WorkState) -> None:
    """A retry repeats no success, does not disturb a running item, and leaves a queued item its turn."""
    work_id = await opened.in_state(state)
    before = await opened.reports.work_item(work_id)

    assert await opened.controls.retry([work_id], now=LATER) == 0

    assert await opened.reports.work_item(work_id) == before


async def test_retrying_brings_a_distant_retry_forward(opened: Opened) -> None:
    """Somebody who has fixed the cause does not have to wait for the schedule."""
    (work_id,) = await opened.items(1, claim=True)
    await opened.settle(ended(work_id, WAITING, error="x", due=DAY))

    await opened.controls.retry([work_id], now=LATER)

    assert await opened.claimed(now=SECOND * 5) == [work_id]


async def test_what_is_retried_has_a_fresh_schedule(opened: Opened) -> None:
    """Earlier attempts do not count, but they stay recorded and their numbers go on."""
    schedule = RetrySchedule((SECOND,), jitter=0)
    (work_id,) = await opened.items(1, claim=True)
    await opened.settle(ended(work_id, WAITING, error="x"))
    await opened.claim()
    await opened.settle(ended(work_id, DEAD, number=2, error="x"))

    await opened.controls.retry([work_id], now=NOON)
    (item,) = await opened.claim()
    await opened.settle(ended(work_id, WAITING, number=3, error="x"))
    (again,) = await opened.claim()

    assert [(one.attempt, one.uncounted, one.trigger) for one in (item, again)] == [
        (3, 2, Trigger.RETRY),
        (4, 2, Trigger.RETRY),
    ]
    ends = [
        after_attempt(
            Failed(), attempt=one.attempt - one.uncounted, schedule=schedule, now=NOON, rng=random.Random(1)
        )
        for one in (item, again)
    ]
    assert ends == [(WAITING, NOON + SECOND), (DEAD, NOON)]
    assert [attempt.number for attempt in await opened.history(work_id)] == [1, 2, 3]


async def test_what_never_ran_begins_with_its_first_attempt(opened: Opened) -> None:
    """The item was skipped, and its first attempt is now for its delivery."""
    work_id = await opened.in_state(SKIPPED)
    await opened.controls.retry([work_id], now=NOON)

    (item,) = await opened.claim()

    assert (item.attempt, item.uncounted, item.trigger) == (1, 0, Trigger.DELIVERY)


async def test_what_is_retried_is_no_suspect_any_more(opened: Opened) -> None:
    """An operator decided that it runs beside others, and its deaths are forgotten."""
    (work_id,) = await opened.items(1, claim=True, starts=True)
    await opened.queue.expire_leases_of(A, now=NOON)
    (item,) = await opened.claim(wanted=SUSPECTS)
    assert item.deaths == 1
    await opened.settle(ended(work_id, DEAD, number=item.attempt, error="x"))

    await opened.controls.retry([work_id], now=NOON)

    (again,) = await opened.claim()
    assert (again.id, again.deaths) == (work_id, 0)
    assert await opened.claim(B, now=LEASE) != []  # once lost without having begun: still none


async def test_a_process_that_died_of_an_item_is_counted(opened: Opened) -> None:
    """It was the process of a handler and not a worker, so the item waits for its retry among the others."""
    (work_id,) = await opened.items(1, claim=True)
    await opened.settle(ended(work_id, WAITING, error="x")._replace(died=True))

    (again,) = await opened.claim()

    assert (again.id, again.deaths) == (work_id, 1)


async def test_the_last_error_is_shown_until_the_next_end(opened: Opened) -> None:
    """A dead item that was retried is not dead any more, and the state of its delivery shows that too."""
    work_id = await opened.in_state(DEAD)
    assert [one.state for one in await opened.listed()] == [DeliveryState.DEAD]

    await opened.controls.retry([work_id], now=NOON)

    assert [one.state for one in await opened.listed()] == [DeliveryState.WORKING]
    assert (await opened.seen(work_id)).last_error == "no"


async def test_a_held_item_that_is_retried_waits_for_no_page(opened: Opened) -> None:
    """Nobody checks it any more, and a check that began before changes nothing."""
    work_id = await opened.in_state(HELD)
    await opened.controls.retry([work_id], now=NOON)

    assert await opened.queue.held([ONE], now=after_noon(DAY), limit=9) == []
    await opened.queue.recheck(work_id, at=after_noon(DAY), note="waits")
    await opened.queue.release(work_id, now=after_noon(DAY), note="released")

    seen = await opened.seen(work_id)
    assert (seen.state, seen.due_at, seen.note) == (WAITING, NOON, None)


# --- Burying


@pytest.mark.parametrize("state", [WAITING, QUEUED, HELD])
async def test_what_is_buried_is_dead_for_that_reason(opened: Opened, state: WorkState) -> None:
    """It was waiting, queued or held before. It runs again only if somebody retries it."""
    work_id = await opened.in_state(state)

    assert await opened.controls.bury([work_id], "not wanted", now=LATER) == 1

    seen = await opened.seen(work_id)
    assert (seen.state, seen.last_error, seen.due_at) == (DEAD, "not wanted", None)
    assert work_id not in await opened.claimed(now=DAY)
    assert await opened.queue.held([ONE], now=after_noon(DAY), limit=9) == []
    assert await opened.controls.retry([work_id], now=LATER) == 1


@pytest.mark.parametrize("state", [DONE, DEAD, RUNNING, SKIPPED])
async def test_what_cannot_be_buried_stays_as_it_is(opened: Opened, state: WorkState) -> None:
    """A running item is left to its worker, and a dead one keeps its own reason."""
    work_id = await opened.in_state(state)
    before = await opened.reports.work_item(work_id)

    assert await opened.controls.bury([work_id], "not wanted", now=LATER) == 0

    assert await opened.reports.work_item(work_id) == before


async def test_burying_is_no_attempt(opened: Opened) -> None:
    """Nothing ran, so no attempt is recorded."""
    (work_id,) = await opened.items(1)
    await opened.controls.bury([work_id], "not wanted", now=NOON)

    assert await opened.history(work_id) == []
    assert (await opened.seen(work_id)).attempts == 0


# --- Several


async def test_each_item_is_decided_on_for_itself(opened: Opened) -> None:
    """Unknown items and those in other states are skipped, and an item that is named twice counts once."""
    dead, done, waiting = [await opened.in_state(state) for state in (DEAD, DONE, WAITING)]

    assert await opened.controls.retry([waiting, dead, 0, 12_345, -1, done, dead], now=NOON) == 2
    assert await opened.controls.bury([done, dead, waiting, waiting, 12_345], "x", now=NOON) == 2
    assert await opened.states(dead, done, waiting) == [DEAD, DONE, DEAD]


async def test_nothing_named_is_nothing_decided(opened: Opened) -> None:
    """No ids do not mean all items, as an empty filter would."""
    dead, waiting = await opened.in_state(DEAD), await opened.in_state(WAITING)

    assert await opened.controls.retry([], now=NOON) == 0
    assert await opened.controls.bury([], "x", now=NOON) == 0
    assert await opened.states(dead, waiting) == [DEAD, WAITING]


async def test_thousands_can_be_named_at_once(opened: Opened) -> None:
    """One call takes them all."""
    ids = await opened.items(2_500)

    assert await opened.controls.bury(ids, "x", now=NOON) == 2_500
    assert await opened.controls.retry(ids, now=NOON) == 2_500
    assert len(await opened.claimed(wanted=ClaimLimits(10_000, MUCH))) == 2_500


async def test_a_decision_does_not_touch_what_runs_meanwhile(opened: Opened) -> None:
    """The worker's result counts, whatever was decided while the item ran."""
    (work_id,) = await opened.items(1)
    await opened.claim(A)

    assert await opened.controls.retry([work_id], now=NOON) == 0
    assert await opened.controls.bury([work_id], "x", now=NOON) == 0

    assert await opened.settle(ended(work_id)) == [True]
    assert await opened.states(work_id) == [DONE]


async def test_a_decision_wakes_the_worker_to_wait_less(opened: Opened) -> None:
    """The worker wakes, as an item is due now."""
    (work_id,) = await opened.items(1, claim=True)
    await opened.settle(ended(work_id, WAITING, error="x", due=DAY))
    assert await opened.next_due(ONE) == DAY

    await opened.controls.retry([work_id], now=NOON)

    assert await opened.next_due(ONE) == timedelta(0)


async def test_there_has_to_be_a_database(sqlite_store: SqliteStore) -> None:
    """Controls without a database mean that the address is wrong, so no file is made."""
    with pytest.raises(StoreError, match="there is no database"):
        async with sqlite_store.controls():
            pass

    assert not sqlite_store.exists()
