"""Every store changes the state of a work item as the table of states says, for each state and each cause."""

from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta

import pytest

from receiver.core.claims import FollowerClaim, Lease
from receiver.core.types import AttemptOutcome, HandlerSwitch, Trigger, WorkState
from receiver.core.work import Attempt, Hold, RecordedRun
from receiver.core.work_states import MOVES, Cause
from tests.doubles import NOON, delivery
from tests.stores.opened import (
    AFTER,
    DEAD,
    DONE,
    LEASE,
    ONE,
    QUEUED,
    RUNNING,
    SECOND,
    TWO,
    WAITING,
    A,
    B,
    Opened,
    after_noon,
    ended,
)

LANE = "lane"
HELD_ONE = Hold(after_noon(SECOND), AFTER)


async def made(opened: Opened) -> int:
    """Make an item that waits."""
    return (await opened.items(1))[0]


async def made_claimed(opened: Opened) -> int:
    """Make an item that runs at once."""
    return (await opened.items(1, claim=True))[0]


async def made_in_busy_lane(opened: Opened) -> int:
    """Make two items of one lane."""
    await opened.items(1, lane=LANE)
    return (await opened.items(1, lane=LANE))[0]


async def made_held(opened: Opened) -> int:
    """Make an item with a hold."""
    return (await opened.items(1, hold=HELD_ONE))[0]


async def made_disabled(opened: Opened) -> int:
    """Make an item for a disabled handler."""
    await opened.controls.switch(ONE, HandlerSwitch.DISABLED)
    return (await opened.items(1))[0]


async def recorded(opened: Opened, state: WorkState) -> int:
    """Record a run that took place elsewhere."""
    await opened.add(delivery("elsewhere"))
    await opened.route()
    outcome = AttemptOutcome.SUCCEEDED if state is DONE else AttemptOutcome.FAILED
    attempt = Attempt(1, Trigger.REPLAY, NOON, NOON, outcome, None if state is DONE else "no")
    await opened.controls.record([RecordedRun(1, ONE, attempt, state)], now=NOON)
    return (await opened.work())[0].id


MAKES: Mapping[Cause, Callable[[Opened], Awaitable[int]]] = {
    Cause.MADE: made,
    Cause.MADE_CLAIMED: made_claimed,
    Cause.MADE_IN_BUSY_LANE: made_in_busy_lane,
    Cause.MADE_HELD: made_held,
    Cause.MADE_DISABLED: made_disabled,
    Cause.RECORDED_SUCCESS: lambda opened: recorded(opened, DONE),
    Cause.RECORDED_FAILURE: lambda opened: recorded(opened, DEAD),
}


async def disable(opened: Opened, work_id: int, other: int) -> None:
    """Disable the handler, and let a worker look for work."""
    await opened.controls.switch(ONE, HandlerSwitch.DISABLED)
    await opened.claim(B)


async def follow(opened: Opened, work_id: int, other: int) -> None:
    """End the other one, and claim this one behind it."""
    await opened.settle(ended(other), followers=[FollowerClaim(work_id, other, Lease(A, AFTER))])


ACTS: Mapping[Cause, Callable[[Opened, int, int], Awaitable[object]]] = {
    Cause.HOLD_ENDED: lambda opened, one, other: opened.queue.release(one, now=NOON, note="over"),
    Cause.HOLD_ENDED_IN_LANE: lambda opened, one, other: opened.queue.release(one, now=NOON, note="over"),
    Cause.LANE_FREED: lambda opened, one, other: opened.controls.bury([other], "not wanted", now=NOON),
    Cause.CLAIMED: lambda opened, one, other: opened.claim(B),
    Cause.FOLLOWED: follow,
    Cause.SUCCEEDED_BEHIND: lambda opened, one, other: opened.settle(ended(other), ended(one, behind=other)),
    Cause.SUCCEEDED: lambda opened, one, other: opened.settle(ended(one)),
    Cause.FAILED: lambda opened, one, other: opened.settle(ended(one, WAITING, error="no")),
    Cause.FAILED_FOR_GOOD: lambda opened, one, other: opened.settle(ended(one, DEAD, error="no")),
    Cause.RETURNED: lambda opened, one, other: opened.queue.release_leases([one], A, now=NOON),
    Cause.LEASE_LOST: lambda opened, one, other: opened.claim(B, [TWO], now=LEASE + timedelta(seconds=1)),
    Cause.DISABLED: disable,
    Cause.RETRIED: lambda opened, one, other: opened.controls.retry([one], now=NOON),
    Cause.RETRIED_IN_LANE: lambda opened, one, other: opened.controls.retry([one], now=NOON),
    Cause.BURIED: lambda opened, one, other: opened.controls.bury([one], "not wanted", now=NOON),
}
IN_LANE = (Cause.HOLD_ENDED_IN_LANE, Cause.LANE_FREED, Cause.RETRIED_IN_LANE)
BEHIND = (Cause.FOLLOWED, Cause.SUCCEEDED_BEHIND)


