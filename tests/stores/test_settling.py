"""The contract of settling: from the end of an attempt to the state of its work item."""

import pytest

from receiver.core.claims import Settlement
from receiver.core.types import AttemptOutcome, DeliveryState, Trigger, WorkState
from receiver.core.work import Attempt
from tests.doubles import NOON
from tests.stores.opened import DEAD, DONE, ONE, RUNNING, SECOND, WAITING, A, B, Opened, after_noon, ended


@pytest.mark.parametrize(
    ("state", "seen"),
    [(DONE, DeliveryState.DONE), (DEAD, DeliveryState.DEAD), (WAITING, DeliveryState.WORKING)],
)
async def test_a_settled_item_goes_to_its_state(opened: Opened, state: WorkState, seen: DeliveryState) -> None:
    """Readers see its error and, while it waits, its due time."""
    (work_id,) = await opened.items(1, claim=True)
    error = None if state is DONE else "ValueError: no"

    assert await opened.settle(ended(work_id, state, error=error, due=SECOND * 3)) == [True]

    work = await opened.seen(work_id)
    due_at = after_noon(SECOND * 3) if state is WAITING else None
    assert (work.state, work.attempts, work.last_error, work.due_at) == (state, 1, error, due_at)
    assert (await opened.listed())[0].state is seen


async def test_success_clears_the_last_error(opened: Opened) -> None:
    """Errors of earlier attempts are gone."""
    (work_id,) = await opened.items(1, claim=True)
    await opened.settle(ended(work_id, WAITING, error="x"))
    await opened.claim()
    await opened.settle(ended(work_id, number=2))

    work = await opened.seen(work_id)
    assert (work.state, work.attempts, work.last_error) == (DONE, 2, None)


async def test_every_attempt_is_recorded_as_it_ended(opened: Opened) -> None:
    """The record has trigger, times, outcome, error, traceback, and whether it could not be cancelled."""
    (work_id,) = await opened.items(1, claim=True)
    timed_out, succeeded = AttemptOutcome.TIMED_OUT, AttemptOutcome.SUCCEEDED
    attempts = [
        Attempt(1, Trigger.DELIVERY, NOON, after_noon(SECOND), AttemptOutcome.FAILED, "E: 1", "Traceback\n  E: 1"),
        Attempt(2, Trigger.RETRY, NOON, after_noon(SECOND * 2), timed_out, "slow", None, overdue=True),
        Attempt(3, Trigger.REPLAY, None, after_noon(SECOND * 3), succeeded),
    ]

    for attempt, state in zip(attempts, (WAITING, WAITING, DONE), strict=True):
        if attempt.number > 1:
            await opened.claim()
        assert await opened.settle(Settlement(work_id, ONE, A, attempt, state, NOON)) == [True]

    assert await opened.history(work_id) == attempts


async def test_a_result_is_recorded_once(opened: Opened) -> None:
    """The same result is refused the second time."""
    (work_id,) = await opened.items(1, claim=True)
    await opened.settle(ended(work_id))

    assert await opened.settle(ended(work_id, DEAD, error="x")) == [False]
    assert await opened.states(work_id) == [DONE]
    assert len(await opened.history(work_id)) == 1


async def test_of_two_results_of_one_attempt_the_first_counts(opened: Opened) -> None:
    """Both are in one batch. It must not fail, or the other results in it would be lost."""
    first, second = await opened.items(2, claim=True)
    result = ended(first)

    settled = await opened.settle(result, ended(second), ended(first, DEAD, error="x"), result)

    assert settled == [True, True, False, False]
    assert await opened.states(first, second) == [DONE, DONE]
    assert len(await opened.history(first)) == 1


async def test_results_in_one_batch_stand_for_themselves(opened: Opened) -> None:
    """A refused result does not affect the others, and the answers keep their order."""
    first, second, third = await opened.items(3, claim=True)

    settled = await opened.settle(ended(third), ended(second, worker=B), ended(first, DEAD, error="x"))

    assert settled == [True, False, True]
    assert await opened.states(first, second, third) == [DEAD, RUNNING, DONE]
    assert await opened.history(second) == []


