"""The contract of followers whose results or claims are refused, and of operators who decide meanwhile."""

from collections.abc import Awaitable, Callable

import pytest

from receiver.core.claims import HandlerClaim
from receiver.core.types import HandlerSwitch, WorkState
from tests.doubles import NOON
from tests.stores.opened import (
    DAY,
    DEAD,
    DONE,
    LEASE,
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
    ended,
    going_on,
)

WITH = HandlerClaim(ONE, followers=True)


# --- Refusals


@pytest.mark.parametrize("state", [WAITING, DEAD])
async def test_nothing_follows_what_has_failed(opened: Opened, state: WorkState) -> None:
    """The results of its followers are refused. The others of the call count."""
    head, follower, behind = await opened.items(3, lane="l", claim=True)
    other, other_follower = await opened.items(2, lane="other", claim=True)

    settled = await opened.settle(
        ended(head, state, error="x", due=DAY),
        ended(follower, behind=head),
        ended(other),
        ended(other_follower, behind=other),
        followers=[going_on(behind, head)],
    )

    assert settled == [True, False, True, True, False]
    next_ones = [QUEUED, QUEUED] if state is WAITING else [WAITING, QUEUED]
    assert await opened.states(head, follower, behind) == [state, *next_ones]
    assert await opened.states(other, other_follower) == [DONE, DONE]
    assert await opened.untouched(follower, behind)


async def lose(opened: Opened, head: int) -> None:
    """Let another worker claim the head."""
    assert await opened.claimed(B, now=LEASE) == [head]


async def end_before(opened: Opened, head: int) -> None:
    """Settle the head in a call before."""
    await opened.settle(ended(head))


async def give_back(opened: Opened, head: int) -> None:
    """Give the head back."""
    await opened.queue.release_leases([head], A, now=NOON)


LOST_BY: dict[str, Callable[[Opened, int], Awaitable[None]]] = {
    "lost": lose,
    "settled before": end_before,
    "given back": give_back,
}


@pytest.mark.parametrize("how", LOST_BY)
@pytest.mark.parametrize("state", [DONE, WAITING, DEAD])
async def test_followers_end_only_under_the_lease_of_their_head(opened: Opened, how: str, state: WorkState) -> None:
    """Their results are refused with that of the head. The others of the call count."""
    ids = await opened.items(3, lane="l", claim=True)
    (other,) = await opened.items(1, TWO, claim=True, now=SECOND)
    await LOST_BY[how](opened, ids[0])
    states, histories = await opened.states(*ids), [await opened.history(one) for one in ids]

    settled = await opened.settle(
        ended(other, handler=TWO),
        ended(ids[0]),
        ended(ids[1], state, error=None if state is DONE else "x", behind=ids[0]),
        followers=[going_on(ids[2], ids[0])],
    )

    assert settled == [True, False, False, False]
    assert await opened.states(*ids) == states
    assert [await opened.history(one) for one in ids] == histories
    assert await opened.untouched(*ids[1:])


@pytest.mark.parametrize("state", [DONE, WAITING, DEAD])
async def test_the_head_must_be_in_the_call(opened: Opened, state: WorkState) -> None:
    """Otherwise the followers would overtake it."""
    head, follower, behind = await opened.items(3, lane="l", claim=True)
    (other,) = await opened.items(1, claim=True)
    end = ended(follower, state, error=None if state is DONE else "x", behind=head)

    assert await opened.settle(ended(other), end, followers=[going_on(behind, head)]) == [True, False, False]
    assert await opened.settle(end) == [False]
    assert await opened.settle(followers=[going_on(follower, head)]) == [False]

    assert await opened.states(head, follower, behind, other) == [RUNNING, QUEUED, QUEUED, DONE]
    assert await opened.untouched(follower, behind)


async def bury(opened: Opened, work_id: int) -> None:
    """Bury an item."""
    assert await opened.controls.bury([work_id], "not wanted", now=NOON) == 1


async def skip(opened: Opened, work_id: int) -> None:
    """Disable the handler, and let a worker see it."""
    await opened.controls.switch(ONE, HandlerSwitch.DISABLED)
    await opened.claim(B)


async def skip_and_go_on(opened: Opened, work_id: int) -> None:
    """The same, and switch it on again."""
    await skip(opened, work_id)
    await opened.controls.switch(ONE, HandlerSwitch.ON)


GONE_BY: dict[str, tuple[Callable[[Opened, int], Awaitable[None]], WorkState]] = {
    "buried": (bury, DEAD),
    "skipped": (skip, SKIPPED),
    "skipped, and on again": (skip_and_go_on, SKIPPED),
}


@pytest.mark.parametrize("how", GONE_BY)
@pytest.mark.parametrize("state", [DONE, WAITING, DEAD, RUNNING])
async def test_what_an_operator_took_out_of_the_queue_is_no_follower(
    opened: Opened, how: str, state: WorkState
) -> None:
    """Its result is refused, or its claim. That of the head counts."""
    act, expected = GONE_BY[how]
    head, follower = await opened.items(2, lane="l", claim=True)
    await act(opened, follower)
    ends = [] if state is RUNNING else [ended(follower, state, error=None if state is DONE else "x", behind=head)]

    settled = await opened.settle(ended(head), *ends, followers=[] if ends else [going_on(follower, head)])

    assert settled == [True, False]
    assert await opened.states(head, follower) == [DONE, expected]
    assert await opened.untouched(follower)


