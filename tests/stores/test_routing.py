"""The contract of routing: from new deliveries to work items."""

import asyncio

import pytest

from receiver.core.claims import Lease
from receiver.core.ports.queue import WorkQueue
from receiver.core.types import DeliveryKey, DeliveryState, HandlerName, HandlerSwitch, WorkerId
from receiver.core.work import Hold, NewWork
from tests.doubles import NOON, delivery, soon
from tests.stores.opened import (
    AFTER,
    HELD,
    LEASE,
    MICROSECOND,
    MUCH,
    ONE,
    QUEUED,
    RUNNING,
    SKIPPED,
    TWO,
    WAITING,
    A,
    B,
    Opened,
    ended,
)


async def test_unrouted_deliveries_come_in_the_order_of_arrival(opened: Opened) -> None:
    """At most as many come as asked for."""
    await opened.add(*[delivery(str(n)) for n in range(5)])

    batch = await opened.queue.routing_batch(limit=3, max_bytes=MUCH)

    assert [one.delivery.key for one in batch.deliveries] == ["0", "1", "2"]
    seqs = [one.seq for one in batch.deliveries]
    assert seqs == sorted(set(seqs))


@pytest.mark.parametrize(
    ("max_bytes", "count"), [(0, 1), (99, 1), (100, 1), (199, 1), (200, 2), (299, 2), (300, 3)]
)
async def test_unrouted_deliveries_fit_in_the_bytes_given(opened: Opened, max_bytes: int, count: int) -> None:
    """One delivery always comes, however long it is."""
    await opened.add(*[delivery(str(n), body=b"x" * 100) for n in range(3)])

    assert len((await opened.queue.routing_batch(limit=10, max_bytes=max_bytes)).deliveries) == count


async def test_a_long_first_body_does_not_bring_empty_ones_past_the_limit(opened: Opened) -> None:
    """Deliveries behind a body over the limit wait for the next batch."""
    await opened.add(delivery("long", body=b"x" * 100), delivery("short", body=b"x"))

    batch = await opened.queue.routing_batch(limit=10, max_bytes=50)

    assert [one.delivery.key for one in batch.deliveries] == ["long"]


async def test_nothing_unrouted_is_an_empty_batch(opened: Opened) -> None:
    """That is so before the first delivery, and when all are routed."""
    assert (await opened.queue.routing_batch(limit=10, max_bytes=MUCH)).deliveries == ()
    await opened.items(1)
    assert (await opened.queue.routing_batch(limit=10, max_bytes=MUCH)).deliveries == ()


async def test_routing_makes_claimed_work_in_the_order_given(opened: Opened) -> None:
    """The ids fit the work. The worker holds each item, and runs its first attempt."""
    await opened.add(delivery("a"), delivery("b"))
    batch = await opened.queue.routing_batch(limit=10, max_bytes=MUCH)
    work = [NewWork(one.seq, handler) for one in batch.deliveries for handler in (ONE, TWO)]

    ids = await opened.queue.route(batch, work, lease=Lease(A, AFTER), now=NOON)

    assert ids is not None
    assert len(set(ids)) == 4
    seen = [await opened.seen(work_id) for work_id in ids if work_id is not None]
    assert [(one.key, one.handler) for one in seen] == [("a", ONE), ("a", TWO), ("b", ONE), ("b", TWO)]
    assert {(one.state, one.attempts) for one in seen} == {(RUNNING, 1)}
    assert await opened.settle(*[ended(work_id or 0) for work_id in ids]) == [True] * 4


async def test_what_was_routed_is_leased_to_its_worker(opened: Opened) -> None:
    """No other worker gets it before the lease ends."""
    (work_id,) = await opened.items(1, claim=True)

    assert await opened.claimed(B, now=LEASE - MICROSECOND) == []
    assert await opened.claimed(B, now=LEASE) == [work_id]


async def test_only_what_asks_for_it_is_claimed(opened: Opened) -> None:
    """The other items wait for any worker. They are due at once, and no attempt of them has started."""
    await opened.add(delivery("a"), delivery("b"), delivery("c"))
    batch = await opened.queue.routing_batch(limit=10, max_bytes=MUCH)
    seqs = [one.seq for one in batch.deliveries]
    work = [NewWork(seqs[0], ONE, claim=False), NewWork(seqs[1], ONE), NewWork(seqs[2], ONE, claim=False)]

    ids = await opened.queue.route(batch, work, lease=Lease(A, AFTER), now=NOON)

    assert ids is not None
    assert [work_id is None for work_id in ids] == [True, False, True]
    assert [await opened.work_of("b")] == [await opened.seen(ids[1] or 0)]
    for key in "ac":
        waiting = await opened.work_of(key)
        assert (waiting.state, waiting.attempts, waiting.due_at) == (WAITING, 0, NOON)
    assert [item.source.delivery.key for item in await opened.claim(B)] == ["a", "c"]


