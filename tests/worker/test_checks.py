"""How often, and when, a worker checks a store that reports no change of its own."""

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest

from receiver import Context, Router
from receiver.core.claims import Lease
from receiver.core.types import HandlerName, WorkerId, WorkState
from receiver.core.work import NewWork
from receiver.events import Event
from tests.doubles import NOON, appended, body_of, delivery, turns
from tests.workbench import bench
from tests.worker.changed_store import (
    PAUSE,
    ChangedStore,
    at_changed_store,
    at_the_gate,
    check_retry_in_time,
    handle,
    handle_many,
)


async def test_a_worker_checks_once_more_a_moment_after_deliveries_and_not_for_its_results() -> None:
    """Meanwhile others may come, which it takes together."""
    router = Router()
    router.add(handle, "*", name="h")
    async with at_changed_store(router) as (at, store):
        before = store.checks

        await at.add(delivery("a"))

        assert await at.states() == [WorkState.DONE]
        assert store.checks == before + 1
        await at.after(PAUSE)
        assert store.checks == before + 2
        await at.after(timedelta(minutes=10))
        assert store.checks == before + 3  # for the check of each second, which was not due before


@pytest.mark.parametrize(
    ("count", "options"),
    [
        (20, {"ordered": True}),
        (20, {"concurrency": 1}),
        (20, {"rate": "100/s"}),
        (200, {"batch": 2, "linger": 0.01}),
        (20, {"ordered": True, "concurrency": 1}),
        (600, {}),  # more than a worker claims at one time
    ],
    ids=["lane", "concurrency", "rate", "batches", "lane and concurrency", "no limit"],
)
async def test_what_waits_for_results_follows_them(count: int, options: dict[str, Any]) -> None:
    """Although nobody else changes anything."""
    router = Router()
    router.add((lambda events: None) if "batch" in options else handle, "*", name="h", **options)
    router.add(handle, "*", name="other")
    async with at_changed_store(router) as (at, _):
        await at.add(*[delivery(f"k{number}") for number in range(count)])
        for _ in range(50):
            await at.after(PAUSE)

        assert await at.states("h") == await at.states("other") == [WorkState.DONE] * count


@pytest.mark.parametrize(
    ("count", "options"),
    [(3, {"ordered": True}), (3, {"concurrency": 1}), (200, {})],
    ids=["lane", "concurrency", "no limit"],
)
async def test_what_waits_for_a_slow_handler_follows_it_at_once(count: int, options: dict[str, Any]) -> None:
    """Long after the last check."""
    gate, handler = at_the_gate()
    router = Router()
    router.add(handler, "*", name="h", **options)
    async with at_changed_store(router) as (at, _):
        await at.add(*[delivery(f"k{number}") for number in range(count)])
        await at.after(timedelta(seconds=5))

        gate.set()
        await turns(1_000)

        assert await at.states() == [WorkState.DONE] * count


async def test_the_retry_of_a_slow_handler_comes_when_it_is_due() -> None:
    """The worker asks again when the next work is due, since the result has changed that."""
    gate, handler = at_the_gate(fails=True)
    router = Router()
    router.add(handler, "*", name="h", pauses=[1], jitter=0)
    async with at_changed_store(router) as (at, _):
        await at.add(delivery("a"))
        await at.after(timedelta(seconds=5))
        gate.set()
        await turns()
        assert await at.states() == [WorkState.WAITING]

        await at.after(timedelta(seconds=1))

        assert await at.states() == [WorkState.DONE]


async def test_a_retry_is_not_late_while_other_results_are_recorded() -> None:
    """Where some handler has a lane, a worker waits for results first, and they may be those of another handler."""
    gate, plain = at_the_gate()
    opened, flaky = at_the_gate(fails=True)
    opened.set()
    router = Router()
    router.add(plain, "*", name="plain")
    router.add(flaky, "*", name="flaky", pauses=[0.3], jitter=0)
    router.add(handle, "no.such", name="lane", ordered=True)
    async with at_changed_store(router) as (at, store):
        await at.add(delivery("a"))
        store.records.clear()
        gate.set()
        await turns()
        store.change()
        await turns()

        store.records.set()
        await at.after(timedelta(seconds=0.3))

        assert await at.states("flaky") == [WorkState.DONE]


