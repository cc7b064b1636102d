"""The contract of held work items, and of the pages that they wait for."""

from datetime import timedelta

import pytest

from receiver.core.claims import HeldItem, JobPages, Lease
from receiver.core.types import DeliveryKey, HandlerName, Trigger, WorkState
from receiver.core.work import Hold, NewWork
from tests.doubles import NOON, delivery
from tests.stores.opened import (
    AFTER,
    DAY,
    DEAD,
    DONE,
    HELD,
    LEASE,
    MICROSECOND,
    ONE,
    QUEUED,
    RUNNING,
    SECOND,
    SKIPPED,
    TWO,
    WAITING,
    A,
    Opened,
    after_noon,
    ended,
)

PAGE, COMPLETED = "crawl.page", "crawl.completed"
THREE = HandlerName("three")


def hold(look: timedelta = SECOND, until: timedelta = LEASE) -> Hold:
    """Hold until the first check, this long after noon."""
    return Hold(after_noon(look), after_noon(until))


async def held_ids(opened: Opened, *handlers: HandlerName, now: timedelta = DAY, limit: int = 99) -> list[int]:
    """Return the ids of the items that are due for a check."""
    return [one.id for one in await opened.queue.held(handlers or (ONE,), now=after_noon(now), limit=limit)]


# --- Held items


async def test_a_held_item_is_not_run(opened: Opened) -> None:
    """Only a check releases it, however long it waits. Readers see when and why."""
    (work_id,) = await opened.items(1, claim=True, hold=hold())

    assert await opened.claim(now=DAY) == []

    seen = await opened.seen(work_id)
    assert (seen.state, seen.attempts, seen.due_at, seen.note) == (HELD, 0, NOON + SECOND, None)


async def test_a_held_item_is_checked_when_it_is_due(opened: Opened) -> None:
    """The result has all that the decision needs."""
    await opened.add(delivery("k", kind=COMPLETED, job_id="j", received_at=NOON - SECOND))
    (work_id,) = await opened.route(ONE, hold=hold(SECOND, LEASE))

    assert await held_ids(opened, now=SECOND - MICROSECOND) == []
    assert list(await opened.queue.held([ONE], now=NOON + SECOND, limit=9)) == [
        HeldItem(work_id, ONE, COMPLETED, "j", NOON - SECOND, AFTER)
    ]


async def test_the_longest_due_is_checked_first(opened: Opened) -> None:
    """The limit counts all handlers together, so that no item waits behind another handler's for ever."""
    late, early, third = [
        (await opened.items(1, handler, hold=hold(SECOND * look)))[0]
        for handler, look in ((ONE, 3), (TWO, 1), (ONE, 2))
    ]

    assert await held_ids(opened, ONE, TWO) == [early, third, late]
    assert await held_ids(opened, ONE, TWO, limit=2) == [early, third]
    assert await held_ids(opened, TWO, ONE, limit=1) == [early]


async def test_only_items_of_the_handlers_named_are_checked(opened: Opened) -> None:
    """A worker with other handlers does not know what these items wait for."""
    (work_id,) = await opened.items(1, hold=hold())

    assert await held_ids(opened, TWO) == []
    assert await opened.queue.held([], now=after_noon(DAY), limit=9) == []
    assert await held_ids(opened, TWO, ONE) == [work_id]


@pytest.mark.parametrize("state", [WAITING, QUEUED, RUNNING, DONE, DEAD, SKIPPED])
async def test_only_held_items_are_checked(opened: Opened, state: WorkState) -> None:
    """A recheck or a release changes no other item."""
    work_id = await opened.in_state(state, lane="l")
    before = await opened.reports.work_item(work_id)

    assert await held_ids(opened) == []
    await opened.queue.recheck(work_id, at=after_noon(DAY), note="x")
    await opened.queue.release(work_id, now=after_noon(DAY), note="x")

    assert await opened.reports.work_item(work_id) == before


async def test_a_recheck_keeps_the_item_until_then(opened: Opened) -> None:
    """Its note says what it waits for. The latest moment of its release stays."""
    (work_id,) = await opened.items(1, hold=hold(SECOND, LEASE))

    await opened.queue.recheck(work_id, at=after_noon(SECOND * 9), note="waits for a page")

    seen = await opened.seen(work_id)
    assert (seen.state, seen.due_at, seen.note) == (HELD, after_noon(SECOND * 9), "waits for a page")
    assert await held_ids(opened, now=SECOND * 9 - MICROSECOND) == []
    (item,) = await opened.queue.held([ONE], now=after_noon(SECOND * 9), limit=9)
    assert item.until == AFTER


