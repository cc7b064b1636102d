"""The service's own SDK extracts and runs agents here: both versions, blocking and not."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
from firecrawl import AsyncFirecrawl, AsyncV1FirecrawlApp, V1FirecrawlApp
from firecrawl.v2.utils.error_handler import BadRequestError, FirecrawlError

from tests.doubles import soon
from tests.emulator.shop import SCHEMA, SHOP, Shop, shop

pytestmark = [
    pytest.mark.filterwarnings("ignore:The extract endpoint is in maintenance mode"),
    pytest.mark.filterwarnings("ignore:The `.*` method is deprecated"),
]

BIKE = {"name": "City bike", "price": 5}


class Calls:
    """Calls of the SDK by their names, whether they block or not."""

    def __init__(self, made: Shop, *, blocking: bool) -> None:
        self.shop = made
        self.blocking = blocking
        self._async = None if blocking else AsyncFirecrawl(api_key="fc-any", api_url=made.address)

    async def call(self, name: str, /, *args: Any, **options: Any) -> Any:
        if self._async is None:
            return await self.shop.call(name, *args, **options)
        target: Any = self._async
        for part in name.split("."):
            target = getattr(target, part)
        return await soon(target(*args, **options))

    async def settled(self) -> None:
        await soon(self.shop.emulator.settled())


@pytest.fixture(params=["blocking", "not blocking"])
async def sdk(request: pytest.FixtureRequest) -> AsyncIterator[Calls]:
    async with shop() as made:
        yield Calls(made, blocking=request.param == "blocking")


async def test_version_2_extracts(sdk: Calls) -> None:
    started = await sdk.call("start_extract", [f"{SHOP}/"], schema=SCHEMA, prompt="the bike", show_sources=True)
    await sdk.settled()
    done = await sdk.call("get_extract_status", started.id)

    assert started.success
    assert (done.status, done.data) == ("completed", BIKE)
    # Of the client for async code the SDK leaves these empty.
    assert (done.credits_used, done.tokens_used) == ((5, 75) if sdk.blocking else (None, None))
    assert done.sources == {"name": [f"{SHOP}/"], "price": [f"{SHOP}/"]}
    assert done.warnings
    assert done.replacement


async def test_version_1_extracts(sdk: Calls) -> None:
    app = (V1FirecrawlApp if sdk.blocking else AsyncV1FirecrawlApp)(api_key="fc-any", api_url=sdk.shop.address)
    urls = [f"{SHOP}/*"]
    if sdk.blocking:
        started = await soon(asyncio.to_thread(app.async_extract, urls, schema=SCHEMA))
        await sdk.settled()
        done = await soon(asyncio.to_thread(app.get_extract_status, started.id))
        found = (done.success, done.status, done.data, done.creditsUsed, bool(done.warnings))
    else:
        begun = await soon(app.async_extract(urls, schema=SCHEMA))
        await sdk.settled()
        told = await soon(app.get_extract_status(begun["id"]))
        found = (told["success"], told["status"], told["data"], told["creditsUsed"], bool(told["warnings"]))

    assert found == (True, "completed", BIKE, 10, True)


async def test_what_failed_is_told(sdk: Calls) -> None:
    started = await sdk.call("start_extract", ["http://127.0.0.1:1/"], schema=SCHEMA)
    await sdk.settled()
    done = await sdk.call("get_extract_status", started.id)

    assert (done.status, done.success) == ("failed", False)
    assert "No page could be scraped" in done.error
    if sdk.blocking:  # the other client does not raise here
        with pytest.raises(BadRequestError):
            await sdk.call("start_extract", [f"{SHOP}/"], schema={"type": "nonsense"})


async def test_agents_run_and_are_listed(sdk: Calls) -> None:
    started = await sdk.call("start_agent", [f"{SHOP}/"], prompt="the bike", schema=SCHEMA, model="spark-1-pro")
    await sdk.settled()
    done = await sdk.call("get_agent_status", started.id)
    listed = await sdk.shop.call("list_agents")  # the client for async code cannot

    trace = await sdk.shop.call("get_agent_trace", started.id)
    artifact = next(one.artifact for one in trace.events if one.type == "artifact.updated")
    snapshot = await sdk.shop.call("get_agent_snapshot", started.id, artifact.snapshot_id)
    thread = await sdk.shop.call("get_agent_thread", started.thread_id, include_data=True)

    assert (done.status, done.data, done.credits_used) == ("completed", BIKE, 5)
    assert [one.type for one in trace.events][2:4] == ["tool_call.started", "tool_call.finished"]
    assert snapshot.snapshot == '{"name":"City bike","price":5}'
    assert [run.data for run in thread.thread.runs] == [BIKE]
    assert (done.model, done.thread_id, done.thread_turn) == ("spark-1-pro", started.thread_id, 1)
    assert [(one.id, one.status, one.options.prompt) for one in listed.agents] == [
        (started.id, "completed", "the bike")
    ]


async def test_an_agent_is_cancelled(sdk: Calls) -> None:
    """It waits for a page that takes half a minute of real time, which nobody waits for."""
    async with shop(page_delay=timedelta(seconds=30)) as slow:
        calls = Calls(slow, blocking=sdk.blocking)
        started = await calls.call("start_agent", [f"{SHOP}/"], prompt="the price of it")
        assert (await calls.call("get_agent_status", started.id)).status == "processing"
        assert await calls.call("cancel_agent", started.id)
        await calls.settled()
        done = await calls.call("get_agent_status", started.id)

        assert (done.status, done.error) == ("failed", "The agent was cancelled")
        with pytest.raises(FirecrawlError, match="ended"):
            await calls.call("cancel_agent", started.id)
