"""How often a worker looks at a store that tells it of no change of its own."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest

from receiver import Context, Router
from receiver.core.claims import RoutingBatch
from receiver.core.deliveries import Delivery, Receipt
from receiver.core.types import WorkState
from receiver.events import Event
from receiver.stores.memory import MemoryStore
from tests.doubles import delivery, turns
from tests.workbench import Workbench, bench

PAUSE = timedelta(milliseconds=20)


class Database(MemoryStore):
    """A store whose changes are those of others, as with a database in a file. It counts looks for deliveries."""

    def __init__(self) -> None:
        super().__init__()
        self.looks = 0
        self._appended = asyncio.Event()

    def append(self, delivery: Delivery) -> asyncio.Future[Receipt]:
        """Store a delivery, as another process does it."""
        self._appended.set()
        return super().append(delivery)

    async def changed(self) -> None:
        """Return when a delivery has come since the last call."""
        await self._appended.wait()
        self._appended.clear()

    async def routing_batch(self, *, limit: int, max_bytes: int) -> RoutingBatch:
        """Count it."""
        self.looks += 1
        return await super().routing_batch(limit=limit, max_bytes=max_bytes)


@asynccontextmanager
async def at_database(router: Router) -> AsyncIterator[tuple[Workbench, Database]]:
    """Run a worker on such a store."""
    async with bench(router, started=False) as made:
        made.store = store = Database()
        await made.start()
        yield made, store


def handle(event: Event) -> None:
    """Do nothing."""


def at_the_gate(*, fails: bool = False) -> tuple[asyncio.Event, Callable[[Event], Awaitable[None]]]:
    """Return a gate, and a handler that waits for it. It may fail the first time."""
    gate = asyncio.Event()
    failures = [ValueError()] if fails else []

    async def handler(event: Event) -> None:
        await gate.wait()
        if failures:
            raise failures.pop()

    return gate, handler


async def test_a_worker_looks_once_more_a_moment_after_deliveries_and_not_for_its_results() -> None:
    """Meanwhile others may come, which it takes together."""
    router = Router()
    router.add(handle, "*", name="h")
    async with at_database(router) as (at, store):
        before = store.looks

        await at.add(delivery("a"))

        assert await at.states() == [WorkState.DONE]
        assert store.looks == before + 1
        await at.after(PAUSE)
        assert store.looks == before + 2
        await at.after(timedelta(minutes=10))
        assert store.looks == before + 3  # for the check of each second, which was not due before


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
    async with at_database(router) as (at, _):
        await at.add(*[delivery(f"k{number}") for number in range(count)])
        for _ in range(50):
            await at.after(PAUSE)

        assert set(await at.states("h")) == set(await at.states("other")) == {WorkState.DONE}


@pytest.mark.parametrize(
    ("count", "options"),
    [(3, {"ordered": True}), (3, {"concurrency": 1}), (200, {})],
    ids=["lane", "concurrency", "no limit"],
)
async def test_what_waits_for_a_slow_handler_follows_it_at_once(count: int, options: dict[str, Any]) -> None:
    """Long after the last look."""
    gate, handler = at_the_gate()
    router = Router()
    router.add(handler, "*", name="h", **options)
    async with at_database(router) as (at, _):
        await at.add(*[delivery(f"k{number}") for number in range(count)])
        await at.after(timedelta(seconds=5))

        gate.set()
        await turns(1_000)

        assert set(await at.states()) == {WorkState.DONE}


async def test_the_retry_of_a_slow_handler_comes_when_it_is_due() -> None:
    """The worker asks again when the next work is due, since the result has changed that."""
    gate, handler = at_the_gate(fails=True)
    router = Router()
    router.add(handler, "*", name="h", pauses=[1], jitter=0)
    async with at_database(router) as (at, _):
        await at.add(delivery("a"))
        await at.after(timedelta(seconds=5))
        gate.set()
        await turns()
        assert await at.states() == [WorkState.WAITING]

        await at.after(timedelta(seconds=1))

        assert await at.states() == [WorkState.DONE]


async def test_a_later_call_comes_when_it_is_due() -> None:
    """The success that asked for it says that there is more work."""
    router = Router()

    @router.later("*")
    def afterwards(event: Event) -> None: ...

    @router.on("*")
    def first(event: Event, ctx: Context) -> None:
        ctx.later(afterwards, event, after=timedelta(minutes=1))

    async with at_database(router) as (at, _):
        await at.add(delivery("a"))
        assert await at.states() == [WorkState.DONE, WorkState.WAITING]

        await at.after(timedelta(minutes=1))

        assert await at.states() == [WorkState.DONE, WorkState.DONE]
