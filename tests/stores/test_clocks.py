"""The contract of clocks: leases go by the steady one, and what waits follows the other when it is set back."""

from datetime import timedelta

import pytest

from receiver.core.claims import ClaimLimits, HandlerClaim, Lease
from receiver.core.rules import MIN_SET_BACK
from receiver.core.types import HandlerSwitch
from receiver.core.work import Hold
from tests.stores.opened import (
    AFTER,
    DAY,
    EVERYTHING,
    HELD,
    LEASE,
    MUCH,
    NOTHING,
    ONE,
    RUNNING,
    SECOND,
    WAITING,
    A,
    B,
    Opened,
    after_noon,
    ended,
)

HOUR = timedelta(hours=1)


async def claimed(opened: Opened, *, now: timedelta, steady: timedelta) -> list[int]:
    """Let worker B claim at a moment of each clock, and return the ids."""
    lease = Lease(B, after_noon(steady + LEASE))
    found = await opened.other.claim(
        [HandlerClaim(ONE)], EVERYTHING, lease=lease, now=after_noon(now), steady=after_noon(steady)
    )
    return [item.id for item in found]


# --- Leases


@pytest.mark.parametrize("jump", [2 * LEASE, DAY, -DAY, 365 * DAY])
async def test_a_lease_lasts_however_the_clock_is_set(opened: Opened, jump: timedelta) -> None:
    """Its worker lives and has not even noticed."""
    (work_id,) = await opened.items(1, claim=True, starts=True)

    assert await claimed(opened, now=jump, steady=LEASE - SECOND) == []
    assert await opened.states(work_id) == [RUNNING]
    assert await opened.settle(ended(work_id, at=jump)) == [True]


@pytest.mark.parametrize("jump", [-DAY, NOTHING, DAY])
async def test_a_lease_ends_however_the_clock_is_set(opened: Opened, jump: timedelta) -> None:
    """The work of a dead worker comes back, due from now on."""
    (work_id,) = await opened.items(1, claim=True)

    assert await claimed(opened, now=jump, steady=LEASE) == [work_id]


@pytest.mark.parametrize("jump", [-DAY, NOTHING, DAY])
async def test_a_worker_waits_for_the_end_of_a_lease_as_long_as_it_takes(opened: Opened, jump: timedelta) -> None:
    """The moment is one of the clock that people see."""
    await opened.items(1, claim=True)

    due = await opened.queue.next_due([HandlerClaim(ONE)], now=after_noon(jump), steady=after_noon(SECOND))

    assert due == after_noon(jump + LEASE - SECOND)


async def test_leases_that_end_again_and_again_are_no_deaths(opened: Opened) -> None:
    """Nobody has seen a worker die. After the first, each lost attempt counts in the schedule of the item."""
    (work_id,) = await opened.items(1)
    suspects = ClaimLimits(1, MUCH, 1, suspects=True)
    await opened.claim(wanted=ClaimLimits(1, MUCH, 1))

    items = [(await opened.claim(now=n * LEASE, wanted=suspects))[0] for n in range(1, 9)]

    assert {(item.id, item.deaths, item.uncounted) for item in items} == {(work_id, 0, 1)}


# --- A clock that is set back


async def test_a_retry_waits_for_its_pause_and_not_until_the_clock_is_there_again(opened: Opened) -> None:
    """Its last attempt lies in the future."""
    (work_id,) = await opened.items(1, claim=True)
    await opened.settle(ended(work_id, WAITING, error="x", at=NOTHING, due=HOUR))

    assert await opened.claimed(now=-DAY) == []
    assert (await opened.seen(work_id)).due_at == after_noon(HOUR - DAY)
    assert await opened.claimed(now=HOUR - DAY - SECOND) == []
    assert await opened.claimed(now=HOUR - DAY) == [work_id]


async def test_what_was_due_is_due_still(opened: Opened) -> None:
    """It was made at a moment that lies in the future now."""
    ids = await opened.items(3)

    assert await opened.claimed(now=-DAY) == ids


async def test_what_has_become_due_while_the_clock_was_ahead_is_due_still(opened: Opened) -> None:
    """A lease was returned, a hold has ended and an attempt was lost, and nothing else has happened since."""
    returned, lost = await opened.items(2, claim=True)
    hold = Hold(after_noon(SECOND), after_noon(HOUR))
    (held,) = await opened.items(1, hold=hold)
    (held_in_lane,) = await opened.items(1, hold=hold, lane="a")

    await opened.queue.release_leases([returned], A, now=after_noon(DAY))
    assert await claimed(opened, now=NOTHING, steady=SECOND) == [returned]
    await opened.queue.release(held, now=after_noon(2 * DAY), note="")
    assert await claimed(opened, now=NOTHING, steady=SECOND) == [held]
    await opened.queue.release(held_in_lane, now=after_noon(3 * DAY), note="")
    assert await claimed(opened, now=NOTHING, steady=SECOND) == [held_in_lane]
    for work_id in (returned, held, held_in_lane):
        await opened.settle(ended(work_id, worker=B, at=SECOND))
    lease = Lease(B, after_noon(2 * LEASE))
    unwanted = [HandlerClaim(ONE, most=0)]
    await opened.other.claim(unwanted, EVERYTHING, lease=lease, now=after_noon(4 * DAY), steady=AFTER)
    assert await opened.states(lost) == [WAITING]
    assert await claimed(opened, now=NOTHING, steady=LEASE + SECOND) == [lost]


