"""What a worker makes for its handlers and lends them: resources, processes, `once`, the service's clients."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from receiver import AsyncClient, Client
from receiver.core.types import WorkState
from receiver.core.work import WorkFilter
from receiver.errors import ConfigurationError, HandlerError
from receiver.events import CrawlPage, Event
from receiver.routing import Router
from receiver.routing.context import Context
from receiver.running import run_worker
from receiver.settings import Settings
from receiver.worker.upkeep.supervisor import new_worker_id
from tests.doubles import LONG, OpenStore, appended, body_of, delivery, eventually, soon, turns
from tests.process import computing

pytestmark = pytest.mark.usefixtures("bare_environment")


class Pool:
    """What handlers share."""


class LendingBench:
    """A store, a router and what its handlers tell."""

    def __init__(self) -> None:
        self.store = OpenStore()
        self.router = Router()
        self.seen: list[object] = []

    async def add(self, *names: str, **values: Any) -> None:
        """Store a delivery for each name."""
        for name in names:
            await appended(self.store, delivery(name, body=body_of(id=name, webhookId=name, **values)))

    async def states(self) -> list[WorkState]:
        """Return those of all work items."""
        return [one.state async for one in self.store.work_items(WorkFilter())]

    @asynccontextmanager
    async def working(self, **settings: Any) -> AsyncIterator[None]:
        """Run a worker for the length of the block."""
        stop = asyncio.Event()
        task = asyncio.create_task(
            run_worker(Settings(**settings), self.router, stop, worker=new_worker_id(), store=self.store)
        )
        try:
            yield
        finally:
            stop.set()
            await soon(task)


@pytest.fixture
def bench() -> LendingBench:
    """An empty one."""
    return LendingBench()


async def test_resources_live_from_before_the_first_handler_until_after_the_last(bench: LendingBench) -> None:
    """Each once, whatever the number of handlers and events."""

    @bench.router.resource
    async def make_pool() -> AsyncIterator[Pool]:
        bench.seen.append("made")
        yield Pool()
        bench.seen.append("closed")

    @bench.router.on(CrawlPage)
    async def on_loop(event: CrawlPage, pool: Pool) -> None:
        await asyncio.sleep(0)
        bench.seen.append(pool)

    @bench.router.on(CrawlPage)
    def in_thread(event: CrawlPage, pool: Pool) -> None:
        bench.seen.append(pool)

    await bench.add("a", "b", "c")
    async with bench.working():
        await eventually(lambda: len(bench.seen) == 7)

    assert (bench.seen[0], bench.seen[-1]) == ("made", "closed")
    assert len(set(bench.seen[1:-1])) == 1


async def test_a_resource_that_cannot_be_made_ends_the_worker(bench: LendingBench) -> None:
    """Before it has claimed anything; what waited is still there."""

    @bench.router.resource
    def make_pool() -> Iterator[Pool]:
        raise ConnectionRefusedError("nobody listens")
        yield Pool()

    @bench.router.on(CrawlPage)
    async def handler(event: CrawlPage, pool: Pool) -> None: ...

    await bench.add("a")
    with pytest.raises(HandlerError, match=r"make_pool could not be made: ConnectionRefusedError: nobody listens"):
        async with bench.working():
            pass
    assert await bench.states() == []


async def test_a_missing_resource_ends_the_worker(bench: LendingBench) -> None:
    """It says which handler wants what."""

    @bench.router.on(CrawlPage)
    async def handler(event: CrawlPage, pool: Pool) -> None: ...

    with pytest.raises(HandlerError, match="wants Pool as 'pool', and no resource gives one"):
        async with bench.working():
            pass


async def test_once_asks_the_store(bench: LendingBench) -> None:
    """One key, two deliveries, two kinds of handlers: each handler has one yes."""

    @bench.router.on(CrawlPage, name="async")
    async def on_loop(event: Event, ctx: Context) -> None:
        bench.seen.append(("async", await ctx.once("mail")))

    @bench.router.on(CrawlPage, name="plain")
    def in_thread(event: Event, ctx: Context) -> None:
        bench.seen.append(("plain", bool(ctx.once("mail"))))

    await bench.add("a", "b")
    async with bench.working():
        await eventually(lambda: len(bench.seen) == 4)

    assert Counter(bench.seen) == Counter([(name, first) for name in ("async", "plain") for first in (True, False)])


async def test_a_function_runs_in_a_process(bench: LendingBench, bare_environment: Path) -> None:
    """From the store to another process and back."""
    bench.router.add(computing.note, CrawlPage, run_in="process")
    file = bare_environment / "notes"
    await bench.add("a", "b", metadata={"file": str(file)})
    async with bench.working(processes=1):
        await eventually(lambda: file.exists() and file.read_text().count("\n") == 2)

    assert await bench.states() == [WorkState.DONE] * 2


async def test_with_a_key_handlers_have_clients_of_the_service(bench: LendingBench) -> None:
    """At the configured address, closed with the worker."""

    @bench.router.on(CrawlPage)
    async def on_loop(event: Event, ctx: Context) -> None:
        bench.seen.append(ctx.client)

    @bench.router.on(CrawlPage)
    def in_thread(event: Event, ctx: Context) -> None:
        bench.seen.append(ctx.sync_client)

    await bench.add("a")
    async with bench.working(api_key="fc-1", base_url="http://127.0.0.1:9"):
        await eventually(lambda: len(bench.seen) == 2)

    for client in bench.seen:
        assert isinstance(client, Client | AsyncClient)
        assert client.http.is_closed
        assert client.http.base_url == "http://127.0.0.1:9"


async def test_without_a_key_the_handler_that_calls_the_service_is_dead_at_once(bench: LendingBench) -> None:
    """And says why."""

    @bench.router.on(CrawlPage)
    async def handler(event: Event, ctx: Context) -> None:
        await ctx.client.get("/v2")

    await bench.add("a")
    async with bench.working():
        async with asyncio.timeout(LONG):
            while await bench.states() != [WorkState.DEAD]:
                await turns(1)

    (item,) = [one async for one in bench.store.work_items(WorkFilter())]
    assert "no RECEIVER_API_KEY is set" in str(item.last_error)


@pytest.mark.parametrize("settings", [{"base_url": "nowhere"}, {"api_key": "two words"}], ids=str)
async def test_unusable_client_settings_end_the_worker(bench: LendingBench, settings: Any) -> None:
    """A handler would find out much later."""
    with pytest.raises(ConfigurationError, match="RECEIVER_"):
        async with bench.working(**{"api_key": "fc-1", **settings}):
            pass
