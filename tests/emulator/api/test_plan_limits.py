"""What a plan allows at one time."""

import asyncio

import httpx
import pytest

from receiver.emulator.app import Emulator
from receiver.emulator.options import EmulatorOptions
from tests.doubles import eventually
from tests.emulator.api.calling import BASE, KEY


@pytest.mark.parametrize(
    ("options", "most"),
    [
        (EmulatorOptions(), 10),
        (EmulatorOptions(plan="free"), 2),
        (EmulatorOptions(plan="growth"), 100),
        (EmulatorOptions(plan="growth", max_concurrency=3), 3),
    ],
)
async def test_plans_have_their_pages_at_one_time(options: EmulatorOptions, most: int) -> None:
    """A number that was chosen goes before that of the plan."""
    emulator = Emulator(options)
    transport = httpx.ASGITransport(emulator)
    async with (
        emulator.lifespan(),
        httpx.AsyncClient(transport=transport, base_url=BASE, headers=KEY) as client,
    ):
        answer = (await client.get("/v2/concurrency-check")).json()

    assert answer["maxConcurrency"] == most


async def test_a_scrape_without_a_place_is_429_with_retry_after() -> None:
    """It has waited for two thirds of its time-out; without a plan that would be a time-out."""
    gate, waiting = asyncio.Event(), asyncio.Event()

    async def answer(request: httpx.Request) -> httpx.Response:
        waiting.set()
        await gate.wait()
        return httpx.Response(200, stream=httpx.ByteStream(b"<p>text</p>"), headers={"Content-Type": "text/html"})

    emulator = Emulator(EmulatorOptions(plan="growth", max_concurrency=1), transport=httpx.MockTransport(answer))
    async with (
        emulator.lifespan(),
        httpx.AsyncClient(transport=httpx.ASGITransport(emulator), base_url=BASE, headers=KEY) as client,
    ):
        body = {"url": "http://127.0.0.1:9/"}
        first = asyncio.create_task(client.post("/v2/scrape", json=body))
        await eventually(waiting.is_set)
        refused = await client.post("/v2/scrape", json={**body, "timeout": 1000})
        gate.set()
        done = await first

    assert (refused.status_code, refused.headers["Retry-After"]) == (429, "5")
    assert refused.json()["success"] is False
    assert "Retry after 5s" in refused.json()["error"]
    assert done.status_code == 200, done.text
