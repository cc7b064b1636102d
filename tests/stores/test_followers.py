"""The contract of followers: what is queued behind a claimed item may run without a claim of its own."""

import pytest

from receiver.core.activity import ActivityCount, WorkerSign
from receiver.core.claims import ClaimLimits, HandlerClaim, LaterWork, Lease, WorkItem
from receiver.core.types import AttemptOutcome, Trigger
from receiver.core.work import LOST, Hold, NewWork
from tests.doubles import NOON, delivery
from tests.stores.opened import (
    AFTER,
    DAY,
    DEAD,
    DONE,
    HELD,
    LEASE,
    MICROSECOND,
    MUCH,
    ONE,
    QUEUED,
    RUNNING,
    SECOND,
    SUSPECTS,
    TWO,
    WAITING,
    A,
    B,
    Opened,
    after_noon,
    ended,
    going_on,
)

WITH = HandlerClaim(ONE, followers=True)
WITH_TWO = HandlerClaim(TWO, followers=True)
SIGN = WorkerSign(A, "machine", 7, "1.0", NOON)


def followers(items: list[WorkItem]) -> dict[int, list[int]]:
    """Return the ids of the followers of each item."""
    return {one.id: [follower.id for follower in one.followers] for one in items}


# --- What comes with a claim


async def test_an_item_comes_with_what_is_queued_behind_it(opened: Opened) -> None:
    """In the order of the lane, with their deliveries. They are not claimed."""
    ids = await opened.items(2, lane="l") + await opened.items(1, lane="l")

    (item,) = await opened.claim(claimants=[WITH])

    assert followers([item]) == {ids[0]: ids[1:]}
    assert [one.source.delivery.key for one in item.followers] == ["item-1", "item-2"]
    fresh = {one._replace(id=0, source=item.source) for one in item.followers}
    assert fresh == {WorkItem(0, ONE, 1, 0, 0, Trigger.DELIVERY, item.source, in_lane=True)}
    assert await opened.states(*ids) == [RUNNING, QUEUED, QUEUED]
    assert await opened.untouched(*ids[1:])
    assert await opened.claim(B, [WITH], now=LEASE - MICROSECOND) == []


async def test_who_does_not_ask_gets_no_followers(opened: Opened) -> None:
    await opened.items(3, lane="l")

    assert list(followers(await opened.claim()).values()) == [[]]


async def test_items_without_a_lane_have_no_followers(opened: Opened) -> None:
    ids = await opened.items(2)

    assert followers(await opened.claim(claimants=[WITH], wanted=ClaimLimits(1, MUCH))) == {ids[0]: []}
    assert followers(await opened.claim(claimants=[WITH])) == {ids[1]: []}


async def test_suspects_have_no_followers(opened: Opened) -> None:
    """They run alone."""
    ids = await opened.items(2, lane="l", claim=True, starts=True)

    assert followers(await opened.claim(B, [WITH], now=LEASE, wanted=SUSPECTS)) == {ids[0]: []}


async def test_followers_are_of_the_same_lane_and_handler(opened: Opened) -> None:
    """The same key of another handler is another lane."""
    a, a2 = await opened.items(2, lane="a")
    b, b2 = await opened.items(2, lane="b")
    two, two2 = await opened.items(2, TWO, lane="a")

    items = await opened.claim(claimants=[WITH, WITH_TWO])

    assert followers(items) == {a: [a2], b: [b2], two: [two2]}


async def test_only_a_handler_that_asks_gets_followers(opened: Opened) -> None:
    """Others in the same claim get none."""
    one, one2 = await opened.items(2, lane="a")
    (two, _) = await opened.items(2, TWO, lane="a")

    assert followers(await opened.claim(claimants=[TWO, WITH])) == {two: [], one: [one2]}