@pytest.mark.parametrize("behind", [SECOND, MIN_SET_BACK - SECOND])
async def test_workers_that_are_a_little_behind_change_nothing(opened: Opened, behind: timedelta) -> None:
    """Each reads the clock before it waits for the store."""
    (work_id,) = await opened.items(1, claim=True)
    await opened.settle(ended(work_id, WAITING, error="x", at=NOTHING, due=HOUR))

    await opened.claim(B, now=-behind)

    assert (await opened.seen(work_id)).due_at == after_noon(HOUR)


async def test_several_workers_move_what_waits_once(opened: Opened) -> None:
    """Also after the clock was set back twice, and then forward."""
    (work_id,) = await opened.items(1, claim=True)
    await opened.settle(ended(work_id, WAITING, error="x", at=NOTHING, due=HOUR))

    for now in (-DAY, -DAY + SECOND, -2 * DAY, -2 * DAY, -2 * DAY + SECOND):
        await opened.claim(A, now=now)
        await opened.claim(B, now=now)
    assert (await opened.seen(work_id)).due_at == after_noon(HOUR - 2 * DAY)

    assert await opened.claimed(B) == [work_id]
    assert await opened.states(work_id) == [RUNNING]


async def test_a_held_item_is_checked_and_released_as_soon_as_before(opened: Opened) -> None:
    """Neither the next check nor the end of the hold moves away."""
    hold = Hold(after_noon(SECOND), after_noon(HOUR))
    (work_id,) = await opened.items(1, hold=hold)

    await opened.claim(now=-DAY)

    assert await opened.states(work_id) == [HELD]
    assert await opened.queue.held([ONE], now=after_noon(-DAY), limit=9) == []
    (item,) = await opened.queue.held([ONE], now=after_noon(SECOND - DAY), limit=9)
    assert (item.id, item.until) == (work_id, after_noon(HOUR - DAY))


async def test_a_check_by_the_time_before_does_not_prolong_a_hold(opened: Opened) -> None:
    """One worker decides about a hold while the clock is set back and another one moves what waits."""
    (work_id,) = await opened.items(1, hold=Hold(after_noon(SECOND), after_noon(HOUR)))

    await opened.claim(B, now=-DAY)
    await opened.queue.recheck(work_id, at=after_noon(2 * SECOND), note="waits")

    (item,) = await opened.queue.held([ONE], now=after_noon(HOUR - DAY), limit=9)
    assert (item.id, item.until) == (work_id, after_noon(HOUR - DAY))


async def test_a_once_key_expires_as_soon_as_before(opened: Opened) -> None:
    """One that never expires, or that has expired, stays so."""
    await opened.items(1)
    for key, until in (("hour", after_noon(HOUR)), ("ever", None), ("over", after_noon(-2 * DAY))):
        assert await opened.queue.once(ONE, key, now=after_noon(NOTHING), until=until)

    await opened.claim(now=-DAY)

    keys = ["hour", "ever", "over"]
    before, after = after_noon(HOUR - DAY - SECOND), after_noon(HOUR - DAY)
    assert await opened.queue.available_once_keys(ONE, keys, now=before) == {"over"}
    assert await opened.queue.available_once_keys(ONE, keys, now=after) == {"hour", "over"}


async def test_what_an_operator_retried_is_due_still(opened: Opened) -> None:
    """The retry was the latest change."""
    work_id = await opened.in_state(WAITING)
    await opened.claim()
    await opened.settle(ended(work_id, WAITING, error="x", at=NOTHING, due=HOUR))
    await opened.controls.retry([work_id], now=after_noon(HOUR / 2))

    assert await opened.claimed(now=-HOUR) == [work_id]


async def test_the_work_of_a_paused_handler_follows_the_clock_too(opened: Opened) -> None:
    """It is due when the handler is on again."""
    (work_id,) = await opened.items(1)
    await opened.controls.switch(ONE, HandlerSwitch.PAUSED)
    await opened.claim(now=-DAY)
    await opened.controls.switch(ONE, HandlerSwitch.ON)

    assert (await opened.seen(work_id)).due_at == after_noon(-DAY)
    assert await opened.claimed(now=-DAY) == [work_id]


async def test_a_refused_result_says_nothing_about_the_clock(opened: Opened) -> None:
    """What waits does not move when a claim comes with the right time."""
    waits, other = await opened.items(2, claim=True)
    await opened.settle(ended(waits, WAITING, error="x", due=HOUR), ended(other))

    assert await opened.settle(ended(other, at=DAY)) == [False]

    assert await claimed(opened, now=SECOND, steady=SECOND) == []
    assert (await opened.seen(waits)).due_at == after_noon(HOUR)