async def test_a_follower_behind_one_that_was_buried_counts(opened: Opened) -> None:
    """It ran in the order of its lane, and nobody decided about it."""
    head, buried, follower, runs, left = await opened.items(5, lane="l", claim=True)
    await bury(opened, buried)

    settled = await opened.settle(
        ended(head), ended(buried, behind=head), ended(follower, behind=head), followers=[going_on(runs, head)]
    )

    assert settled == [True, False, True, True]
    assert await opened.states(head, buried, follower, runs, left) == [DONE, DEAD, DONE, RUNNING, QUEUED]


async def test_a_follower_counts_that_is_in_the_queue_again(opened: Opened) -> None:
    """An operator has buried it and retried it, and nobody has attempted it."""
    head, follower, runs = await opened.items(3, lane="l", claim=True)
    await opened.controls.bury([follower, runs], "not wanted", now=NOON)
    assert await opened.controls.retry([follower, runs], now=NOON) == 2

    settled = await opened.settle(ended(head), ended(follower, behind=head), followers=[going_on(runs, head)])

    assert settled == [True, True, True]
    assert await opened.states(head, follower, runs) == [DONE, DONE, RUNNING]


async def test_what_was_attempted_before_is_no_follower(opened: Opened) -> None:
    """A claim would tell its number. It may be a suspect too."""
    tried, head = await opened.items(2, lane="l", claim=True)
    await opened.settle(ended(tried, DEAD, error="x"))
    await opened.claim(now=SECOND)
    await opened.controls.retry([tried], now=NOON)
    before = await opened.history(tried)

    assert await opened.settle(ended(head), ended(tried, behind=head)) == [True, False]

    assert await opened.states(head, tried) == [DONE, WAITING]
    assert await opened.history(tried) == before


async def test_what_another_worker_runs_is_no_follower(opened: Opened) -> None:
    """Here it is of another lane."""
    (head,) = await opened.items(1, lane="l", claim=True)
    (taken,) = await opened.items(1, lane="other", claim=True, worker=B)

    settled = await opened.settle(ended(head), ended(taken, behind=head), followers=[going_on(taken, head)])

    assert settled == [True, False, False]
    assert await opened.settle(ended(taken, worker=B)) == [True]


@pytest.mark.parametrize("state", [DONE, WAITING, DEAD])
async def test_of_two_results_of_a_follower_the_first_counts(opened: Opened, state: WorkState) -> None:
    """In one call, and in two. It does not run again either."""
    head, follower = await opened.items(2, lane="l", claim=True)
    end = ended(follower, state, error=None if state is DONE else "x", due=DAY, behind=head)
    again = ended(follower, behind=head)

    settled = await opened.settle(ended(head), end, again, ended(head), followers=[going_on(follower, head)])

    assert settled == [True, True, False, False, False]
    assert await opened.settle(ended(head), again, followers=[going_on(follower, head)]) == [False, False, False]
    assert await opened.states(head, follower) == [DONE, state]
    assert await opened.history(follower) == [end.attempt]


async def test_a_follower_is_claimed_once(opened: Opened) -> None:
    """The second claim of the same call is refused."""
    head, follower = await opened.items(2, lane="l", claim=True)

    settled = await opened.settle(ended(head), followers=[going_on(follower, head), going_on(follower, head)])

    assert settled == [True, True, False]
    assert await opened.states(follower) == [RUNNING]


async def test_a_follower_that_does_not_exist_is_refused(opened: Opened) -> None:
    """Perhaps the store was restored."""
    head, follower = await opened.items(2, lane="l", claim=True)

    settled = await opened.settle(
        ended(head), ended(12_345, behind=head), ended(follower, behind=head), followers=[going_on(54_321, head)]
    )

    assert settled == [True, False, True, False]


# --- Operators, meanwhile


async def test_an_older_item_that_is_retried_runs_next(opened: Opened) -> None:
    """It joined the queue while the followers ran, so they did not wait for it. What runs goes on."""
    older, head, follower, runs, left = await opened.items(5, lane="l", claim=True)
    await opened.settle(ended(older, DEAD, error="x"))
    await opened.claim(now=SECOND)
    await opened.controls.retry([older], now=NOON)

    settled = await opened.settle(ended(head), ended(follower, behind=head), followers=[going_on(runs, head)])

    assert settled == [True, True, True]
    assert await opened.states(older, head, follower, runs, left) == [QUEUED, DONE, DONE, RUNNING, QUEUED]
    await opened.settle(ended(runs))
    assert await opened.states(older, left) == [WAITING, QUEUED]


@pytest.mark.parametrize("switch", [HandlerSwitch.PAUSED, HandlerSwitch.DISABLED])
async def test_a_follower_that_ran_before_a_switch_was_seen_counts(opened: Opened, switch: HandlerSwitch) -> None:
    """Like the end of any attempt, and like one that has begun."""
    head, follower, runs, left = await opened.items(4, lane="l", claim=True)
    await opened.controls.switch(ONE, switch)

    settled = await opened.settle(ended(head), ended(follower, behind=head), followers=[going_on(runs, head)])

    assert settled == [True, True, True]
    assert await opened.claim(B, [WITH], now=SECOND) == []
    skipped = switch is HandlerSwitch.DISABLED
    assert await opened.states(follower, runs, left) == [DONE, RUNNING, SKIPPED if skipped else QUEUED]
    assert await opened.settle(ended(runs)) == [True]
    assert await opened.states(runs, left) == [DONE, SKIPPED if skipped else WAITING]
