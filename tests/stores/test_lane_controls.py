"""The contract of Controls for lanes: every decision keeps the order, and no lane is stuck."""

import asyncio
import random

import pytest

from receiver.core.claims import ClaimLimits
from receiver.core.types import HandlerSwitch, WorkerId, WorkState
from tests.doubles import NOON, soon
from tests.stores.opened import (
    DEAD,
    DONE,
    LEASE,
    MUCH,
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


async def stopped(opened: Opened, behind: int) -> list[int]:
    """Return the items of a lane whose first one is dead and holds the lane."""
    ids = await opened.items(1 + behind, lane="l", claim=True)
    await opened.settle(ended(ids[0], DEAD, error="no", holds_lane=True))
    return ids


async def run_next(opened: Opened, state: WorkState = DONE) -> list[int]:
    """Claim and finish what is due, and return the ids."""
    items = await opened.claim(now=LEASE)
    await opened.settle(*[ended(item.id, state, number=item.attempt, error="x") for item in items])
    return [item.id for item in items]


async def test_retrying_the_one_that_holds_a_lane_runs_it_first(opened: Opened) -> None:
    """The items behind it stay queued, and follow in their order."""
    ids = await stopped(opened, 2)

    assert await opened.controls.retry(ids[:1], now=NOON) == 1

    assert await opened.states(*ids) == [WAITING, QUEUED, QUEUED]
    assert not (await opened.seen(ids[0])).holds_lane
    assert [await run_next(opened) for _ in ids] == [[one] for one in ids]


async def test_burying_the_one_that_holds_a_lane_releases_it(opened: Opened) -> None:
    """It keeps its own reason, and the next item is due at once."""
    ids = await stopped(opened, 2)

    assert await opened.controls.bury(ids[:1], "seen", now=after_noon(SECOND)) == 1

    assert await opened.states(*ids) == [DEAD, WAITING, QUEUED]
    assert ((await opened.seen(ids[0])).last_error, (await opened.seen(ids[0])).holds_lane) == ("no", False)
    assert (await opened.seen(ids[1])).due_at == after_noon(SECOND)
    assert await opened.controls.bury(ids[:1], "seen", now=NOON) == 0  # it holds nothing any more


async def test_a_lane_that_was_released_is_free(opened: Opened) -> None:
    """No item is queued behind it, so the next item that comes is due at once."""
    ids = await stopped(opened, 0)
    await opened.controls.bury(ids, "seen", now=NOON)

    (next_one,) = await opened.items(1, lane="l", claim=True)

    assert await opened.states(next_one) == [RUNNING]


@pytest.mark.parametrize("head", [WAITING, RUNNING, DEAD])
async def test_burying_a_queued_one_takes_it_out_of_its_lane(opened: Opened, head: WorkState) -> None:
    """The items before and behind it do not change, and the lane goes on without it."""
    if head is DEAD:
        ids = await stopped(opened, 2)
    else:
        ids = await opened.items(3, lane="l", claim=head is RUNNING)

    assert await opened.controls.bury([ids[1]], "x", now=NOON) == 1

    assert await opened.states(*ids) == [head, DEAD, QUEUED]
    if head is RUNNING:
        await opened.settle(ended(ids[0]))
    else:
        await opened.controls.bury(ids[:1], "x", now=NOON)
    assert await opened.states(ids[2]) == [WAITING]


async def test_burying_a_head_that_waits_lets_the_next_one_come(opened: Opened) -> None:
    """The next one is due at once, although the head had long to wait."""
    ids = await opened.items(3, lane="l", claim=True)
    await opened.settle(ended(ids[0], WAITING, error="x", due=LEASE * 9))

    assert await opened.controls.bury(ids[:1], "x", now=NOON) == 1

    assert await opened.states(*ids) == [DEAD, WAITING, QUEUED]
    assert await run_next(opened) == [ids[1]]


async def test_a_whole_lane_can_be_buried(opened: Opened) -> None:
    """One call takes the ids in any order, and the next item that comes is due."""
    ids = await opened.items(4, lane="l")

    assert await opened.controls.bury(list(reversed(ids)), "x", now=NOON) == 4
    (next_one,) = await opened.items(1, lane="l", claim=True)

    assert await opened.states(*ids, next_one) == [DEAD] * 4 + [RUNNING]


async def test_a_whole_lane_is_retried_in_its_order(opened: Opened) -> None:
    """One item is due at once, and the others are queued behind it."""
    ids = await opened.items(4, lane="l")
    await opened.controls.bury(ids, "x", now=NOON)

    assert await opened.controls.retry([ids[2], ids[0], ids[3], ids[1]], now=after_noon(SECOND)) == 4

    assert await opened.states(*ids) == [WAITING, QUEUED, QUEUED, QUEUED]
    assert (await opened.seen(ids[0])).due_at == after_noon(SECOND)
    assert [await run_next(opened) for _ in ids] == [[one] for one in ids]


@pytest.mark.parametrize("head", [RUNNING, WAITING])
async def test_what_is_retried_takes_its_turn_in_a_busy_lane(opened: Opened, head: WorkState) -> None:
    """It arrived before the queued ones, so it runs before them. The present head runs first."""
    ids = await opened.items(4, lane="l", claim=True)
    await opened.settle(ended(ids[0], DEAD, error="x"))
    if head is RUNNING:
        await opened.claim(A, now=SECOND)

    assert await opened.controls.retry(ids[:1], now=NOON) == 1

    assert await opened.states(*ids) == [QUEUED, head, QUEUED, QUEUED]
    if head is RUNNING:
        await opened.settle(ended(ids[1]))
    else:
        assert await run_next(opened) == [ids[1]]
    assert [await run_next(opened) for _ in range(3)] == [[ids[0]], [ids[2]], [ids[3]]]


async def test_retrying_a_head_that_waits_keeps_it_the_head(opened: Opened) -> None:
    """It is due at once, and the items behind it stay queued."""
    ids = await opened.items(2, lane="l", claim=True)
    await opened.settle(ended(ids[0], WAITING, error="x", due=LEASE * 9))

    assert await opened.controls.retry(ids[:1], now=NOON) == 1

    assert await opened.states(*ids) == [WAITING, QUEUED]
    assert [await run_next(opened), await run_next(opened)] == [[ids[0]], [ids[1]]]


async def test_one_retried_behind_one_that_holds_the_lane_waits_too(opened: Opened) -> None:
    """It waits until an operator decides about the item that holds the lane."""
    first, second = await opened.items(2, lane="l", claim=True)
    await opened.settle(ended(first, DEAD, error="x"))
    await opened.claim(now=SECOND)
    await opened.settle(ended(second, DEAD, error="x", holds_lane=True))

    await opened.controls.retry([first], now=NOON)
    assert await opened.states(first, second) == [QUEUED, DEAD]
    assert await opened.claim(now=LEASE) == []

    await opened.controls.retry([second], now=NOON)
    assert await opened.states(first, second) == [QUEUED, WAITING]
    assert [await run_next(opened), await run_next(opened)] == [[second], [first]]


async def test_one_decision_moves_many_lanes(opened: Opened) -> None:
    """The lanes belong to several handlers, and only those of named items move."""
    lanes = [await opened.items(2, handler, lane=key, claim=True) for handler in (ONE, TWO) for key in ("a", "b")]
    firsts, seconds = [one[0] for one in lanes], [one[1] for one in lanes]
    await opened.settle(*[ended(work_id, DEAD, error="x", holds_lane=True) for work_id in firsts])

    assert await opened.controls.bury(firsts[:3], "seen", now=NOON) == 3

    assert await opened.states(*seconds) == [WAITING, WAITING, WAITING, QUEUED]


async def test_a_lane_whose_head_dies_again_goes_on(opened: Opened) -> None:
    """An item that was retried and died once more releases the lane as before."""
    ids = await stopped(opened, 1)
    await opened.controls.retry(ids[:1], now=NOON)

    assert await run_next(opened, DEAD) == ids[:1]

    assert await opened.states(*ids) == [DEAD, WAITING]


@pytest.mark.parametrize("seed", range(4))
async def test_an_operator_and_workers_that_race_leave_nothing_behind(opened: Opened, seed: int) -> None:
    """The operator buries, retries, pauses and disables meanwhile.

    No success comes twice, and at the end all is done.
    """
    rng = random.Random(seed)
    ids = [one for lane in ("a", "b", None) for one in await opened.items(8, lane=lane)]
    succeeded: list[int] = []
    busy: set[str] = set()

    async def work(worker: WorkerId) -> None:
        for _ in range(40):
            items = await opened.claim(worker, now=SECOND, wanted=ClaimLimits(rng.randint(1, 4), MUCH))
            lanes = [lane for item in items if (lane := (await opened.seen(item.id)).lane) is not None]
            assert busy.isdisjoint(lanes), "two of one lane run at one time"
            assert len(set(lanes)) == len(lanes)
            busy.update(lanes)
            await asyncio.sleep(0)
            busy.difference_update(lanes)
            for item in items:
                state = rng.choice((DONE, DONE, DEAD, WAITING))
                held = rng.random() < 0.5
                end = ended(item.id, state, worker=worker, number=item.attempt, error="x", holds_lane=held)
                assert await opened.settle(end) == [True]
                succeeded.extend([item.id] if state is DONE else [])

    async def operate() -> None:
        for _ in range(60):
            some = rng.sample(ids, rng.randint(1, 6))
            match rng.choice(("retry", "bury", "switch")):
                case "retry":
                    await opened.controls.retry(some, now=NOON)
                case "bury":
                    await opened.controls.bury(some, "x", now=NOON)
                case _:
                    await opened.controls.switch(ONE, rng.choice(list(HandlerSwitch)))

    await soon(asyncio.gather(work(A), work(B), operate()))
    await opened.check_lanes()
    await opened.controls.switch(ONE, HandlerSwitch.ON)
    await opened.controls.retry(ids, now=NOON)
    while items := await opened.claim(now=LEASE):
        await opened.settle(*[ended(item.id, number=item.attempt) for item in items])
        succeeded += [item.id for item in items]

    assert await opened.states(*ids) == [DONE] * len(ids)
    assert sorted(succeeded) == ids
