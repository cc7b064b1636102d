"""The contract of claims: which items, how many, in which order, and for one worker only."""

import asyncio
from datetime import timedelta

import pytest

from receiver.core.claims import ClaimLimits, HandlerClaim, Lease
from receiver.core.ports.queue import WorkQueue
from receiver.core.types import AttemptOutcome, HandlerName, Trigger, WorkerId, WorkState
from receiver.core.work import Attempt, Hold
from tests.doubles import NOON, delivery, soon
from tests.stores.opened import (
    AFTER,
    DEAD,
    DONE,
    LEASE,
    MICROSECOND,
    MUCH,
    NOTHING,
    ONE,
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

DAYS = timedelta(days=3_650)


async def test_a_claimed_item_brings_its_delivery(opened: Opened) -> None:
    """The body is the same byte by byte, and the duplicates are counted."""
    await opened.add(delivery(body=b"\0\xff", headers=(("a", "\xff"),)))
    await opened.add(delivery(body=b"\0\xff"))
    (work_id,) = await opened.route(ONE, claim=False)

    (item,) = await opened.claim()

    assert (item.id, item.handler) == (work_id, ONE)
    assert (item.source.seq, item.source.duplicates) == (1, 1)
    assert item.source.delivery == delivery(body=b"\0\xff", headers=(("a", "\xff"),))


async def test_each_claim_is_an_attempt(opened: Opened) -> None:
    """The trigger of the first attempt is the delivery, and that of all others a retry."""
    (work_id,) = await opened.items(1)

    seen = []
    for number in range(1, 4):
        (item,) = await opened.claim()
        seen.append((item.attempt, item.uncounted, item.deaths, item.trigger))
        await opened.settle(ended(work_id, WAITING, number=number, error="x"))

    assert seen == [(1, 0, 0, Trigger.DELIVERY), (2, 0, 0, Trigger.RETRY), (3, 0, 0, Trigger.RETRY)]
    assert (await opened.seen(work_id)).attempts == 3


async def test_what_is_not_due_is_not_claimed(opened: Opened) -> None:
    """An item is claimed at its due time, to the microsecond."""
    (work_id,) = await opened.items(1, claim=True)
    await opened.settle(ended(work_id, WAITING, error="x", due=SECOND))

    assert await opened.claimed(now=SECOND - MICROSECOND) == []
    assert await opened.claimed(now=SECOND) == [work_id]


async def test_the_longest_due_is_claimed_first_within_a_handler(opened: Opened) -> None:
    """Handlers are served in the order given, and the caller rotates that order."""
    await opened.add(*[delivery(str(n)) for n in range(3)])
    ids = await opened.route(ONE, TWO)
    dues = [3, 0, 1, 4, 2, 5]
    await opened.settle(
        *[ended(work_id, WAITING, error="x", due=SECOND * due) for work_id, due in zip(ids, dues, strict=True)]
    )

    items = await opened.claim(claimants=(TWO, ONE), now=LEASE)

    assert [(item.handler, item.source.delivery.key) for item in items] == [
        (TWO, "0"),
        (TWO, "1"),
        (TWO, "2"),
        (ONE, "1"),
        (ONE, "2"),
        (ONE, "0"),
    ]


@pytest.mark.parametrize("limit", [0, 1, 3, 4])
async def test_no_more_is_claimed_than_asked_for(opened: Opened, limit: int) -> None:
    """The limit counts the items of all handlers together. The rest stays for others."""
    await opened.items(2, ONE)
    await opened.items(2, TWO)

    items = await opened.claim(claimants=(ONE, TWO), wanted=ClaimLimits(limit, MUCH))

    assert [item.handler for item in items] == [ONE, ONE, TWO, TWO][:limit]
    assert len(await opened.claim(B, (ONE, TWO))) == 4 - limit


@pytest.mark.parametrize(("max_bytes", "count"), [(0, 1), (100, 1), (199, 1), (200, 2), (399, 3), (500, 4)])
async def test_claimed_bodies_fit_in_the_bytes_given(opened: Opened, max_bytes: int, count: int) -> None:
    """The bytes of all handlers count together, but one item always fits. Items that do not fit are not claimed."""
    await opened.items(2, ONE, body=b"x" * 100)
    await opened.items(2, TWO, body=b"x" * 100)

    assert len(await opened.claim(claimants=(ONE, TWO), wanted=ClaimLimits(10, max_bytes))) == count
    assert len(await opened.claim(B, (ONE, TWO))) == 4 - count


async def test_shorter_bodies_do_not_overtake_a_long_one(opened: Opened) -> None:
    """The long one could wait for ever otherwise."""
    first = await opened.items(1, ONE, body=b"x")
    long = await opened.items(1, ONE, body=b"x" * 100)
    await opened.items(1, ONE, body=b"x")

    assert await opened.claimed(wanted=ClaimLimits(10, 50)) == first
    assert await opened.claimed(wanted=ClaimLimits(10, 50)) == long


async def test_only_items_of_the_handlers_named_are_claimed(opened: Opened) -> None:
    """A worker with other handlers leaves them alone, and a worker with no handler claims nothing."""
    ids = await opened.items(1)

    assert await opened.claim(claimants=(TWO, HandlerName("on"), HandlerName("one2"))) == []
    assert await opened.claim(claimants=()) == []
    assert await opened.claimed(claimants=(TWO, ONE)) == ids


async def test_what_is_claimed_is_claimed_once(opened: Opened) -> None:
    """Nobody claims it again before its lease ends."""
    await opened.items(1)
    await opened.claim(A)

    almost = LEASE - MICROSECOND
    assert await opened.claim(B, now=almost) == []
    assert await opened.claim(A, now=almost) == []


async def test_workers_that_race_claim_each_item_once(opened: Opened) -> None:
    """Two connections make many claims at a time."""
    ids = await opened.items(40)
    claimed: list[int] = []

    async def work(queue: WorkQueue, worker: WorkerId) -> None:
        while items := await queue.claim(
            [HandlerClaim(ONE)], ClaimLimits(3, MUCH), lease=Lease(worker, AFTER), now=NOON
        ):
            claimed.extend(item.id for item in items)

    await soon(asyncio.gather(work(opened.queue, A), work(opened.other, B), work(opened.other, B)))

    assert sorted(claimed) == sorted(ids)


@pytest.mark.parametrize("state", [DONE, DEAD])
async def test_done_and_dead_are_not_claimed_again(opened: Opened, state: WorkState) -> None:
    """Time changes nothing about that."""
    (work_id,) = await opened.items(1, claim=True)
    await opened.settle(ended(work_id, state))

    assert await opened.claim(now=DAYS) == []
    assert await opened.next_due(ONE) is None


async def test_what_waits_for_a_slot_of_another_worker_is_not_due(opened: Opened) -> None:
    """Until the lease of what runs ends: a worker that looked again and again would miss what is due in between."""
    limited = HandlerClaim(ONE, concurrency=1)
    await opened.items(1, claim=True)
    await opened.items(1)
    assert await opened.next_due(ONE) == NOTHING
    assert await opened.next_due(HandlerClaim(ONE, concurrency=2)) == NOTHING

    assert await opened.next_due(limited) == LEASE

    await opened.items(1, TWO, hold=Hold(NOON + SECOND, NOON + SECOND))
    assert await opened.next_due(limited, TWO) == SECOND


# --- What dead workers held


async def test_an_item_whose_lease_ended_is_claimed_as_a_new_attempt(opened: Opened) -> None:
    """Nobody knows how the lost attempt ended, so it does not count. The next one is a retry."""
    (work_id,) = await opened.items(1, claim=True)

    (item,) = await opened.claim(B, now=LEASE)

    assert (item.id, item.attempt, item.uncounted, item.trigger) == (work_id, 2, 1, Trigger.RETRY)
    seen = await opened.seen(work_id)
    assert (seen.state, seen.attempts) == (RUNNING, 2)
    assert seen.last_error is not None
    assert "lost" in seen.last_error


async def test_a_lost_attempt_is_recorded(opened: Opened) -> None:
    """Its end is the moment when the loss was noticed. Nobody knows when it began."""
    (work_id,) = await opened.items(1, claim=True)
    await opened.claim(B, now=LEASE + SECOND)
    await opened.claim(A, now=LEASE * 3, wanted=ClaimLimits(10, MUCH, suspects=True))

    error = (await opened.seen(work_id)).last_error
    lost = AttemptOutcome.LOST
    assert await opened.history(work_id) == [
        Attempt(1, Trigger.DELIVERY, None, after_noon(LEASE + SECOND), lost, error),
        Attempt(2, Trigger.RETRY, None, after_noon(LEASE * 3), lost, error),
    ]


async def test_what_a_dead_worker_held_becomes_due_also_when_it_is_not_claimed(opened: Opened) -> None:
    """Here the claim takes only one of the items."""
    first, second = await opened.items(2, claim=True)

    claimed = await opened.claimed(B, now=LEASE, wanted=ClaimLimits(1, MUCH))

    (left,) = {first, second} - set(claimed)
    seen = await opened.seen(left)
    assert (seen.state, seen.due_at, seen.attempts) == (WAITING, AFTER, 1)
    assert len(await opened.history(left)) == 1


async def test_dead_workers_lose_what_they_held_for_any_handler(opened: Opened) -> None:
    """No living worker may have the code of the handler any more."""
    await opened.items(1, ONE, claim=True)
    (other,) = await opened.items(1, TWO, claim=True)

    await opened.claim(B, (ONE,), now=LEASE)

    assert await opened.states(other) == [WAITING]
    assert await opened.settle(ended(other)) == [False]


async def test_every_lost_attempt_is_uncounted(opened: Opened) -> None:
    """A failed attempt between lost ones counts."""
    (work_id,) = await opened.items(1, claim=True)
    (item,) = await opened.claim(now=LEASE)
    await opened.settle(ended(work_id, WAITING, number=2, error="x", due=LEASE))
    (again,) = await opened.claim(now=LEASE)
    (last,) = await opened.claim(B, now=LEASE * 2, wanted=ClaimLimits(10, MUCH, suspects=True))

    assert [(one.attempt, one.uncounted) for one in (item, again, last)] == [(2, 1), (3, 1), (4, 2)]
