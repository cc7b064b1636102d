"""The contract of handlers that are paused or disabled, and on again."""

import pytest

from receiver.core.claims import ClaimLimits
from receiver.core.types import HandlerSwitch, WorkState
from receiver.core.work import Hold
from tests.doubles import NOON, soon
from tests.stores.opened import (
    AFTER,
    DAY,
    DEAD,
    DONE,
    HELD,
    LEASE,
    MUCH,
    NOTHING,
    ONE,
    QUEUED,
    RUNNING,
    SECOND,
    SKIPPED,
    TWO,
    WAITING,
    A,
    B,
    Opened,
    after_noon,
    ended,
)

ON, PAUSED, DISABLED = HandlerSwitch.ON, HandlerSwitch.PAUSED, HandlerSwitch.DISABLED

# --- The switches


async def test_handlers_are_on_until_somebody_decides(opened: Opened) -> None:
    """Every worker sees those that are not on, and the last decision counts."""
    assert await opened.queue.switches() == {}

    await opened.controls.switch(ONE, PAUSED)
    await opened.controls.switch(TWO, DISABLED)
    assert await opened.queue.switches() == {ONE: PAUSED, TWO: DISABLED} == await opened.other.switches()

    await opened.controls.switch(ONE, DISABLED)
    await opened.controls.switch(TWO, ON)
    await opened.controls.switch(TWO, ON)
    assert await opened.queue.switches() == {ONE: DISABLED}


async def test_a_switch_wakes_the_worker(opened: Opened) -> None:
    """It acts soon after a resume."""
    await opened.controls.switch(ONE, PAUSED)
    await soon(opened.queue.changed())

    await opened.controls.switch(ONE, ON)

    await soon(opened.queue.changed())


# --- Paused


async def test_what_is_routed_to_a_paused_handler_waits(opened: Opened) -> None:
    """It waits in its order for any worker, although this one asked for it."""
    await opened.controls.switch(ONE, PAUSED)

    ids = await opened.items(2, claim=True, starts=True) + await opened.items(2, claim=True, lane="l")

    assert await opened.states(*ids) == [WAITING, WAITING, WAITING, QUEUED]
    assert [(await opened.seen(one)).attempts for one in ids] == [0] * 4
    assert await opened.claim(B) == []


async def test_a_paused_handler_claims_nothing_and_loses_nothing(opened: Opened) -> None:
    """Others go on. After the resume all of its items run, in the order of arrival."""
    ids = await opened.items(3)
    other = await opened.items(1, TWO)
    await opened.controls.switch(ONE, PAUSED)

    assert await opened.claimed(claimants=(ONE, TWO)) == other
    assert await opened.claimed(B, (ONE, TWO), now=DAY) == other
    assert await opened.states(*ids) == [WAITING] * 3

    await opened.controls.switch(ONE, ON)
    assert await opened.claimed() == ids


async def test_what_ran_when_its_handler_was_paused_ends_as_ever(opened: Opened) -> None:
    """Its result counts, and its lane goes on after the resume."""
    first, second = await opened.items(2, lane="l", claim=True)
    await opened.controls.switch(ONE, PAUSED)

    assert await opened.settle(ended(first)) == [True]
    assert await opened.states(first, second) == [DONE, WAITING]
    assert await opened.claim(now=SECOND) == []

    await opened.controls.switch(ONE, ON)
    assert await opened.claimed(now=SECOND) == [second]


async def test_lost_leases_end_during_a_pause(opened: Opened) -> None:
    """Otherwise the item would seem to run as long as the pause lasts. The worker wakes for it."""
    (work_id,) = await opened.items(1, claim=True)
    await opened.controls.switch(ONE, PAUSED)
    assert await opened.next_due(ONE) == LEASE

    assert await opened.claim(B, now=LEASE) == []

    assert await opened.states(work_id) == [WAITING]
    assert len(await opened.history(work_id)) == 1
    assert await opened.next_due(ONE) is None