async def prepare(opened: Opened, before: WorkState, cause: Cause) -> tuple[int, int]:
    """Bring an item into a state, where the cause can meet it; return its id, and that of the other in its lane."""
    if (before, cause) == (DEAD, Cause.BURIED):
        (one,) = await opened.items(1, claim=True, lane=LANE)
        await opened.settle(ended(one, DEAD, error="no", holds_lane=True))
        return one, 0
    if cause in BEHIND:
        return await prepare_behind(opened, before)
    if cause not in IN_LANE:
        return await opened.in_state(before), 0
    one = await opened.in_state(before, lane=LANE)
    (other,) = [one - 1] if before is QUEUED else await opened.items(1, lane=LANE)
    return one, other


async def prepare_behind(opened: Opened, before: WorkState) -> tuple[int, int]:
    """Bring an item into a state, and let another one run: in the same lane, unless this one is the head there."""
    if before is QUEUED:
        other, one = await opened.items(2, claim=True, lane=LANE)
        return one, other
    one = await opened.in_state(before, lane=LANE)
    (other,) = await opened.items(1, claim=True, lane=None if before in (WAITING, RUNNING) else LANE)
    assert await opened.states(other) == [RUNNING]
    return one, other


def test_each_cause_is_tried() -> None:
    """A new cause in the table needs a row above."""
    assert {*MAKES, *ACTS} == set(Cause)


@pytest.mark.parametrize("cause", MAKES)
async def test_a_new_item_begins_in_the_state_of_its_cause(opened: Opened, cause: Cause) -> None:
    """One row of the table."""
    work_id = await MAKES[cause](opened)

    assert await opened.states(work_id) == [MOVES[None, cause]]


@pytest.mark.parametrize(("before", "cause"), [(one, cause) for one, cause in MOVES if one is not None])
async def test_a_cause_moves_an_item_to_the_next_state(opened: Opened, before: WorkState, cause: Cause) -> None:
    """One row of the table."""
    one, other = await prepare(opened, before, cause)

    await ACTS[cause](opened, one, other)

    assert await opened.states(one) == [MOVES[before, cause]]


@pytest.mark.parametrize(
    ("before", "cause"), [(one, cause) for one in WorkState for cause in ACTS if (one, cause) not in MOVES]
)
async def test_a_cause_that_the_table_does_not_name_changes_nothing(
    opened: Opened, before: WorkState, cause: Cause
) -> None:
    """The same acts on items in the other states."""
    one, other = await prepare(opened, before, cause)

    await ACTS[cause](opened, one, other)

    assert await opened.states(one) == [before]


async def test_a_dead_item_that_is_buried_frees_its_lane(opened: Opened) -> None:
    """The state stays; what changes is the lane."""
    one, _ = await prepare(opened, DEAD, Cause.BURIED)
    assert (await opened.seen(one)).holds_lane

    await ACTS[Cause.BURIED](opened, one, 0)

    assert not (await opened.seen(one)).holds_lane


async def test_an_item_that_runs_belongs_to_one_worker(opened: Opened) -> None:
    """Another worker ends neither its attempt nor its lease."""
    work_id = await opened.in_state(RUNNING)

    await opened.settle(ended(work_id, worker=B))
    await opened.queue.release_leases([work_id], B, now=NOON)

    assert await opened.states(work_id) == [RUNNING]