async def test_what_becomes_due_behind_a_claim_follows_at_once() -> None:
    """It is due when the worker asks what comes next."""
    opened, flaky = at_the_gate(fails=True)
    opened.set()
    router = Router()
    router.add(flaky, "*", name="h", pauses=[1.5], jitter=0)
    async with at_changed_store(router) as (at, store):
        await at.add(delivery("a"))
        await at.after(timedelta(seconds=1.4))
        store.behind_claim = lambda: at.clock.advance(timedelta(seconds=0.2))
        store.change()
        await turns()
        assert await at.states() == [WorkState.WAITING]

        await at.after(PAUSE)

        assert await at.states() == [WorkState.DONE]


@pytest.mark.parametrize("seconds", [60.5, 70, 100])
async def test_a_delivery_that_finds_no_free_slot_starts_when_there_is_one(seconds: float) -> None:
    """Also where all slots were taken for so long that the worker claims nothing more."""
    gates: list[asyncio.Event] = []

    async def handler(event: Event) -> None:
        gates.append(asyncio.Event())
        await gates[-1].wait()

    router = Router()
    router.add(handler, "*", name="h", timeout=3_600)
    async with at_changed_store(router) as (at, _):
        await at.add(*[delivery(f"k{number}") for number in range(31)])
        await at.after(timedelta(seconds=3))
        await at.add(delivery("k31"))
        await at.after(timedelta(seconds=seconds))
        await at.add(delivery("late"))
        assert len(gates) == 32

        gates[0].set()
        await turns(500)

        assert len(gates) == 33


async def test_deliveries_that_do_not_fit_beside_a_large_one_follow_each_other() -> None:
    """The check took as many bytes as it could, and not all that had come."""
    gate, slow = at_the_gate()
    router = Router()
    router.add(slow, "slow", name="slow")
    router.add(handle, "crawl.page", name="quick")
    large = body_of("slow", data="x" * 9_000)
    async with at_changed_store(router, max_bytes=10_000) as (at, _):
        await at.add(delivery("large", kind="slow", body=large))
        await at.after(timedelta(seconds=2))

        await at.add(*[delivery(f"k{number}") for number in range(100)])
        await turns(5_000)

        assert await at.states("quick") == [WorkState.DONE] * 100
        gate.set()


async def test_a_later_call_comes_when_it_is_due() -> None:
    """The success that asked for it says that there is more work."""
    router = Router()

    @router.later("*")
    def afterwards(event: Event) -> None: ...

    @router.on("*")
    def first(event: Event, ctx: Context) -> None:
        ctx.later(afterwards, event, after=timedelta(minutes=1))

    async with at_changed_store(router) as (at, _):
        await at.add(delivery("a"))
        assert await at.states() == [WorkState.DONE, WorkState.WAITING]

        await at.after(timedelta(minutes=1))

        assert await at.states() == [WorkState.DONE, WorkState.DONE]


LIMITS = [{"concurrency": 2}, {"concurrency": 2, "rate": "100/s"}]


@pytest.mark.parametrize("options", LIMITS, ids=["concurrency", "concurrency and rate"])
async def test_a_worker_that_uses_up_a_limit_does_not_look_to_claim_what_it_has_routed(
    options: dict[str, Any],
) -> None:
    """The new item has to wait for a result of this worker. It checks as often as for a handler without limits."""
    gate, handler = at_the_gate()
    router = Router()
    router.add(handler, "*", name="h", timeout=3_600, **options)
    async with at_changed_store(router) as (at, store):
        await at.add(delivery("a"), delivery("b"))
        await at.after(timedelta(seconds=5))
        before = store.checks

        await at.add(delivery("c"))

        assert store.checks == before + 1
        await at.after(PAUSE)
        assert store.checks == before + 2
        gate.set()
        await turns(1_000)
        assert await at.states() == [WorkState.DONE] * 3


async def test_a_worker_that_uses_up_a_limit_looks_each_second_nevertheless() -> None:
    """What it has claimed may be taken away from it, and then no result makes it check."""
    gate, handler = at_the_gate()
    router = Router()
    router.add(handler, "*", name="h", timeout=3_600, concurrency=1)
    async with at_changed_store(router) as (at, store):
        await at.add(delivery("a"), delivery("b"))
        await at.after(timedelta(seconds=5))
        before = store.checks

        await at.after(timedelta(seconds=10))

        assert store.checks == before + 10
        gate.set()


@pytest.mark.parametrize("options", LIMITS, ids=["concurrency", "concurrency and rate"])
async def test_what_waits_for_a_limit_does_not_delay_other_handlers(options: dict[str, Any]) -> None:
    """Neither a delivery nor a retry."""
    gate, handler = at_the_gate()
    opened, flaky = at_the_gate(fails=True)
    opened.set()
    router = Router()
    router.add(handler, "*", name="h", timeout=3_600, **options)
    router.add(flaky, "crawl.started", name="flaky", pauses=[0.3], jitter=0)
    async with at_changed_store(router) as (at, _):
        await at.add(*[delivery(f"k{number}") for number in range(5)])
        await at.after(timedelta(seconds=5))

        await check_retry_in_time(at)
        gate.set()