async def test_a_retry_has_followers_too(opened: Opened) -> None:
    """What is queued behind it has not run."""
    ids = await opened.items(2, lane="l", claim=True)
    await opened.settle(ended(ids[0], WAITING, error="x", due=SECOND))

    (item,) = await opened.claim(claimants=[WITH], now=SECOND)

    assert (item.attempt, followers([item])) == (2, {ids[0]: ids[1:]})


async def test_followers_end_at_the_first_that_was_attempted(opened: Opened) -> None:
    """A retry needs what a claim tells: its number, and whether it is a suspect."""
    first, fresh, tried, head = await opened.items(4, lane="l", claim=True)
    await opened.controls.bury([fresh], "later", now=NOON)
    await opened.settle(ended(first))
    assert await opened.claimed(now=SECOND) == [tried]
    await opened.settle(ended(tried, DEAD, error="x"))
    await opened.controls.retry([fresh, tried], now=NOON)
    (behind,) = await opened.items(1, lane="l")
    assert await opened.states(fresh, tried, head, behind) == [QUEUED, QUEUED, WAITING, QUEUED]

    assert followers(await opened.claim(claimants=[WITH], now=SECOND)) == {head: [fresh]}


async def test_what_is_held_is_no_follower(opened: Opened) -> None:
    """It joins the queue when its hold ends."""
    (head,) = await opened.items(1, lane="l")
    (held,) = await opened.items(1, lane="l", hold=Hold(AFTER, AFTER))
    (behind,) = await opened.items(1, lane="l")

    assert followers(await opened.claim(claimants=[WITH])) == {head: [behind]}
    assert await opened.states(held) == [HELD]


async def test_a_follower_keeps_the_trigger_with_which_it_was_made(opened: Opened) -> None:
    """Here that of a replay."""
    await opened.items(1)
    await opened.controls.enqueue([NewWork(1, TWO, lane="l"), NewWork(1, TWO, lane="l")], now=NOON)

    (item,) = await opened.claim(claimants=[WITH_TWO])

    assert [one.trigger for one in item.followers] == [Trigger.REPLAY]


@pytest.mark.parametrize(("limit", "each"), [(3, 0), (4, 0), (5, 1), (6, 1), (7, 2), (100, 3)])
async def test_followers_share_the_room_that_a_claim_leaves(opened: Opened, limit: int, each: int) -> None:
    """The items that the limit counts are the claimed ones and their followers. Each lane gets as many."""
    a = await opened.items(4, lane="a")
    b = await opened.items(4, lane="b")
    (alone,) = await opened.items(1)

    items = await opened.claim(claimants=[WITH], wanted=ClaimLimits(limit, MUCH))

    assert followers(items) == {a[0]: a[1 : each + 1], b[0]: b[1 : each + 1], alone: []}


@pytest.mark.parametrize(
    ("max_bytes", "first", "second"),
    [(1, 0, None), (299, 0, 0), (300, 1, 0), (499, 2, 0), (500, 2, 1), (600, 2, 2)],
)
async def test_followers_share_the_bytes(opened: Opened, max_bytes: int, first: int, second: int | None) -> None:
    """Bodies of followers count like those of claimed items. Claimed items come first."""
    a = await opened.items(3, lane="a", body=b"x" * 100)
    b = await opened.items(3, lane="b", body=b"x" * 100)

    items = await opened.claim(claimants=[WITH], wanted=ClaimLimits(100, max_bytes))

    expected = {a[0]: a[1 : first + 1]}
    assert followers(items) == (expected if second is None else {**expected, b[0]: b[1 : second + 1]})


async def test_followers_do_not_count_as_items_of_their_handler(opened: Opened) -> None:
    """They run when the one before has ended, so one runs at a time."""
    ids = await opened.items(3, lane="l")
    limited = HandlerClaim(ONE, concurrency=1, most=1, followers=True)

    assert followers(await opened.claim(claimants=[limited])) == {ids[0]: ids[1:]}


