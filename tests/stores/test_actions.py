"""The contract of recorded actions: who did what, to how many, and what of it can be undone."""

from dataclasses import replace

import pytest

from receiver.core.bulk import RETRY, TAKE_BACK
from receiver.core.claims import ClaimLimits
from receiver.core.recorded_actions import SILENT, NewAction
from receiver.core.types import WorkState
from receiver.core.work import Hold, NewWork, WorkFilter
from receiver.errors import UnknownAction
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
    SECOND,
    WAITING,
    A,
    Opened,
    after_noon,
    ended,
)

RETRYING = NewAction("cli operator@host", "retry", "work items with handler one", 3, {"handler": "one"})
LATER = after_noon(SECOND * 5)


async def chosen(opened: Opened, wanted: WorkFilter) -> list[int]:
    """Return the ids of the items that fit, by the way of a mass action."""
    plan = await opened.reports.work_plan(wanted)
    found = [work_id async for some in opened.reports.work_ids(wanted, plan) for work_id in some]
    assert len(found) == plan.count == len([one async for one in opened.reports.work_items(wanted)])
    return found


async def test_an_action_counts_what_it_does_and_ends(opened: Opened) -> None:
    """Its count is written with the change itself."""
    dead = [await opened.in_state(DEAD) for _ in range(2)]
    done = await opened.in_state(DONE)
    number = await opened.controls.begin_action(RETRYING, now=NOON)

    began = await opened.reports.action(number)
    assert (began.what, began.began_at, began.ended_at, began.seen) == (RETRYING, NOON, None, 0)

    await opened.controls.retry([*dead, done], now=LATER, action=number)
    under_way = await opened.reports.action(number)
    assert (under_way.seen, under_way.changed, under_way.seen_at) == (3, 2, LATER)
    assert under_way.goes_on(LATER + SILENT)
    assert under_way.was_interrupted(LATER + SILENT + SECOND)

    await opened.controls.advance_action(number, seen=4, changed=1, now=LATER)
    await opened.controls.end_action(number, now=after_noon(DAY), error="it was stopped")
    over = await opened.reports.action(number)
    assert over == replace(under_way, seen=7, changed=3, ended_at=after_noon(DAY), error="it was stopped")
    assert not over.was_interrupted(after_noon(DAY * 2))


async def test_actions_are_read_newest_first_a_page_at_a_time(opened: Opened) -> None:
    numbers = [await opened.controls.begin_action(RETRYING, now=NOON) for _ in range(5)]

    page = await opened.reports.actions(limit=2)
    assert [one.id for one in page] == numbers[:-3:-1]
    assert [one.id for one in await opened.reports.actions(limit=9, before=page[-1].id)] == numbers[2::-1]
    with pytest.raises(UnknownAction, match="99"):
        await opened.reports.action(99)


async def test_old_actions_and_all_but_the_newest_are_forgotten(opened: Opened) -> None:
    """Their numbers are not used again."""
    old = [await opened.controls.begin_action(RETRYING, now=NOON) for _ in range(3)]
    new = [await opened.controls.begin_action(RETRYING, now=after_noon(DAY)) for _ in range(3)]

    assert await opened.maintenance.forget_actions(after_noon(DAY), keep=100, limit=2) == 2
    assert await opened.maintenance.forget_actions(after_noon(DAY), keep=100, limit=2) == 1
    assert [one.id for one in await opened.reports.actions(limit=9)] == new[::-1]
    assert await opened.maintenance.forget_actions(NOON, keep=1, limit=9) == 2
    assert await opened.maintenance.forget_actions(after_noon(DAY * 9), keep=1, limit=9) == 1
    assert await opened.controls.begin_action(RETRYING, now=NOON) > max(old + new)


async def test_a_buried_item_is_found_by_its_action_until_the_next_decision(opened: Opened) -> None:
    """A retry of what was not dead before undoes the burial; what had been dead is not found."""
    waiting, held = [await opened.in_state(state) for state in (WAITING, HELD)]
    stopped = (await opened.items(1, lane="a", claim=True))[0]
    await opened.settle(ended(stopped, DEAD, error="no", holds_lane=True))
    number = await opened.controls.begin_action(RETRYING, now=NOON)

    assert await opened.controls.bury([waiting, held, stopped], "a mistake", now=LATER, action=number) == 3

    buried = RETRY.narrowed(WorkFilter(action=number, state=DEAD))
    assert await chosen(opened, buried) == [waiting, held]
    undoing = await opened.controls.begin_action(RETRYING, now=NOON)
    await opened.controls.retry([waiting], now=LATER, action=undoing)
    assert await chosen(opened, buried) == [held]
    assert await chosen(opened, WorkFilter(action=undoing)) == [waiting]
    await opened.controls.retry([held], now=LATER)
    assert await chosen(opened, buried) == []