@pytest.mark.parametrize("options", LIMITS, ids=["concurrency", "concurrency and rate"])
async def test_what_waits_for_a_limit_follows_the_first_result(options: dict[str, Any]) -> None:
    """At once, whatever else is recorded meanwhile."""
    gates: list[asyncio.Event] = []

    async def handler(event: Event) -> None:
        gates.append(asyncio.Event())
        await gates[-1].wait()

    router = Router()
    router.add(handler, "crawl.page", name="h", timeout=3_600, **options)
    router.add(handle, "crawl.started", name="other")
    async with at_changed_store(router) as (at, _):
        await at.add(*[delivery(f"k{number}") for number in range(5)])
        await at.after(timedelta(seconds=5))
        await at.add(delivery("other", kind="crawl.started"))
        await at.after(PAUSE)
        assert len(gates) == 2

        gates[0].set()
        await turns(500)

        assert len(gates) == 3


OTHER = WorkerId("other")


@pytest.mark.parametrize("names", ["flaky batch", "batch flaky"])
async def test_a_retry_that_becomes_due_between_two_claims_runs_soon(names: str) -> None:
    """Handlers with batches have a claim of their own, whichever of the two comes first."""
    opened, flaky = at_the_gate(fails=True)
    opened.set()
    router = Router()
    for name in names.split():
        if name == "flaky":
            router.add(flaky, "crawl.started", name="flaky", pauses=[0.3], jitter=0)
        else:
            router.add(handle_many, "crawl.page", name="batch", batch=9)
    async with at_changed_store(router) as (at, store):
        await at.add(delivery("retried", kind="crawl.started"))
        await at.after(timedelta(seconds=0.29))
        store.behind_claim = lambda: at.clock.advance(PAUSE)
        store.change()
        await turns()
        assert store.behind_claim is None

        await at.after(PAUSE)

        assert await at.states("flaky") == [WorkState.DONE]


async def test_slots_that_another_worker_holds_do_not_delay_other_handlers() -> None:
    """A retry of another handler runs when it is due, not at the next check."""
    opened, flaky = at_the_gate(fails=True)
    opened.set()
    router = Router()
    router.add(handle, "crawl.page", name="h", concurrency=1)
    router.add(flaky, "crawl.started", name="flaky", pauses=[0.3], jitter=0)
    async with bench(router, started=False) as at:
        at.store = ChangedStore()
        await appended(at.store, delivery("runs elsewhere"))
        batch = await at.store.routing_batch(limit=1, max_bytes=9_999)
        lease = Lease(OTHER, NOON + timedelta(hours=1))
        await at.store.route(batch, [NewWork(1, HandlerName("h"), claim=True)], lease=lease, now=NOON)
        await at.start()
        await at.add(delivery("waits"))
        await at.after(timedelta(seconds=5))

        await check_retry_in_time(at)
        assert await at.states("h") == [WorkState.RUNNING, WorkState.WAITING]


class DyingWorker(ChangedStore):
    """A store that knows when the other worker has died, as one in a file does by a lock. It tells no change."""

    def __init__(self) -> None:
        super().__init__()
        self.has_died = False

    async def expire_dead(self, worker: WorkerId, *, steady: datetime) -> Sequence[WorkerId]:
        """End the leases of the other worker once it has died."""
        if not self.has_died:
            return ()
        return [OTHER] if await self.expire_leases_of(OTHER, now=steady) else []


async def test_a_worker_that_died_keeps_no_slot_until_its_lease_ends() -> None:
    """Whoever waits for the slot checks once a second whether the other worker lives."""
    router = Router()
    router.add(handle, "*", name="h", concurrency=1)
    async with bench(router, started=False) as at:
        at.store = store = DyingWorker()
        await appended(store, delivery("runs elsewhere"))
        batch = await store.routing_batch(limit=1, max_bytes=9_999)
        lease = Lease(OTHER, NOON + timedelta(hours=1))
        await store.route(batch, [NewWork(1, HandlerName("h"), claim=True)], lease=lease, now=NOON)
        await at.start()
        await at.add(delivery("waits"))
        await at.after(timedelta(seconds=5))
        assert await at.states("h") == [WorkState.RUNNING, WorkState.WAITING]

        store.has_died = True
        await at.after(timedelta(seconds=2))

        assert (await at.states("h"))[1] is WorkState.DONE