async def test_routing_names_no_item_behind_those_of_another_call(opened: Opened) -> None:
    """Their heads may have another worker. The followers of new heads are named, each lane for itself."""
    await opened.items(1, lane="busy", claim=True)
    await opened.add(delivery())
    batch = await opened.queue.routing_batch(limit=1, max_bytes=MUCH)
    seq = batch.deliveries[0].seq
    lanes = [("busy", True), ("new", True), ("new", False), ("waits", False), ("waits", True)]
    work = [NewWork(seq, ONE, claim, lane=lane) for lane, claim in lanes]

    ids = await opened.other.route(batch, work, lease=Lease(B, AFTER), now=NOON)

    made = list(reversed(await opened.work(limit=5)))
    assert [one.state for one in made] == [QUEUED, RUNNING, QUEUED, WAITING, QUEUED]
    assert list(ids or ()) == [None, made[1].id, made[2].id, None, None]


# --- Settling


async def test_followers_are_settled_with_the_one_that_they_follow(opened: Opened) -> None:
    """Each is recorded like any first attempt, and the lane goes on behind the last one."""
    head, first, second, left = await opened.items(4, lane="l", claim=True)

    settled = await opened.settle(
        ended(head, at=SECOND), ended(first, at=SECOND * 2, behind=head), ended(second, at=SECOND * 3, behind=head)
    )

    assert settled == [True, True, True]
    assert await opened.states(head, first, second, left) == [DONE, DONE, DONE, WAITING]
    assert [(await opened.seen(one)).attempts for one in (head, first, second, left)] == [1, 1, 1, 0]
    for n, one in enumerate((head, first, second), 1):
        assert await opened.history(one) == [ended(one, at=SECOND * n).attempt]
    assert (await opened.seen(left)).due_at == after_noon(SECOND * 3)
    assert await opened.claimed(B, now=SECOND * 3) == [left]
    assert await opened.claimed(B, now=DAY) == [left]


async def test_attempts_of_followers_are_counted(opened: Opened) -> None:
    """Those that are refused are not."""
    head, first, failed, buried = await opened.items(4, lane="l", claim=True)
    await opened.controls.bury([buried], "no", now=NOON)

    await opened.settle(
        ended(head),
        ended(first, behind=head),
        ended(failed, WAITING, error="x", due=DAY, behind=head),
        ended(buried, behind=head),
    )

    await opened.queue.sign_on(SIGN, now=NOON)
    counts = await opened.reports.activity(since=NOON, step=DAY)
    found = {one.outcome: one.count for one in counts if isinstance(one, ActivityCount)}
    assert found == {AttemptOutcome.SUCCEEDED: 2, AttemptOutcome.FAILED: 1}


async def test_what_a_follower_asks_for_later_is_made(opened: Opened) -> None:
    """Only if its success is recorded."""
    head, follower, refused = await opened.items(3, lane="l", claim=True)
    await opened.controls.bury([refused], "no", now=NOON)
    asked = [(LaterWork(n, TWO, after_noon(SECOND * n)),) for n in (1, 2, 3)]

    settled = await opened.settle(
        ended(head)._replace(later=asked[0]),
        ended(follower, behind=head)._replace(later=asked[1]),
        ended(refused, behind=head)._replace(later=asked[2]),
    )

    assert settled == [True, True, False]
    made = [one.due_at for one in await opened.work(handler=TWO)]
    assert made == [after_noon(SECOND * 2), after_noon(SECOND)]


async def test_a_follower_that_failed_waits_for_its_retry(opened: Opened) -> None:
    """It is the head of its lane then."""
    head, done, failed, behind = await opened.items(4, lane="l", claim=True)

    settled = await opened.settle(
        ended(head), ended(done, behind=head), ended(failed, WAITING, error="x", due=LEASE, behind=head)
    )

    assert settled == [True, True, True]
    assert await opened.states(head, done, failed, behind) == [DONE, DONE, WAITING, QUEUED]
    seen = await opened.seen(failed)
    assert (seen.attempts, seen.due_at, seen.last_error) == (1, AFTER, "x")
    assert await opened.history(failed) == [ended(failed, WAITING, error="x").attempt]
    assert await opened.claimed(B, [WITH], now=LEASE - MICROSECOND) == []
    (item,) = await opened.claim(B, [WITH], now=LEASE)
    assert (item.id, item.attempt, item.uncounted, item.trigger) == (failed, 2, 0, Trigger.RETRY)
    assert followers([item]) == {failed: [behind]}


