"""Everything else goes on when handlers hang, are slow, get too much work, or are missing."""

import asyncio
import functools
import logging
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from receiver import Router
from receiver.core.claims import ClaimLimits, HandlerClaim, Lease
from receiver.core.types import DeliveryState, HandlerName, WorkerId, WorkState
from receiver.core.work import NewWork, WorkFilter
from receiver.errors import StoreError, StoreRefused
from receiver.events import CrawlPage, Event
from receiver.worker.events import MAX_LENGTH
from tests.doubles import NOON, Busy, appended, delivery, event_of, turns
from tests.workbench import MINUTE, SECOND, Workbench, bench


async def nothing(event: Event) -> None:
    """Handle an event."""


def plain(event: Event) -> None:
    """Handle an event in a thread."""


async def running(at: Workbench) -> int:
    """Return how many work items the workers have claimed."""
    return (await at.states()).count(WorkState.RUNNING)


async def is_suspect(at: Workbench, handler: str) -> bool:
    """Tell whether the handler's work would be suspect if the worker `me` died now."""
    now = at.clock.now()
    await at.store.expire_leases_of(WorkerId("me"), now=now)
    claims = (HandlerClaim(HandlerName(handler)),)
    lease = Lease(WorkerId("other"), now + MINUTE)
    return not await at.store.claim(claims, ClaimLimits(1, 9_999), lease=lease, now=now)


async def test_a_worker_without_handlers_still_routes_deliveries(caplog: pytest.LogCaptureFixture) -> None:
    """A new user sees a handler to paste, and deliveries do not stay new."""
    caplog.set_level(logging.INFO)
    async with bench(Router()) as at:
        await at.add(delivery())

        detail = await at.store.detail(delivery().key)
        assert detail.summary.state is DeliveryState.DONE
        assert [event_of(record) for record in caplog.records] == ["event_unhandled"]


async def test_work_behind_threads_that_hang_goes_to_another_worker() -> None:
    """Work that cannot start for the time of a lease is released, and nothing more is claimed."""
    router = Router()
    router.add(plain, "*", name="plain")
    async with bench(router, started=False) as at:
        await at.start("hung", threads=Busy())
        await at.add(*[delivery(f"k{n}") for n in range(30)])
        assert await running(at) == 30

        await at.after(MINUTE + 2 * SECOND)
        assert await running(at) == 8  # as many as there are threads
        await at.start("well")
        await at.after(2 * SECOND)

        assert await running(at) == 8
        assert (await at.states()).count(WorkState.DONE) == 22


async def test_large_bodies_behind_threads_that_hang_do_not_stop_async_handlers() -> None:
    """All handlers share the limit of bytes, and released work frees its bytes."""
    router, ran = Router(), []
    router.add(plain, "*", name="plain")

    @router.on("*", name="async")
    async def note(event: Event) -> None:
        ran.append(event.webhook_id)

    async with bench(router, started=False) as at:
        await at.start("hung", threads=Busy(), max_bytes=1_500)
        await at.add(*[delivery(f"k{n:02}") for n in range(30)])
        await at.after(3 * MINUTE)

        assert len(ran) == 30


async def test_an_incomplete_batch_does_not_block_others_by_its_bytes() -> None:
    """It starts with the items that it has."""
    router, batches = Router(), []

    @router.on("*", name="batch", batch=100, linger=timedelta(minutes=10))
    async def gather(events: list[Event]) -> None:
        batches.append(len(events))

    async with bench(router, started=False) as at:
        await at.start(max_bytes=1_000)
        await at.add(*[delivery(f"k{n:02}") for n in range(30)])
        await at.after(2 * SECOND)

        assert len(batches) == 1
        assert 10 <= batches[0] < 30