async def test_items_that_ended_alike_are_settled_together(opened: Opened) -> None:
    """Each has the attempt. Others in the call, and several such groups, stand beside them."""
    ids = await opened.items(6, claim=True)
    first, second = ended(ids[0]), ended(ids[3], at=SECOND * 2)

    settled = await opened.settle(
        first._replace(also=tuple(ids[1:3])), ended(ids[5], DEAD, error="x"), second._replace(also=(ids[4],))
    )

    assert settled == [True] * 6
    assert await opened.states(*ids) == [DONE] * 5 + [DEAD]
    attempts = [await opened.history(work_id) for work_id in ids[:5]]
    assert attempts == [[first.attempt]] * 3 + [[second.attempt]] * 2
    assert {(await opened.seen(work_id)).attempts for work_id in ids} == {1}


async def test_later_attempts_that_ended_alike_are_recorded_behind_the_earlier(opened: Opened) -> None:
    """The earlier attempts stay as they were."""
    ids = await opened.items(2, claim=True)
    await opened.settle(*[ended(work_id, WAITING, error=f"E: {work_id}") for work_id in ids])
    await opened.claim()

    assert await opened.settle(ended(ids[0], number=2)._replace(also=(ids[1],))) == [True, True]

    for work_id in ids:
        history = await opened.history(work_id)
        assert [(one.number, one.error) for one in history] == [(1, f"E: {work_id}"), (2, None)]


@pytest.mark.parametrize("lost", range(3))
async def test_of_items_that_ended_alike_those_without_a_lease_are_left_out(opened: Opened, lost: int) -> None:
    """Wherever it stands among them: its worker has lost it to another. The answers tell which it was."""
    ids = await opened.items(3, claim=True)
    (other,) = await opened.items(1, claim=True)
    await opened.queue.release_leases([ids[lost]], A, now=NOON)
    assert await opened.claimed(B) == [ids[lost]]

    end = ended(ids[0])
    settled = await opened.settle(end._replace(also=tuple(ids[1:])), ended(other))

    assert settled == [at != lost for at in range(4)]
    assert await opened.states(*ids, other) == [RUNNING if at == lost else DONE for at in range(4)]
    assert [await opened.history(one) for one in ids] == [[] if at == lost else [end.attempt] for at in range(3)]
    assert await opened.settle(ended(ids[lost], worker=B)) == [True]


async def test_items_that_ended_alike_are_recorded_once(opened: Opened) -> None:
    """A worker that did not hear the answer asks again."""
    ids = await opened.items(3, claim=True)
    end = ended(ids[0])._replace(also=tuple(ids[1:]))

    assert await opened.settle(end, end) == [True] * 3 + [False] * 3
    assert await opened.settle(end) == [False] * 3
    assert [await opened.history(work_id) for work_id in ids] == [[end.attempt]] * 3


async def test_lanes_of_items_that_ended_alike_go_on(opened: Opened) -> None:
    """Also if the first has no lane: an older version of the handler may have had lanes."""
    (alone,) = await opened.items(1, claim=True)
    (head, behind) = await opened.items(2, lane="l", claim=True)

    assert await opened.settle(ended(alone)._replace(also=(head,))) == [True, True]

    assert await opened.states(alone, head, behind) == [DONE, DONE, WAITING]


async def test_a_result_of_nothing_is_refused(opened: Opened) -> None:
    """The work item does not exist. An empty batch is allowed."""
    await opened.items(1, claim=True)

    assert await opened.settle(ended(0), ended(12_345)) == [False, False]
    assert await opened.settle() == []


async def test_errors_of_any_text_are_recorded(opened: Opened) -> None:
    """Quotes, line ends, other alphabets and long texts come back unchanged."""
    error = 'ValueError: "it\'s" \n ünïcödé 🚲 \\x00 ' + "x" * 400
    (work_id,) = await opened.items(1, claim=True)

    await opened.settle(ended(work_id, DEAD, error=error))

    assert (await opened.seen(work_id)).last_error == error
    (attempt,) = await opened.history(work_id)
    assert (attempt.error, attempt.traceback) == (error, f"Traceback: {error}")


async def test_what_has_no_lane_is_settled_without_looking_at_lanes(opened: Opened) -> None:
    """A claim says whether an item has one."""
    (alone,) = await opened.items(1)
    (first, second) = await opened.items(2, lane="l")
    claimed = {item.id: item.in_lane for item in await opened.claim()}
    assert claimed == {alone: False, first: True}

    assert await opened.settle(*[ended(work_id, in_lane=lane) for work_id, lane in claimed.items()]) == [True, True]
    assert await opened.states(alone, first, second) == [DONE, DONE, WAITING]