async def test_a_released_item_is_due(opened: Opened) -> None:
    """It runs for its delivery like a new one, and its note says what it waited for."""
    (work_id,) = await opened.items(1, hold=hold())

    await opened.queue.release(work_id, now=after_noon(SECOND * 2), note="every page is handled")

    seen = await opened.seen(work_id)
    assert (seen.state, seen.due_at) == (WAITING, after_noon(SECOND * 2))
    assert await held_ids(opened) == []
    (item,) = await opened.claim(now=SECOND * 2)
    assert (item.id, item.attempt) == (work_id, 1)
    await opened.settle(ended(work_id))
    assert (await opened.seen(work_id)).note == "every page is handled"


async def test_unknown_ids_change_nothing(opened: Opened) -> None:
    """No item has these ids."""
    (work_id,) = await opened.items(1, hold=hold())

    for unknown in (0, -1, 12_345):
        await opened.queue.recheck(unknown, at=after_noon(DAY), note="x")
        await opened.queue.release(unknown, now=NOON, note="x")

    assert await opened.states(work_id) == [HELD]


async def test_what_is_held_is_something_to_wait_for(opened: Opened) -> None:
    """The worker wakes for the next check."""
    await opened.items(1, hold=hold(SECOND * 7))

    assert await opened.next_due(ONE) == SECOND * 7


# --- Held items in lanes


async def test_a_held_item_does_not_hold_its_lane(opened: Opened) -> None:
    """The pages that it waits for may come behind it in the same lane. Here they are in one batch with it."""
    await opened.add(delivery("completed", kind=COMPLETED), delivery("page-1"), delivery("page-2"))
    batch = await opened.queue.routing_batch(limit=9, max_bytes=999_999)
    holds = (hold(), None, None)
    work = [
        NewWork(one.seq, ONE, False, False, "l", wait) for one, wait in zip(batch.deliveries, holds, strict=True)
    ]

    await opened.queue.route(batch, work, lease=Lease(A, AFTER), now=NOON)

    assert [one.state for one in reversed(await opened.work())] == [HELD, WAITING, QUEUED]
    for key in ("page-1", "page-2"):
        (item,) = await opened.claim(now=SECOND)
        assert item.source.delivery.key == key
        await opened.settle(ended(item.id))


async def test_a_held_item_does_not_hold_its_lane_in_the_next_batch(opened: Opened) -> None:
    """Here the pages come in the next batch."""
    (held,) = await opened.items(1, lane="l", hold=hold())
    page, behind = await opened.items(2, lane="l", claim=True)

    assert await opened.states(held, page, behind) == [HELD, RUNNING, QUEUED]


async def test_a_released_item_takes_its_turn_in_a_busy_lane(opened: Opened) -> None:
    """It never runs beside another item. It is the first in the queue, as it arrived first."""
    (held,) = await opened.items(1, lane="l", hold=hold())
    running, queued = await opened.items(2, lane="l", claim=True)

    await opened.queue.release(held, now=NOON, note="x")

    assert await opened.states(held, running, queued) == [QUEUED, RUNNING, QUEUED]
    await opened.settle(ended(running))
    assert await opened.states(held, running, queued) == [WAITING, DONE, QUEUED]


async def test_a_released_item_heads_an_idle_lane(opened: Opened) -> None:
    """It is due at once, and the next one is queued behind it."""
    (held,) = await opened.items(1, lane="l", hold=hold())

    await opened.queue.release(held, now=after_noon(SECOND), note="x")
    (behind,) = await opened.items(1, lane="l", claim=True)

    assert await opened.states(held, behind) == [WAITING, QUEUED]
    assert (await opened.seen(held)).due_at == after_noon(SECOND)
    assert await opened.claimed(now=SECOND) == [held]


async def test_a_released_item_waits_behind_a_dead_one_that_holds_the_lane(opened: Opened) -> None:
    """It waits until an operator decides."""
    (held,) = await opened.items(1, lane="l", hold=hold())
    (dead,) = await opened.items(1, lane="l", claim=True)
    await opened.settle(ended(dead, DEAD, error="x", holds_lane=True))

    await opened.queue.release(held, now=NOON, note="x")
    assert await opened.states(held) == [QUEUED]

    await opened.controls.bury([dead], "seen", now=NOON)
    assert await opened.states(held) == [WAITING]


async def test_a_held_item_that_is_retried_takes_its_turn_too(opened: Opened) -> None:
    """A retry does not change the order of the lane."""
    (held,) = await opened.items(1, lane="l", hold=hold())
    (running,) = await opened.items(1, lane="l", claim=True)

    assert await opened.controls.retry([held], now=NOON) == 1
    assert await opened.states(held) == [QUEUED]

    await opened.settle(ended(running))
    assert await opened.states(held) == [WAITING]