async def test_held_items_of_a_paused_handler_are_not_checked(opened: Opened) -> None:
    """They are checked after the resume."""
    (work_id,) = await opened.items(1, hold=Hold(NOON, NOON))
    await opened.controls.switch(ONE, PAUSED)

    assert await opened.queue.held([ONE, TWO], now=AFTER, limit=9) == []
    assert await opened.next_due(ONE, TWO) is None

    await opened.controls.switch(ONE, ON)
    assert [one.id for one in await opened.queue.held([ONE], now=AFTER, limit=9)] == [work_id]
    assert await opened.next_due(ONE, TWO) == NOTHING


async def test_what_waits_for_a_paused_handler_is_nothing_to_wait_for(opened: Opened) -> None:
    """The worker would claim again and again in vain."""
    await opened.items(1)
    await opened.items(2, lane="l")
    await opened.controls.switch(ONE, PAUSED)

    assert await opened.next_due(ONE) is None


# --- Disabled


async def test_what_is_routed_to_a_disabled_handler_is_skipped(opened: Opened) -> None:
    """Otherwise it would have been claimed, queued or held. Its delivery is done."""
    await opened.controls.switch(ONE, DISABLED)

    ids = [
        *await opened.items(1, claim=True, starts=True),
        *await opened.items(2, claim=True, lane="l"),
        *await opened.items(1, hold=Hold(AFTER, AFTER)),
    ]

    assert await opened.states(*ids) == [SKIPPED] * 4
    assert await opened.claim(now=DAY) == []
    assert await opened.reports.count_unfinished() == 0


@pytest.mark.parametrize("state", [WAITING, QUEUED, HELD])
async def test_what_waits_for_a_disabled_handler_is_skipped(opened: Opened, state: WorkState) -> None:
    """A worker that has the handler skips it with its next claim, whatever else there is to do."""
    work_id = await opened.in_state(state)
    await opened.controls.switch(ONE, DISABLED)
    assert await opened.states(work_id) == [state]
    assert await opened.claim(claimants=(TWO,)) == []
    assert await opened.states(work_id) == [state]

    assert await opened.claim(claimants=(TWO, ONE)) == []

    assert {one.state for one in await opened.work()} == {SKIPPED}
    assert await opened.queue.held([ONE], now=after_noon(DAY), limit=9) == []


@pytest.mark.parametrize("state", [DONE, DEAD, RUNNING])
async def test_what_does_not_wait_is_not_skipped(opened: Opened, state: WorkState) -> None:
    """A running item is left to its worker, whose result counts."""
    work_id = await opened.in_state(state)
    before = await opened.reports.work_item(work_id)
    await opened.controls.switch(ONE, DISABLED)

    await opened.claim()

    assert await opened.reports.work_item(work_id) == before
    assert await opened.settle(ended(work_id)) == [state is RUNNING]


async def test_what_fails_while_its_handler_is_disabled_is_skipped(opened: Opened) -> None:
    """It would run again otherwise, like items that a worker returned or lost."""
    failed, given_back, lost = await opened.items(3, claim=True)
    await opened.controls.switch(ONE, DISABLED)
    await opened.settle(ended(failed, WAITING, error="x", due=LEASE))
    await opened.queue.release_leases([given_back], A, now=NOON)

    await opened.claim(B, now=LEASE)

    assert await opened.states(failed, given_back, lost) == [SKIPPED] * 3
    assert len(await opened.history(lost)) == 1


async def test_a_released_item_of_a_disabled_handler_is_skipped(opened: Opened) -> None:
    """The check began before the switch changed."""
    (work_id,) = await opened.items(1, hold=Hold(NOON, NOON))
    await opened.controls.switch(ONE, DISABLED)
    await opened.queue.release(work_id, now=NOON, note="x")

    await opened.claim()

    assert await opened.states(work_id) == [SKIPPED]


async def test_what_is_to_be_skipped_is_something_to_wait_for(opened: Opened) -> None:
    """The worker wakes for it once."""
    await opened.items(2, lane="l")
    await opened.items(1, hold=Hold(AFTER, AFTER))
    await opened.controls.switch(ONE, DISABLED)
    assert await opened.next_due(ONE, now=SECOND) == SECOND
    assert await opened.next_due(TWO, now=SECOND) is None

    await opened.claim(now=SECOND)

    assert await opened.next_due(ONE, now=SECOND) is None


