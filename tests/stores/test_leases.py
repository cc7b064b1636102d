"""The contract of leases: renewal, return, expiry, and results that come too late."""

import asyncio

import pytest

from receiver.core.claims import ClaimLimits, Lease
from receiver.core.types import Trigger, WorkerId
from tests.doubles import NOON
from tests.stores.opened import (
    DEAD,
    DONE,
    LEASE,
    MUCH,
    ONE,
    RUNNING,
    SECOND,
    SUSPECTS,
    TWO,
    WAITING,
    A,
    B,
    C,
    Opened,
    after_noon,
    ended,
)

# --- Renewing


async def test_a_renewed_lease_ends_later(opened: Opened) -> None:
    """Nobody else claims the item before its new end."""
    ids = await opened.items(1, claim=True)

    await opened.queue.renew(ids, Lease(A, after_noon(LEASE * 2)))

    assert await opened.claimed(B, now=LEASE) == []
    assert await opened.claimed(B, now=LEASE * 2) == ids


async def test_a_lease_that_has_ended_can_be_renewed_until_somebody_claims(opened: Opened) -> None:
    """So the work is done once and not twice."""
    (work_id,) = await opened.items(1, claim=True)

    await opened.queue.renew([work_id], Lease(A, after_noon(LEASE * 3)))

    assert await opened.claimed(B, now=LEASE * 2) == []
    assert await opened.settle(ended(work_id)) == [True]


async def test_only_the_holder_renews(opened: Opened) -> None:
    """No other worker renews, and items that wait, are done or dead have no lease."""
    others, waiting, done, dead = await opened.items(4, claim=True)
    await opened.settle(ended(waiting, WAITING, error="x"), ended(done), ended(dead, DEAD, error="x"))

    await opened.queue.renew([waiting, done, dead], Lease(A, after_noon(LEASE * 9)))
    await opened.other.renew([others], Lease(B, after_noon(LEASE * 9)))

    assert set(await opened.claimed(now=LEASE)) == {others, waiting}


async def test_renewing_nothing_is_allowed(opened: Opened) -> None:
    """Unknown ids are allowed too."""
    ids = await opened.items(1, claim=True)

    await opened.queue.renew([], Lease(A, after_noon(LEASE * 9)))
    await opened.queue.renew([0, 12_345, -1], Lease(A, after_noon(LEASE * 9)))

    assert await opened.claimed(B, now=LEASE) == ids


# --- Giving back


async def test_a_returned_item_is_due_at_once_and_uncounted(opened: Opened) -> None:
    """The next claim is the first attempt again."""
    (work_id,) = await opened.items(1, claim=True)

    await opened.queue.release_leases([work_id], A, now=NOON)

    seen = await opened.seen(work_id)
    assert (seen.state, seen.attempts, seen.due_at, seen.last_error) == (WAITING, 0, NOON, None)
    assert await opened.history(work_id) == []
    (item,) = await opened.claim(B)
    assert (item.attempt, item.uncounted, item.deaths, item.trigger) == (1, 0, 0, Trigger.DELIVERY)


async def test_an_item_named_twice_is_returned_once(opened: Opened) -> None:
    """Otherwise its attempts would be counted wrongly."""
    (work_id,) = await opened.items(1, claim=True)
    await opened.settle(ended(work_id, WAITING, error="x"))
    await opened.claim()

    await opened.queue.release_leases([work_id, work_id], A, now=NOON)

    assert (await opened.seen(work_id)).attempts == 1


async def test_only_the_holder_returns_an_item(opened: Opened) -> None:
    """Other workers change nothing, and items that wait, are done or dead cannot be returned."""
    mine, waiting, done, dead = await opened.items(4, claim=True)
    await opened.settle(ended(waiting, WAITING, error="x", due=SECOND), ended(done), ended(dead, DEAD, error="x"))
    before = [await opened.seen(work_id) for work_id in (mine, waiting, done, dead)]

    await opened.other.release_leases([mine], B, now=NOON)
    await opened.queue.release_leases([waiting, done, dead, 12_345], A, now=NOON)

    assert [await opened.seen(work_id) for work_id in (mine, waiting, done, dead)] == before


async def test_a_lost_attempt_before_a_return_stays_recorded(opened: Opened) -> None:
    """The item was returned, claimed and settled, and no two attempts have the same number."""
    (work_id,) = await opened.items(1, claim=True)
    await opened.claim(B, now=LEASE)
    await opened.other.release_leases([work_id], B, now=NOON)
    (item,) = await opened.claim(A, now=LEASE)
    (again,) = await opened.claim(B, now=LEASE * 2, wanted=SUSPECTS)

    assert [(one.attempt, one.uncounted) for one in (item, again)] == [(2, 1), (3, 2)]
    assert await opened.settle(ended(work_id, worker=B, number=3)) == [True]
    assert [attempt.number for attempt in await opened.history(work_id)] == [1, 2, 3]