async def test_a_follower_that_is_dead_lets_its_lane_go_on(opened: Opened) -> None:
    head, dead, behind = await opened.items(3, lane="l", claim=True)

    assert await opened.settle(ended(head), ended(dead, DEAD, error="x", behind=head)) == [True, True]

    assert await opened.states(head, dead, behind) == [DONE, DEAD, WAITING]
    seen = await opened.seen(dead)
    assert (seen.attempts, seen.due_at, seen.last_error, seen.holds_lane) == (1, None, "x", False)


async def test_a_follower_that_is_dead_may_hold_its_lane(opened: Opened) -> None:
    """Until an operator decides."""
    head, dead, behind = await opened.items(3, lane="l", claim=True)

    await opened.settle(ended(head), ended(dead, DEAD, error="x", holds_lane=True, behind=head))

    assert await opened.states(head, dead, behind) == [DONE, DEAD, QUEUED]
    assert (await opened.seen(dead)).holds_lane
    await opened.controls.bury([dead], "seen", now=NOON)
    assert await opened.states(behind) == [WAITING]


async def test_the_death_of_a_process_counts_for_the_follower(opened: Opened) -> None:
    """It ran the follower when it died."""
    head, follower = await opened.items(2, lane="l", claim=True)

    end = ended(follower, WAITING, error="died", due=SECOND, behind=head)._replace(died=True)
    assert await opened.settle(ended(head), end) == [True, True]

    (item,) = await opened.claim(B, now=SECOND)
    assert (item.id, item.deaths) == (follower, 1)


async def test_a_follower_that_succeeds_forgets_the_reason_of_its_burial(opened: Opened) -> None:
    """An operator buried it and retried it, before its worker came to it."""
    head, follower = await opened.items(2, lane="l", claim=True)
    await opened.controls.bury([follower], "not wanted", now=NOON)
    await opened.controls.retry([follower], now=NOON)

    assert await opened.settle(ended(head), ended(follower, behind=head)) == [True, True]

    assert (await opened.seen(follower)).last_error is None


async def test_many_lanes_are_settled_in_one_call(opened: Opened) -> None:
    """Each goes on in its own way."""
    a, a2, a3 = await opened.items(3, lane="a", claim=True)
    b, b2, b3 = await opened.items(3, lane="b", claim=True)
    c, c2, c3 = await opened.items(3, lane="c", claim=True)
    d, d2 = await opened.items(2, lane="d", claim=True)
    (alone,) = await opened.items(1, claim=True)

    settled = await opened.settle(
        *[ended(one) for one in (a, b, c, d, alone)],
        *[ended(a2, behind=a), ended(b2, behind=b), ended(c2, WAITING, error="x", due=DAY, behind=c)],
        followers=[going_on(b3, b), going_on(d2, d)],
    )

    assert settled == [True] * 10
    assert await opened.states(a, b, c, d, alone) == [DONE] * 5
    assert await opened.states(a2, a3, b2, b3) == [DONE, WAITING, DONE, RUNNING]
    assert await opened.states(c2, c3, d2) == [WAITING, QUEUED, RUNNING]


# --- Followers that run