async def test_items_of_an_incomplete_batch_have_not_started() -> None:
    """If the worker is killed meanwhile, they are not suspect."""
    router = Router()

    @router.on("*", name="batch", batch=100, linger=timedelta(minutes=5))
    async def gather(events: list[Event]) -> None: ...

    async with bench(router, started=False) as at:
        await appended(at.store, delivery())
        batch = await at.store.routing_batch(limit=1, max_bytes=9_999)
        new = [NewWork(1, HandlerName("batch"), claim=False)]
        await at.store.route(batch, new, lease=Lease(WorkerId("other"), NOON), now=NOON)
        await at.start()
        await at.after(2 * SECOND)

        assert await at.states() == [WorkState.RUNNING]
        assert not await is_suspect(at, "batch")


async def test_a_rate_limits_starts_and_not_claims() -> None:
    """Behind a slow handler no work collects that would start at once when it ends."""
    router, gate, begun = Router(), asyncio.Event(), 0

    @router.on("*", name="slow", concurrency=32, timeout=9_999, rate="1/s")
    async def slow(event: Event) -> None:
        nonlocal begun
        begun += 1
        await gate.wait()

    async with bench(router) as at:
        await at.add(*[delivery(f"k{n}") for n in range(60)])
        await at.after(2 * MINUTE)
        assert begun == 32
        gate.set()
        await at.after(SECOND)

        assert begun <= 32 + 2


async def test_a_retry_is_found_though_the_clock_was_moved() -> None:
    """A worker waits for a time of the wall clock, which may be moved meanwhile."""
    router, ran = Router(), []

    @router.on("*", name="h", pauses=[timedelta(hours=1)], jitter=0)
    async def fails_first(event: Event) -> None:
        ran.append(event.webhook_id)
        if len(ran) == 1:
            raise ValueError

    async with bench(router) as at:
        await at.add(delivery())
        at.clock.jump(timedelta(hours=2))
        await at.after(MINUTE)

        assert len(ran) == 2


@pytest.mark.parametrize("stopped", [False, True])
async def test_work_that_runs_while_a_worker_stops_is_not_suspect(stopped: bool) -> None:
    """A platform may kill a worker that takes long to stop, and the slow handler is not to blame for that."""
    router, gate = Router(), asyncio.Event()

    @router.on("*", name="slow", timeout=9_999)
    async def slow(event: Event) -> None:
        await gate.wait()

    async with bench(router, started=False) as at:
        await at.start()
        await at.add(delivery())
        if stopped:
            at.stop()
            await turns()
        assert await at.states() == [WorkState.RUNNING]

        assert await is_suspect(at, "slow") is not stopped
        gate.set()


async def test_a_refused_store_ends_the_worker_and_running_work_is_released() -> None:
    """The work must not look as if it had killed the worker."""
    router, gate = Router(), asyncio.Event()

    @router.on("*", name="slow", timeout=9_999)
    async def slow(event: Event) -> None:
        await gate.wait()

    async with bench(router, started=False) as at:
        task = await at.start()
        await at.add(delivery())

        async def refuse(*_: Any, **__: Any) -> Any:
            raise StoreRefused("the database is damaged")

        at.store.claim = refuse  # type: ignore[method-assign]
        await appended(at.store, delivery("k2"))
        with pytest.raises(StoreRefused):
            await task

        summary = (await at.store.work_item(1)).summary
        assert (summary.state, summary.attempts) == (WorkState.WAITING, 0)


def wrapped(function: Callable[..., Awaitable[None]]) -> Callable[..., object]:
    """A decorator that does not know of async functions."""

    @functools.wraps(function)
    def call(event: Event) -> object:
        return function(event)

    return call


async def test_a_coroutine_that_nobody_awaits_is_a_failed_attempt() -> None:
    """It would be lost and look like a success."""
    router = Router()
    router.add(wrapped(nothing), "*", name="h")
    async with bench(router) as at:
        await at.add(delivery())

        assert await at.states() == [WorkState.WAITING]
        detail = await at.store.work_item(1)
        assert "coroutine that nobody awaits" in (detail.attempts[0].error or "")


async def test_a_store_error_in_a_handler_is_always_retried() -> None:
    """Whatever the policy of the handler is."""
    router = Router()

    @router.on("*", name="h", retry_on=ConnectionError)
    async def asks(event: Event) -> None:
        raise StoreError("locked")

    async with bench(router) as at:
        await at.add(delivery())

        assert await at.states() == [WorkState.WAITING]


