"""Extractions and agents go on after a restart where they were: nothing is scraped, paid or told twice."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from receiver.emulator.app import Emulator
from receiver.emulator.options import EmulatorOptions
from receiver.testing import SteppedClock
from tests.doubles import soon
from tests.emulator.answering import HOOK, Json
from tests.emulator.research.looking import COMPANY, PAGES

KEY = {"Authorization": "Bearer fc-test"}
SITE = "http://127.0.0.1:9080"
NAMES = ("contact", "history", "offices")


class Halting:
    """An endpoint for webhooks, and a site that stops answering after some pages."""

    def __init__(self) -> None:
        self.events: list[Json] = []
        self.pages = 0
        self.halted = asyncio.Event()
        self.answers = 1_000_000

    async def __call__(self, request: httpx.Request) -> httpx.Response:
        if str(request.url) == HOOK["url"]:
            self.events.append(httpx.Response(200, content=request.content).json())
            return httpx.Response(200)
        content = PAGES.get(request.url.path)
        if content is None:
            return httpx.Response(404)
        self.pages += 1
        if self.pages > self.answers:
            self.pages -= 1
            self.halted.set()
            await asyncio.Event().wait()
        stream = httpx.ByteStream(str(content).encode())
        return httpx.Response(200, stream=stream, headers={"Content-Type": "text/html"})


@asynccontextmanager
async def running(state: Path, world: Halting) -> AsyncIterator[tuple[Emulator, httpx.AsyncClient]]:
    """Run an emulator on a state; it scrapes one page at one time."""
    options = EmulatorOptions(state=state, seed=1, bundled_site=False, max_concurrency=1)
    emulator = Emulator(options, clock=SteppedClock(), transport=httpx.MockTransport(world))
    async with emulator.lifespan():
        asgi = httpx.ASGITransport(emulator)
        async with httpx.AsyncClient(transport=asgi, base_url="http://emulator.test", headers=KEY) as http:
            yield emulator, http


@pytest.mark.parametrize("path", ["/v2/extract", "/v2/agent"])
@pytest.mark.parametrize("settled", [0, 1, 2])
async def test_a_job_goes_on_after_a_restart(tmp_path: Path, path: str, settled: int) -> None:
    """It was stopped after some of its pages. Cost, events and result are those of a job that was never stopped."""
    state, world = tmp_path / "state.db", Halting()
    world.answers = settled
    pages = [f"{SITE}/{name}" for name in NAMES]
    body = {"urls": pages, "prompt": "about the company", "schema": COMPANY, "webhook": HOOK}
    async with running(state, world) as (_, http):
        job = (await http.post(path, json=body)).json()["id"]
        await soon(world.halted.wait())
        running_credits = (await http.get(f"{path}/{job}")).json()["creditsUsed"]
    world.answers = 1_000_000
    async with running(state, world) as (emulator, http):
        await soon(emulator.settled())
        ended = (await http.get(f"{path}/{job}")).json()
        account = (await http.get("/v2/team/credit-usage")).json()["data"]

    assert (running_credits, world.pages) == (5 * settled, 3)
    assert ended["data"] == {"phone": "+49 30 1234567", "founded": 1999, "head_office": "Berlin"}
    assert ended["creditsUsed"] == account["planCredits"] - account["remainingCredits"] == 15
    unique = {one["webhookId"]: one for one in world.events}
    kinds = [one["type"].partition(".")[2] for one in unique.values()]
    assert sorted(kinds) == sorted(["started", "completed", *(["action"] * 3 if "agent" in path else [])])
    spent = [one["data"][0]["creditsUsed"] for one in unique.values() if one["type"] == "agent.action"]
    assert spent == [5, 10, 15][: len(spent)]