async def test_a_follower_that_runs_is_claimed_with_the_end_of_the_one_before(opened: Opened) -> None:
    """Nobody else gets it before its lease ends."""
    head, follower, behind = await opened.items(3, lane="l", claim=True)

    assert await opened.settle(ended(head), followers=[going_on(follower, head, until=LEASE * 2)]) == [True, True]

    assert await opened.states(head, follower, behind) == [DONE, RUNNING, QUEUED]
    assert ((await opened.seen(follower)).attempts, await opened.history(follower)) == (1, [])
    assert await opened.next_due(ONE) == LEASE * 2
    assert await opened.claim(B, now=LEASE * 2 - MICROSECOND, wanted=SUSPECTS) == []
    assert await opened.claimed(B, now=LEASE * 2, wanted=SUSPECTS) == [follower]


async def test_a_follower_that_runs_ends_like_any_other(opened: Opened) -> None:
    """Its own followers end behind it."""
    head, follower, behind, left = await opened.items(4, lane="l", claim=True)
    await opened.settle(ended(head), followers=[going_on(follower, head)])

    assert await opened.settle(ended(follower, worker=B)) == [False]
    assert await opened.settle(ended(follower), ended(behind, behind=follower)) == [True, True]

    assert await opened.states(follower, behind, left) == [DONE, DONE, WAITING]
    assert await opened.history(follower) == [ended(follower).attempt]


async def test_a_follower_runs_behind_the_last_one_that_has_ended(opened: Opened) -> None:
    """They are all in one call."""
    head, done, runs, left = await opened.items(4, lane="l", claim=True)

    settled = await opened.settle(ended(head), ended(done, behind=head), followers=[going_on(runs, head)])

    assert settled == [True, True, True]
    assert await opened.states(head, done, runs, left) == [DONE, DONE, RUNNING, QUEUED]


async def test_a_worker_that_dies_of_a_follower_leaves_a_suspect(opened: Opened) -> None:
    """The claim says that it has started, and its death counts."""
    head, follower = await opened.items(2, lane="l", claim=True)
    await opened.settle(ended(head), followers=[going_on(follower, head)])

    assert await opened.queue.expire_leases_of(A, now=NOON) == 1

    assert await opened.claim(B) == []
    (item,) = await opened.claim(B, wanted=SUSPECTS)
    assert (item.id, item.attempt, item.uncounted, item.deaths) == (follower, 2, 1, 1)
    (lost,) = await opened.history(follower)
    assert (lost.number, lost.outcome, lost.error) == (1, AttemptOutcome.LOST, LOST)


async def test_the_lease_of_a_follower_is_renewed(opened: Opened) -> None:
    head, follower = await opened.items(2, lane="l", claim=True)
    await opened.settle(ended(head), followers=[going_on(follower, head)])

    await opened.queue.renew([follower], Lease(A, after_noon(DAY)))

    assert await opened.claim(B, now=DAY - MICROSECOND, wanted=SUSPECTS) == []
    assert await opened.settle(ended(follower)) == [True]


async def test_a_follower_is_given_back(opened: Opened) -> None:
    """Its attempt does not count, and it is the head of its lane."""
    head, follower, behind = await opened.items(3, lane="l", claim=True)
    await opened.settle(ended(head), followers=[going_on(follower, head)])

    await opened.queue.release_leases([follower], A, now=NOON)

    assert await opened.states(follower, behind) == [WAITING, QUEUED]
    assert await opened.untouched(follower)
    (item,) = await opened.claim(B, [WITH])
    assert (item.attempt, followers([item])) == (1, {follower: [behind]})


async def test_a_follower_that_was_lost_belongs_to_another_worker(opened: Opened) -> None:
    """The late result is refused, with those behind it."""
    head, follower, behind = await opened.items(3, lane="l", claim=True)
    await opened.settle(ended(head), followers=[going_on(follower, head)])
    await opened.claim(B, now=LEASE, wanted=SUSPECTS)

    assert await opened.settle(ended(follower), ended(behind, behind=follower)) == [False, False]

    assert await opened.states(follower, behind) == [RUNNING, QUEUED]
    assert await opened.settle(ended(follower, worker=B, number=2)) == [True]