async def test_what_was_skipped_stays_so(opened: Opened) -> None:
    """After the handler is on again, only new items run, until somebody retries the others."""
    ids = await opened.items(2)
    await opened.controls.switch(ONE, DISABLED)
    await opened.claim()
    await opened.controls.switch(ONE, ON)
    later = await opened.items(1)

    assert await opened.claimed() == later
    assert await opened.states(*ids) == [SKIPPED] * 2
    assert await opened.controls.retry(ids, now=NOON) == 2
    assert await opened.claimed() == ids


async def test_items_that_no_worker_saw_were_never_skipped(opened: Opened) -> None:
    """The handler was on again before any worker claimed, so all of them run."""
    ids = await opened.items(3, lane="l")
    await opened.controls.switch(ONE, DISABLED)
    await opened.controls.switch(ONE, ON)

    await opened.claim()

    assert await opened.states(*ids) == [RUNNING, QUEUED, QUEUED]


# --- Disabled in the middle of a lane


async def finish(opened: Opened) -> list[int]:
    """Run everything, and return the ids in the order of their runs."""
    order: list[int] = []
    while items := await opened.claim(B, now=LEASE):
        order += [item.id for item in items]
        await opened.settle(*[ended(one.id, worker=B, number=one.attempt) for one in items])
    return order


@pytest.mark.parametrize("head", [RUNNING, WAITING, DEAD])
async def test_a_lane_that_is_disabled_in_its_middle_is_not_stuck(opened: Opened, head: WorkState) -> None:
    """Items behind its head are skipped and the handler is on again.

    The lane goes on, and retries keep its order.
    """
    ids = await opened.items(6, lane="l", claim=head is not WAITING)
    if head is DEAD:
        await opened.settle(ended(ids[0], DEAD, error="x", holds_lane=True))

    await opened.controls.switch(ONE, DISABLED)
    await opened.claim(B, now=SECOND)
    first = SKIPPED if head is WAITING else head
    assert await opened.states(*ids) == [first] + [SKIPPED] * 5
    await opened.check_lanes()

    await opened.controls.switch(ONE, ON)
    late = await opened.items(2, lane="l")
    if head is RUNNING:
        await opened.settle(ended(ids[0]))
    else:
        await opened.controls.retry(ids[:1], now=NOON)
    await opened.check_lanes()
    await opened.controls.retry([ids[4], ids[1], ids[3]], now=NOON)
    await opened.check_lanes()

    order = await finish(opened)
    # Whoever heads the lane stays there; behind it everything is in the order of arrival.
    assert sorted(order[1:]) == order[1:]
    assert set(order) == {ids[1], ids[3], ids[4], *late} | (set() if head is RUNNING else {ids[0]})
    assert await opened.states(ids[2], ids[5]) == [SKIPPED] * 2


async def test_a_head_that_ends_between_switch_and_skip_leaves_a_head(opened: Opened) -> None:
    """The next item is the head now. It is skipped like those behind it, or runs if the handler is on again."""
    ids = await opened.items(3, lane="l", claim=True)
    await opened.controls.switch(ONE, DISABLED)
    await opened.settle(ended(ids[0]))
    assert await opened.states(*ids) == [DONE, WAITING, QUEUED]

    await opened.claim(B, now=SECOND, wanted=ClaimLimits(0, MUCH))
    assert await opened.states(*ids) == [DONE, SKIPPED, SKIPPED]

    await opened.controls.switch(ONE, ON)
    (next_one,) = await opened.items(1, lane="l", claim=True)
    assert await opened.states(next_one) == [RUNNING]


async def test_what_is_retried_while_its_handler_is_disabled_is_skipped_again(opened: Opened) -> None:
    """So is a lane of such items, and it is not stuck afterwards."""
    ids = await opened.items(3, lane="l")
    await opened.controls.switch(ONE, DISABLED)
    await opened.claim()
    assert await opened.controls.retry(ids, now=NOON) == 3
    assert await opened.states(*ids) == [WAITING, QUEUED, QUEUED]

    await opened.claim()
    assert await opened.states(*ids) == [SKIPPED] * 3

    await opened.controls.switch(ONE, ON)
    await opened.controls.retry(ids, now=NOON)
    assert await finish(opened) == ids
