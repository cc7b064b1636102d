"""The contract of lanes: items run one after the other, in the order of arrival, beside other lanes."""

import asyncio
import random
from typing import NamedTuple

import pytest

from receiver.core.claims import ClaimLimits, FollowerClaim, HandlerClaim, Lease, WorkItem
from receiver.core.ports.queue import WorkQueue
from receiver.core.types import WorkerId, WorkState
from receiver.core.work import NewWork
from tests.doubles import NOON, delivery, soon
from tests.stores.opened import (
    AFTER,
    DEAD,
    DONE,
    LEASE,
    MICROSECOND,
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


async def drained(opened: Opened) -> list[int]:
    """Claim and finish items until nothing is left, and return the ids in the order of their runs."""
    order: list[int] = []
    while items := await opened.claim(now=LEASE * 9, claimants=(ONE, TWO)):
        order += [item.id for item in items]
        assert await opened.settle(*[ended(item.id, number=item.attempt) for item in items]) == [True] * len(items)
    return order


# --- Making


@pytest.mark.parametrize(("claim", "first"), [(True, RUNNING), (False, WAITING)])
async def test_of_several_in_one_batch_the_first_heads_the_lane(
    opened: Opened, claim: bool, first: WorkState
) -> None:
    """The others are queued behind it, although they asked to be claimed."""
    ids = await opened.items(4, lane="l", claim=claim)

    assert await opened.states(*ids) == [first, QUEUED, QUEUED, QUEUED]
    assert [(await opened.seen(one)).attempts for one in ids[1:]] == [0] * 3
    assert {(await opened.seen(one)).lane for one in ids} == {"l"}
    assert await opened.claimed(B) == ([] if claim else ids[:1])


async def test_lanes_in_one_batch_are_apart(opened: Opened) -> None:
    """Each lane has its own head with its followers, and an item without a lane waits for none."""
    await opened.add(*[delivery(str(n)) for n in range(6)])
    batch = await opened.queue.routing_batch(limit=6, max_bytes=MUCH)
    lanes = ["a", "b", None, "a", "b", None]
    work = [NewWork(one.seq, ONE, lane=lane) for one, lane in zip(batch.deliveries, lanes, strict=True)]

    ids = await opened.queue.route(batch, work, lease=Lease(A, AFTER), now=NOON)

    made = list(reversed(await opened.work()))
    assert [one.state for one in made] == [RUNNING, RUNNING, RUNNING, QUEUED, QUEUED, RUNNING]
    assert list(ids or ()) == [one.id for one in made]


async def test_a_lane_goes_on_in_the_next_batch(opened: Opened) -> None:
    """Later items are queued behind the head, whatever its state."""
    (first,) = await opened.items(1, lane="l", claim=True)
    (second,) = await opened.items(1, lane="l", claim=True)
    await opened.settle(ended(first, WAITING, error="x", due=LEASE))
    (third,) = await opened.items(1, lane="l", claim=True)

    assert await opened.states(first, second, third) == [WAITING, QUEUED, QUEUED]


async def test_an_idle_lane_is_free(opened: Opened) -> None:
    """All earlier items are done or dead."""
    done, dead = await opened.items(2, lane="l", claim=True)
    await opened.settle(ended(done))
    await opened.claim(now=SECOND)
    await opened.settle(ended(dead, DEAD, error="x"))

    (next_one,) = await opened.items(1, lane="l", claim=True)

    assert await opened.states(next_one) == [RUNNING]


async def test_handlers_do_not_share_lanes(opened: Opened) -> None:
    """The same key of another handler is another lane."""
    one = await opened.items(2, ONE, lane="l", claim=True)
    two = await opened.items(2, TWO, lane="l", claim=True)
    assert await opened.states(*one, *two) == [RUNNING, QUEUED, RUNNING, QUEUED]

    await opened.settle(ended(two[0]))

    assert await opened.states(*one, *two) == [RUNNING, QUEUED, DONE, WAITING]


@pytest.mark.parametrize("keys", [("1", "1.0", "01", "true", "null", ""), ('"', "'", "é", "e\u0301", "🚲", "$[0]")])
async def test_any_text_is_a_lane(opened: Opened, keys: tuple[str, ...]) -> None:
    """Different texts are different lanes."""
    ids = [(await opened.items(1, lane=key, claim=True))[0] for key in keys]
    behind = [(await opened.items(1, lane=key, claim=True))[0] for key in keys]

    assert await opened.states(*ids) == [RUNNING] * len(keys)
    assert await opened.states(*behind) == [QUEUED] * len(keys)
    assert [(await opened.seen(work_id)).lane for work_id in ids] == list(keys)
    await opened.settle(*[ended(work_id) for work_id in ids])
    assert await opened.states(*behind) == [WAITING] * len(keys)


# --- Running


async def test_a_lane_runs_in_the_order_of_arrival(opened: Opened) -> None:
    """One item runs at a time, however many a claim would take."""
    ids = await opened.items(3, lane="l") + await opened.items(3, lane="l")

    assert await drained(opened) == ids


async def test_the_next_one_is_due_when_the_one_before_ends(opened: Opened) -> None:
    """It is due at that moment and not before."""
    first, second = await opened.items(2, lane="l", claim=True)
    assert await opened.claimed(B, now=LEASE - MICROSECOND) == []

    await opened.settle(ended(first, at=SECOND * 5))

    seen = await opened.seen(second)
    assert (seen.state, seen.due_at) == (WAITING, after_noon(SECOND * 5))
    assert await opened.claimed(B, now=SECOND * 5) == [second]


async def test_many_lanes_go_on_with_one_batch_of_results(opened: Opened) -> None:
    """Each lane gets its own next item, and only lanes whose result counts move."""
    lanes = [await opened.items(2, lane=key, claim=True) for key in "abc"]
    (a, a2), (b, b2), (c, c2) = lanes

    await opened.settle(ended(a), ended(b, worker=B), ended(c, DEAD, error="x"))

    assert await opened.states(a2, b2, c2) == [WAITING, QUEUED, WAITING]


async def test_an_item_that_waits_for_its_retry_holds_its_lane(opened: Opened) -> None:
    """It stays the first, however long it waits."""
    ids = await opened.items(3, lane="l", claim=True)
    await opened.settle(ended(ids[0], WAITING, error="x", due=LEASE * 5))

    assert await opened.states(*ids) == [WAITING, QUEUED, QUEUED]
    assert await opened.claimed(now=LEASE * 5 - MICROSECOND) == []
    assert await drained(opened) == ids


async def test_a_dead_one_releases_its_lane(opened: Opened) -> None:
    """The next one is due at once."""
    first, second = await opened.items(2, lane="l", claim=True)

    await opened.settle(ended(first, DEAD, error="x"))

    assert await opened.states(first, second) == [DEAD, WAITING]
    assert not (await opened.seen(first)).holds_lane


async def test_a_dead_one_that_holds_its_lane_stops_it(opened: Opened) -> None:
    """Queued and new items of the lane wait. Other lanes go on."""
    first, second = await opened.items(2, lane="l", claim=True)
    other, behind = await opened.items(2, lane="other", claim=True)

    await opened.settle(ended(first, DEAD, error="x", holds_lane=True), ended(other))
    (third,) = await opened.items(1, lane="l", claim=True)

    assert await opened.states(first, second, third) == [DEAD, QUEUED, QUEUED]
    assert [(await opened.seen(one)).holds_lane for one in (first, second, third)] == [True, False, False]
    assert await drained(opened) == [behind]
    assert await opened.states(first, second, third) == [DEAD, QUEUED, QUEUED]


@pytest.mark.parametrize("state", [DONE, WAITING])
async def test_only_a_dead_one_stops_its_lane(opened: Opened, state: WorkState) -> None:
    """The flag to hold the lane means nothing for an item that is done or waits for its retry."""
    ids = await opened.items(3, lane="l", claim=True)

    await opened.settle(ended(ids[0], state, holds_lane=True))

    left = ids if state is WAITING else ids[1:]
    assert await drained(opened) == left


async def test_a_dead_one_without_a_lane_holds_nothing(opened: Opened) -> None:
    """Perhaps its handler had lanes before, or the event has no key."""
    first, second = await opened.items(2, claim=True)

    await opened.settle(ended(first, DEAD, error="x", holds_lane=True))

    assert await opened.settle(ended(second)) == [True]
    assert await opened.controls.bury([first], "seen", now=NOON) == 0


# --- Giving back and losing


async def test_a_head_that_is_returned_stays_the_head(opened: Opened) -> None:
    """No item overtakes it."""
    ids = await opened.items(3, lane="l", claim=True)

    await opened.queue.release_leases(ids[:1], A, now=NOON)

    assert await opened.states(*ids) == [WAITING, QUEUED, QUEUED]
    assert await drained(opened) == ids


async def test_a_head_whose_worker_died_stays_the_head(opened: Opened) -> None:
    """The next worker runs it again before the items behind it."""
    ids = await opened.items(3, lane="l", claim=True)

    assert await opened.claimed(B, now=LEASE) == ids[:1]

    assert await opened.states(*ids) == [RUNNING, QUEUED, QUEUED]


async def test_a_head_that_was_lost_but_not_claimed_stays_the_head(opened: Opened) -> None:
    """Its lane stands still until it has run."""
    (other,) = await opened.items(1, TWO)
    ids = await opened.items(2, lane="l", claim=True)

    assert await opened.claimed(B, (TWO, ONE), now=LEASE, wanted=ClaimLimits(1, MUCH)) == [other]

    assert await opened.states(*ids) == [WAITING, QUEUED]
    await opened.settle(ended(other, worker=B))
    assert await drained(opened) == ids


async def test_a_late_result_does_not_move_the_lane(opened: Opened) -> None:
    """The item runs again, and the item behind it still waits for that."""
    first, second = await opened.items(2, lane="l", claim=True)
    await opened.claim(B, now=LEASE)

    await opened.settle(ended(first, number=1))
    assert await opened.states(first, second) == [RUNNING, QUEUED]

    await opened.settle(ended(first, worker=B, number=2))
    assert await opened.states(first, second) == [DONE, WAITING]


# --- Races


@pytest.mark.parametrize("seed", range(5))
async def test_workers_that_race_keep_every_lane_in_order(opened: Opened, seed: int) -> None:
    """Two connections route, claim, fail, return and settle in any order, some of them as followers."""
    rng = random.Random(seed)
    await opened.add(*[delivery(str(n)) for n in range(60)])
    runs: dict[str, list[int]] = {}
    now: set[str] = set()

    async def run(queue: WorkQueue, worker: WorkerId, items: list[Ready]) -> list[Ready]:
        """Run an item and some of its followers; return the followers that run next."""
        count = rng.randint(1, len(items))
        head, lane = items[0], items[0].lane
        assert lane not in now, "two of one lane run at one time"
        now.add(lane)
        await asyncio.sleep(0)
        now.remove(lane)
        deed = rng.choice(["done", "done", "dead", "again", "back"])
        if deed == "back":
            await queue.release_leases([head.id], worker, now=NOON)
            return []
        states = [DONE] * (count - 1) + [{"done": DONE, "dead": DEAD, "again": WAITING}[deed]]
        runs.setdefault(lane, []).extend(one.seq for one, state in zip(items, states) if state is not WAITING)  # noqa: B905
        ends = [
            ended(one.id, state, worker=worker, number=one.number, at=MICROSECOND * 0, behind=behind)
            for one, state, behind in zip(items, states, [None, *[head.id] * (count - 1)])  # noqa: B905
        ]
        next_ones = items[count:] if deed == "done" and rng.random() < 0.5 else []
        claims = [FollowerClaim(one.id, head.id, Lease(worker, AFTER)) for one in next_ones[:1]]
        assert list(await queue.settle(ends, claims)) == [True] * (len(ends) + len(claims))
        return next_ones

    async def work(queue: WorkQueue, worker: WorkerId) -> None:
        lease = Lease(worker, AFTER)
        for _ in range(1_000):
            held: list[list[Ready]] = []
            batch = await queue.routing_batch(limit=rng.randint(1, 9), max_bytes=MUCH)
            if batch.deliveries:
                new = [NewWork(one.seq, ONE, lane=f"lane-{one.seq % 4}") for one in batch.deliveries]
                made = await queue.route(batch, new, lease=lease, now=NOON) or []
                ours = [Ready(work_id, f"{one.lane}", one.seq, 1) for work_id, one in zip(made, new) if work_id]  # noqa: B905 - none if another was first
                held += [
                    [one for one in ours if one.lane == lane] for lane in dict.fromkeys(one.lane for one in ours)
                ]
            claimant = HandlerClaim(ONE, followers=rng.random() < 0.5)
            items = await queue.claim([claimant], ClaimLimits(rng.randint(1, 9), MUCH), lease=lease, now=NOON)
            held += [[ready(one) for one in (item, *item.followers)] for item in items]
            while held:
                items_left = await run(queue, worker, held.pop(rng.randrange(len(held))))
                held += [items_left] if items_left else []
            if not await opened.reports.count_unfinished():
                return

    await soon(asyncio.gather(work(opened.queue, A), work(opened.other, B), work(opened.other, WorkerId("c"))))

    assert runs == {f"lane-{n}": [seq for seq in range(1, 61) if seq % 4 == n] for n in range(4)}


class Ready(NamedTuple):
    """An item that a worker may run."""

    id: int
    lane: str
    seq: int
    number: int


def ready(item: WorkItem) -> Ready:
    """Return a claimed item."""
    return Ready(item.id, f"lane-{item.source.seq % 4}", item.source.seq, item.attempt)