async def test_what_is_not_claimed_for_whatever_reason_has_no_id(opened: Opened) -> None:
    """The router must not run items that are held, paused or disabled, nor what is queued behind one of those."""
    paused, disabled = HandlerName("paused"), HandlerName("disabled")
    await opened.controls.switch(paused, HandlerSwitch.PAUSED)
    await opened.controls.switch(disabled, HandlerSwitch.DISABLED)
    await opened.add(delivery())
    batch = await opened.queue.routing_batch(limit=1, max_bytes=MUCH)
    seq = batch.deliveries[0].seq
    work = [
        NewWork(seq, ONE, hold=Hold(AFTER, AFTER)),
        NewWork(seq, TWO, lane="l"),
        NewWork(seq, TWO, lane="l"),
        NewWork(seq, paused, lane="l"),
        NewWork(seq, paused, lane="l"),
        NewWork(seq, disabled),
        NewWork(seq, ONE),
    ]

    ids = await opened.queue.route(batch, work, lease=Lease(A, AFTER), now=NOON)

    assert ids is not None
    made = (await opened.reports.detail(DeliveryKey("k"))).work
    assert [one.state for one in made] == [HELD, RUNNING, QUEUED, WAITING, QUEUED, SKIPPED, RUNNING]
    assert list(ids) == [None, made[1].id, made[2].id, None, None, None, made[6].id]
    assert [one.attempts for one in made] == [0, 1, 0, 0, 0, 0, 1]


async def test_of_two_workers_one_routes(opened: Opened) -> None:
    """The call of the second one changes nothing and returns None."""
    await opened.add(delivery())
    batch = await opened.queue.routing_batch(limit=10, max_bytes=MUCH)
    work = [NewWork(batch.deliveries[0].seq, ONE)]

    first = await opened.queue.route(batch, work, lease=Lease(A, AFTER), now=NOON)
    second = await opened.other.route(batch, work, lease=Lease(B, AFTER), now=NOON)

    assert first is not None
    assert second is None
    assert len((await opened.reports.detail(DeliveryKey("k"))).work) == 1


async def test_workers_that_race_route_each_delivery_once(opened: Opened) -> None:
    """That holds however their reads and writes interleave."""
    await opened.add(*[delivery(str(n)) for n in range(30)])

    async def work(queue: WorkQueue, worker: WorkerId) -> None:
        while (batch := await queue.routing_batch(limit=2, max_bytes=MUCH)).deliveries:
            new = [NewWork(one.seq, ONE, lane="l") for one in batch.deliveries]
            await queue.route(batch, new, lease=Lease(worker, AFTER), now=NOON)

    await soon(
        asyncio.gather(*[work(queue, worker) for queue in (opened.queue, opened.other) for worker in (A, B)])
    )

    assert [one.key for one in reversed(await opened.work())] == [str(n) for n in range(30)]


async def test_a_stale_batch_routes_nothing_of_what_came_since(opened: Opened) -> None:
    """Another worker has routed a shorter batch, so the longer one read before is refused as a whole."""
    await opened.add(delivery("a"), delivery("b"))
    longer = await opened.queue.routing_batch(limit=2, max_bytes=MUCH)
    shorter = await opened.queue.routing_batch(limit=1, max_bytes=MUCH)

    assert await opened.other.route(shorter, [], lease=Lease(B, AFTER), now=NOON) is not None
    assert await opened.queue.route(longer, [NewWork(2, ONE)], lease=Lease(A, AFTER), now=NOON) is None

    left = await opened.queue.routing_batch(limit=2, max_bytes=MUCH)
    assert [one.delivery.key for one in left.deliveries] == ["b"]
    assert await opened.work() == []


async def test_routing_without_work_marks_the_batch_as_routed(opened: Opened) -> None:
    """No handler wanted these deliveries, so they are done."""
    await opened.add(delivery())

    assert await opened.route() == []
    assert [one.state for one in await opened.listed()] == [DeliveryState.DONE]


async def test_work_of_several_handlers_with_and_without_lanes_is_made_in_order(opened: Opened) -> None:
    """The ids go up in the order of the work that was given, whatever is stored together."""
    await opened.add(*[delivery(str(n)) for n in range(3)])
    batch = await opened.queue.routing_batch(limit=3, max_bytes=MUCH)
    work = [
        NewWork(one.seq, handler, lane=lane)
        for one, lane_of_two in zip(batch.deliveries, ["l", None, "l"], strict=True)
        for handler, lane in [(ONE, None), (TWO, lane_of_two)]
    ]

    ids = await opened.queue.route(batch, work, lease=Lease(A, AFTER), now=NOON)

    made = list(reversed(await opened.work()))
    assert [(one.key, one.handler, one.lane) for one in made] == [
        ("0", ONE, None),
        ("0", TWO, "l"),
        ("1", ONE, None),
        ("1", TWO, None),
        ("2", ONE, None),
        ("2", TWO, "l"),
    ]
    assert [one.state for one in made] == [*[RUNNING] * 5, QUEUED]
    assert ids is not None
    assert list(ids) == [one.id for one in made]