# --- Pages


async def pages(opened: Opened, *handlers: HandlerName, job_id: str = "job") -> JobPages:
    """Return what is known of the pages of a job."""
    return await opened.queue.pages(job_id, page_type=PAGE, handlers=handlers or (ONE,))


async def test_a_job_without_pages_has_none(opened: Opened) -> None:
    """Its other events are no pages, and pages of other jobs do not count."""
    await opened.add(delivery("a", kind="crawl.started"), delivery("b", kind="batch_scrape.page"))
    await opened.add(delivery("c", job_id="other"), delivery("d", job_id=None))

    assert await pages(opened) == JobPages(None, None)


async def test_an_unrouted_page_is_open(opened: Opened) -> None:
    """Nobody knows yet which handlers want it, so it is open for all of them."""
    await opened.items(1, claim=True)
    await opened.settle(*[ended(one.id) for one in await opened.work()])
    await opened.add(delivery("new", received_at=NOON + SECOND))

    assert await pages(opened) == JobPages(NOON + SECOND, DeliveryKey("new"))
    assert (await pages(opened, TWO)).open_key == "new"
    assert (await opened.queue.pages("job", page_type=PAGE, handlers=())).open_key == "new"


async def test_a_page_that_waits_for_later_is_handled(opened: Opened) -> None:
    """The end of a job does not wait for what its handlers do hours after it."""
    await opened.add(delivery())
    batch = await opened.queue.routing_batch(limit=1, max_bytes=1)
    work = NewWork(batch.deliveries[0].seq, ONE, claim=False, trigger=Trigger.LATER)
    await opened.queue.route(batch, [work], lease=Lease(A, after_noon(LEASE)), now=NOON)

    assert [one.state for one in await opened.work()] == [WAITING]
    assert await pages(opened) == JobPages(NOON, None)


async def test_a_page_that_no_handler_wants_is_handled(opened: Opened) -> None:
    """It is handled as soon as it is routed."""
    await opened.add(delivery())
    await opened.route()

    assert await pages(opened) == JobPages(NOON, None)


@pytest.mark.parametrize(
    ("state", "open_"),
    [
        (WAITING, True),
        (QUEUED, True),
        (HELD, True),
        (RUNNING, True),
        (DONE, False),
        (DEAD, False),
        (SKIPPED, False),
    ],
)
async def test_a_page_is_open_while_its_work_is(opened: Opened, state: WorkState, open_: bool) -> None:
    """Nothing waits for dead or skipped work."""
    await opened.add(delivery("ahead", job_id="other"))
    await opened.route(ONE, lane="l")
    if state is QUEUED:
        (work_id,) = await opened.items(1, lane="l")
    else:
        work_id = await opened.in_state(state)

    seen = await opened.seen(work_id)
    assert seen.state is state
    assert await pages(opened) == JobPages(NOON, seen.key if open_ else None)


async def test_only_the_handlers_named_are_waited_for(opened: Opened) -> None:
    """A terminal event does not wait for another handler that is slow, paused or failing."""
    await opened.items(1, TWO, claim=True)

    assert (await pages(opened, ONE)).open_key is None
    assert (await pages(opened, THREE, ONE)).open_key is None
    assert (await pages(opened, ONE, TWO)).open_key == "item-0"


@pytest.mark.parametrize("position", [0, 17, 29])
async def test_one_open_page_among_many_is_found(opened: Opened, position: int) -> None:
    """It is found at any place."""
    ids = await opened.items(30, claim=True)
    await opened.settle(*[ended(one) for one in ids if one != ids[position]])

    assert (await pages(opened)).open_key == f"item-{position}"

    await opened.settle(ended(ids[position]))
    assert (await pages(opened)).open_key is None


async def test_the_last_page_is_the_last_to_arrive(opened: Opened) -> None:
    """The order is that of arrival, also if the clock was set back in between."""
    await opened.add(delivery("a", received_at=NOON + SECOND))
    assert (await pages(opened)).last_at == NOON + SECOND

    await opened.add(delivery("b", received_at=NOON))
    await opened.add(delivery("c", kind=COMPLETED, received_at=NOON + DAY))

    assert (await pages(opened)).last_at == NOON


async def test_the_pages_of_a_job_are_of_one_type(opened: Opened) -> None:
    """The same job id in another family is another job."""
    await opened.add(delivery("a", kind="batch_scrape.page"))
    await opened.route(ONE)

    assert await pages(opened) == JobPages(None, None)
    known = await opened.queue.pages("job", page_type="batch_scrape.page", handlers=[ONE])
    assert known == JobPages(NOON, DeliveryKey("a"))