async def test_a_retry_is_taken_back_as_far_as_it_has_not_run(opened: Opened) -> None:
    """The items keep their errors. One that ran again is left alone, whether it failed, succeeded or runs."""
    failed, done, runs, waits = [await opened.in_state(DEAD) for _ in range(4)]
    number = await opened.controls.begin_action(RETRYING, now=NOON)
    await opened.controls.retry([failed, done, runs, waits], now=NOON, action=number)
    taken = [await opened.claim(wanted=ClaimLimits(1, MUCH), now=SECOND) for _ in range(3)]
    assert [one.id for (one,) in taken] == [failed, done, runs]
    await opened.settle(ended(failed, WAITING, number=2, error="again", due=DAY), ended(done, number=2))
    undone = TAKE_BACK.narrowed(WorkFilter(action=number))

    assert await chosen(opened, undone) == [waits]
    assert await opened.controls.take_back([failed, done, runs, waits], "undone", now=LATER) == 1

    assert await opened.states(failed, done, runs, waits) == [WAITING, DONE, WorkState.RUNNING, DEAD]
    assert (await opened.seen(waits)).last_error == "no"
    assert await chosen(opened, undone) == []


async def test_a_replay_is_taken_back_with_a_reason(opened: Opened) -> None:
    """Its items have no error yet."""
    (first,) = await opened.items(1)
    await opened.claimed()
    await opened.settle(ended(first))
    number = await opened.controls.begin_action(RETRYING, now=NOON)

    again = [NewWork(1, ONE, claim=False)] * 2
    assert await opened.controls.enqueue(again, now=NOON, action=number, seen=3) == 2
    made = await chosen(opened, WorkFilter(action=number))
    assert len(made) == 2
    recorded = await opened.reports.action(number)
    assert (recorded.seen, recorded.changed) == (3, 2)

    assert await opened.controls.take_back(made, "the replay was undone", now=LATER) == 2
    assert {(one.state, one.last_error) for one in [await opened.seen(work_id) for work_id in made]} == {
        (DEAD, "the replay was undone")
    }


async def test_the_head_of_a_lane_is_not_taken_back(opened: Opened) -> None:
    """Its lane would stand still, or go on without it. One that is queued behind it is taken back."""
    head, behind = await opened.items(2, lane="a", claim=True)
    assert await opened.states(head, behind) == [WorkState.RUNNING, QUEUED]
    await opened.settle(ended(head, DEAD, error="no", holds_lane=True))
    await opened.controls.bury([behind], "not now", now=LATER)
    number = await opened.controls.begin_action(RETRYING, now=NOON)
    assert await opened.controls.retry([head, behind], now=LATER, action=number) == 2

    assert await chosen(opened, TAKE_BACK.narrowed(WorkFilter(action=number))) == [behind]
    assert await opened.controls.take_back([head, behind], "undone", now=LATER) == 1

    assert await opened.states(head, behind) == [WAITING, DEAD]
    assert await opened.claimed(A, now=LEASE) == [head]


async def test_work_is_chosen_by_what_went_wrong(opened: Opened) -> None:
    """The last error, else what it waits for; an item without either has no reason."""
    errors = ("TimeoutError: row 7\nin line 3", "TimeoutError: row 8", "[x]? gone", "x gone")
    for error, work_id in zip(errors, await opened.items(4, claim=True), strict=True):
        await opened.settle(ended(work_id, DEAD, error=error))
    (waits,) = await opened.items(1, hold=Hold(LATER, LATER, note="waits for pages"))
    await opened.in_state(WAITING)

    for glob, ids in (
        ("TimeoutError: row [0-9]*", [1, 2]),
        ("*line 3", [1]),
        ("TimeoutError", []),
        ("[[]x][?] gone", [3]),
        ("waits*", [waits]),
        ("no reason", [6]),
    ):
        assert await chosen(opened, WorkFilter(error=glob)) == ids, glob