async def test_a_lane_that_cannot_be_read_is_the_lane_of_the_job(caplog: pytest.LogCaptureFixture) -> None:
    """For example if the key cannot be converted to text. The log says which lane it is."""

    class Odd:
        def __str__(self) -> str:
            raise ValueError("no")

    def odd(event: Event) -> Any:
        return Odd()

    router = Router()
    router.add(nothing, CrawlPage, name="h", lane=odd)
    async with bench(router) as at:
        await at.add(delivery())

        [item] = [one async for one in at.store.work_items(WorkFilter())]
        assert (item.lane, item.state) == ("job", WorkState.DONE)
        [advice] = [vars(one)["advice"] for one in caplog.records if event_of(one) == "lane_unknown"]
        assert "in the lane of its job" in advice


async def test_long_keys_of_lanes_are_told_apart_by_more_than_their_beginning() -> None:
    """Their names are short enough for the index of any store."""
    router = Router()
    router.add(nothing, CrawlPage, name="h", lane=lambda event: "x" * 9_999 + event.webhook_id)
    async with bench(router) as at:
        await at.add(delivery("a"), delivery("b"))

        lanes = [one.lane or "" async for one in at.store.work_items(WorkFilter())]
    assert [len(lane) for lane in lanes] == [MAX_LENGTH, MAX_LENGTH]
    assert lanes[0] != lanes[1]


async def test_held_items_run_when_their_handler_has_no_after_pages_any_more() -> None:
    """A deployment may have removed the option."""
    before, after, ran = Router(), Router(), []
    before.add(nothing, "crawl.completed", name="h", after_pages=timedelta(hours=1))

    @after.on("crawl.completed", name="h")
    async def note(event: Event) -> None:
        ran.append(event.webhook_id)

    async with bench(before) as at:
        await at.add(delivery(kind="crawl.completed"))
        assert await at.states() == [WorkState.HELD]
        [item] = [one async for one in at.store.work_items(WorkFilter())]
        assert (item.note or "").startswith("waits for the pages of its job, until 12:01:30 UTC")
        at.stop()
        at.router = after
        await at.start("new")
        await at.after(2 * MINUTE)

        assert ran == ["k"]


async def test_after_an_outage_the_end_of_a_job_still_comes_last() -> None:
    """It is held from its routing on: pages that arrived without a worker are still to be handled."""
    router, order = Router(), []

    @router.on("crawl.completed", name="end", after_pages=timedelta(minutes=25))
    async def end(event: Event) -> None:
        order.append("end")

    @router.on("crawl.page", name="page", pauses=[MINUTE], jitter=0)
    async def page(event: Event) -> None:
        order.append("page")
        if len(order) == 1:
            raise ValueError

    async with bench(router, started=False) as at:
        await appended(at.store, delivery("end", kind="crawl.completed"))
        await appended(at.store, delivery("page"))
        at.clock.advance(timedelta(hours=1))
        await at.start()
        await at.after(3 * MINUTE)

        assert order == ["page", "page", "end"]


async def test_work_of_a_removed_handler_is_released_from_dead_workers() -> None:
    """People can see it wait, and bury it."""
    async with bench(Router(), started=False) as at:
        await appended(at.store, delivery())
        batch = await at.store.routing_batch(limit=1, max_bytes=9_999)
        lease = Lease(WorkerId("dead"), NOON + MINUTE)
        await at.store.route(batch, [NewWork(1, HandlerName("gone"))], lease=lease, now=NOON)
        later = NOON + 2 * MINUTE
        mine = Lease(WorkerId("me"), later + MINUTE)
        claimed = await at.store.claim(
            [HandlerClaim(HandlerName("other"))], ClaimLimits(1, 9), lease=mine, now=later
        )

        assert claimed == []
        assert await at.states() == [WorkState.WAITING]
        assert await at.store.bury([1], "not ours", now=later) == 1