# --- Taking over


async def test_the_leases_of_a_dead_worker_end(opened: Opened) -> None:
    """Its attempts are lost at once. Other workers keep their items."""
    dead = await opened.items(2, worker=A, claim=True)
    kept = await opened.items(1, worker=B, claim=True)

    assert await opened.queue.expire_leases_of(A, now=NOON) == 2

    items = await opened.claim(C)
    assert {item.id for item in items} == set(dead)
    assert {(item.attempt, item.uncounted) for item in items} == {(2, 1)}
    assert await opened.states(*kept) == [RUNNING]


async def test_an_unknown_worker_has_no_leases(opened: Opened) -> None:
    """A worker has none either for items that it settled or returned."""
    first, second = await opened.items(2, claim=True)
    await opened.settle(ended(first))
    await opened.queue.release_leases([second], A, now=NOON)

    assert await opened.queue.expire_leases_of(A, now=NOON) == 0
    assert await opened.queue.expire_leases_of(WorkerId("nobody"), now=NOON) == 0


async def test_a_worker_that_is_dead_settles_nothing(opened: Opened) -> None:
    """Nobody has its lease any more, even before the next claim."""
    (work_id,) = await opened.items(1, claim=True)
    await opened.other.expire_leases_of(A, now=NOON)

    assert await opened.settle(ended(work_id)) == [False]
    assert await opened.claimed(B) == [work_id]


# --- Too late


@pytest.mark.parametrize("gone_to", ["another worker", "itself", "nobody"])
async def test_a_worker_that_lost_its_lease_changes_nothing(opened: Opened, gone_to: str) -> None:
    """It cannot settle, renew, start or return the item, whether another worker holds it or nobody."""
    (work_id,) = await opened.items(1, worker=A, claim=True, lane="l")
    (queued,) = await opened.items(1, lane="l")
    if gone_to == "nobody":
        await opened.items(1, TWO)
        assert await opened.claim(B, (TWO, ONE), now=LEASE, wanted=ClaimLimits(1, MUCH)) != []
    else:
        await opened.claim(B if gone_to == "another worker" else A, now=LEASE)
    before = [await opened.reports.work_item(one) for one in (work_id, queued)]

    assert await opened.settle(ended(work_id, worker=A, number=1)) == [False]
    assert await opened.settle(ended(work_id, DEAD, worker=A, number=1, error="x")) == [False]
    if gone_to != "itself":
        await opened.queue.renew([work_id], Lease(A, after_noon(LEASE * 9)))
        await opened.queue.release_leases([work_id], A, now=NOON)
        await opened.queue.mark_started([work_id], A)

    assert [await opened.reports.work_item(one) for one in (work_id, queued)] == before
    (item,) = await opened.claim(C, now=LEASE * 2, wanted=ClaimLimits(10, MUCH, suspects=gone_to != "nobody"))
    assert (item.id, item.deaths) == (work_id, 0)
    assert await opened.settle(ended(work_id, worker=C, number=item.attempt)) == [True]


async def test_a_result_after_the_lease_counts_if_nobody_claimed_the_item(opened: Opened) -> None:
    """Another run would be a waste."""
    (work_id,) = await opened.items(1, claim=True)

    assert await opened.settle(ended(work_id, at=LEASE * 5)) == [True]
    assert await opened.claim(B, now=LEASE * 5) == []
    assert await opened.states(work_id) == [DONE]


async def test_a_result_after_a_return_is_refused(opened: Opened) -> None:
    """Other workers may claim the item."""
    (work_id,) = await opened.items(1, claim=True)
    await opened.queue.release_leases([work_id], A, now=NOON)

    assert await opened.settle(ended(work_id)) == [False]
    assert await opened.states(work_id) == [WAITING]


async def test_a_result_and_another_claim_at_one_time_make_one_success(opened: Opened) -> None:
    """Either the result counts and nobody claims, or the result is refused."""
    ids = await opened.items(20, claim=True)

    async def settle() -> list[bool]:
        return [(await opened.settle(ended(work_id)))[0] for work_id in ids]

    async def claim() -> list[int]:
        claimed: list[int] = []
        for _ in ids:
            claimed += await opened.claimed(B, now=LEASE, wanted=ClaimLimits(1, MUCH))
        return claimed

    counted, claimed = await asyncio.gather(settle(), claim())

    won = {work_id for work_id, done in zip(ids, counted, strict=True) if done}
    assert won.isdisjoint(claimed)
    assert won | set(claimed) | {one.id for one in await opened.work(state=WAITING)} == set(ids)
    assert {one.id for one in await opened.work(state=DONE)} == won


async def test_the_lease_of_a_claim_is_the_one_given(opened: Opened) -> None:
    """Its end is the next moment to wait for."""
    await opened.items(1)
    await opened.claim(now=SECOND)

    assert await opened.next_due(ONE) == SECOND + LEASE
