"""A state that takes nothing, because its disk is full. SQLite's own limit of pages stands for the disk."""

import asyncio
import json
import logging
import random
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from receiver.emulator.app import Emulator
from receiver.emulator.contracts import WebhookTarget
from receiver.emulator.families import open_families
from receiver.emulator.jobs.records import EmulatedJobState
from receiver.emulator.options import EmulatorOptions
from receiver.emulator.parts import EmulatorBase, EmulatorParts
from receiver.emulator.state.database import StateDatabase, StateUnwritable
from receiver.emulator.wire.jobs import BatchPlan
from receiver.testing import SteppedClock
from tests.doubles import event_of, eventually, soon, turns
from tests.emulator.api.calling import BASE, KEY
from tests.emulator.world import HOOK, SITE, TEAM, MadePage, open_world

SCHEMA = ("CREATE TABLE IF NOT EXISTS notes (text TEXT) STRICT;",)
_MOST_PAGES = 1 << 30
COMPANY_SITE = "https://company.test"
COMPANY = {"/phone": "Phone: +49 30 1234567", "/founded": "Founded: 1999"}
PAGES = sorted(f"{COMPANY_SITE}{path}" for path in COMPANY)
WANTED = {"type": "object", "properties": {"phone": {"type": "string"}, "founded": {"type": "integer"}}}
FOUND = {"phone": "+49 30 1234567", "founded": 1999}

Json = dict[str, Any]


async def fill(state: StateDatabase) -> None:
    """Let the file grow no more: https://www.sqlite.org/pragma.html#pragma_max_page_count."""
    await state.run(lambda c: c.execute("PRAGMA max_page_count = 1"))


async def make_room(state: StateDatabase) -> None:
    await state.run(lambda c: c.execute(f"PRAGMA max_page_count = {_MOST_PAGES}"))


def _write(connection: sqlite3.Connection) -> None:
    connection.execute("INSERT INTO notes VALUES (?)", ("x" * 100_000,))


async def test_the_error_names_the_file_and_the_way_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """One line tells of the fault, however often it is met, and one of its end."""
    file = tmp_path / "emulator.db"
    caplog.set_level("INFO")
    async with StateDatabase(file, SCHEMA) as state:
        await fill(state)
        for _ in range(3):
            with pytest.raises(StateUnwritable, match="full") as raised:
                await state.run(_write)
        assert str(file) in raised.value.error
        assert "Make room" in raised.value.error
        await make_room(state)
        await state.run(_write)

    assert [event_of(one) for one in caplog.records] == ["emulator_state_unwritable", "emulator_state_writable"]


async def test_a_call_is_answered_with_the_way_out() -> None:
    """Status and code are those of a fault of the server. Reading goes on, and so does all when there is room."""
    bases: list[EmulatorBase] = []

    @asynccontextmanager
    async def watched(base: EmulatorBase) -> AsyncIterator[EmulatorParts]:
        bases.append(base)
        async with open_families(base) as parts:
            yield parts

    options = EmulatorOptions(
        sites={"https://site.test": {"/": f"<p>{random.Random(1).randbytes(50_000).hex()}</p>"}}
    )
    emulator = Emulator(options, parts=(watched,))
    async with (
        emulator.lifespan(),
        httpx.AsyncClient(transport=httpx.ASGITransport(emulator), base_url=BASE, headers=KEY) as client,
    ):
        state = bases[0].state
        await fill(state)
        full = await client.post("/v2/scrape", json={"url": "https://site.test", "formats": ["rawHtml"]})
        read = await client.get("/v2/team/queue-status")
        await make_room(state)
        again = await client.post("/v2/scrape", json={"url": "https://site.test"})

    assert (full.status_code, full.json()["code"]) == (500, "UNKNOWN_ERROR")
    assert "Make room" in full.json()["error"]
    assert (read.status_code, again.status_code) == (200, 200)


async def test_jobs_and_webhooks_go_on_when_there_is_room(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """No page and no event is lost, and none is an error."""
    pages = {f"{SITE}/{name}": MadePage(markdown=random.Random(name).randbytes(50_000).hex()) for name in "abcd"}
    async with open_world(pages, state=tmp_path / "emulator.db", max_concurrency=2) as world:
        world.database.pause = 0.01
        held = world.scraper.hold_after(0)
        plan = BatchPlan(urls=tuple(pages), webhook=WebhookTarget(HOOK))
        job = await world.engine.start(plan, TEAM)
        await eventually(lambda: world.scraper.running == 2)
        await fill(world.database)
        held.set()
        await eventually(lambda: "emulator_state_unwritable" in map(event_of, caplog.records))
        job = await world.engine.get(job.id, TEAM)
        assert (job.state, job.completed) == (EmulatedJobState.SCRAPING, 0)
        await make_room(world.database)
        await soon(world.activity.over())

        job = await world.engine.get(job.id, TEAM)
        assert (job.state, job.completed, job.failed) == (EmulatedJobState.COMPLETED, 4, 0)
    assert world.endpoint.types.count("batch_scrape.page") == 4
    assert world.endpoint.types[-1] == "batch_scrape.completed"


class HeldSite:
    """A site that answers when `gate` is open, and an endpoint for webhooks."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.asked = asyncio.Event()
        self.events: list[dict[str, Any]] = []

    async def __call__(self, request: httpx.Request) -> httpx.Response:
        if str(request.url) == HOOK:
            self.events.append(json.loads(request.content))
            return httpx.Response(200)
        text = COMPANY.get(request.url.path)
        if text is None:
            return httpx.Response(404)
        self.asked.set()
        await self.gate.wait()
        filling = random.Random(text).randbytes(8_000).hex()
        body = httpx.ByteStream(
            f"<main><p>{text}</p><p>{filling}</p><a href='/founded'>Founded</a></main>".encode()
        )
        return httpx.Response(200, stream=body, headers={"Content-Type": "text/html"})

    def seen(self) -> list[str]:
        """Return the types of the events, those of pages with their URLs, in the order of their names."""
        pages = [(one["type"], one["data"]) for one in self.events]
        return sorted(f"{kind} {data[0]['url']}" if kind == "monitor.page" else kind for kind, data in pages)


@asynccontextmanager
async def running(file: Path, site: HeldSite) -> AsyncIterator[tuple[Emulator, StateDatabase, httpx.AsyncClient]]:
    """Run an emulator on a state, with a client of its API."""
    bases: list[EmulatorBase] = []

    @asynccontextmanager
    async def watched(base: EmulatorBase) -> AsyncIterator[EmulatorParts]:
        bases.append(base)
        async with open_families(base) as parts:
            yield parts

    options = EmulatorOptions(state=file, seed=1, bundled_site=False, browser=False)
    emulator = Emulator(options, clock=SteppedClock(), transport=httpx.MockTransport(site), parts=(watched,))
    async with emulator.lifespan():
        transport = httpx.ASGITransport(emulator)
        async with httpx.AsyncClient(transport=transport, base_url=BASE, headers=KEY) as client:
            bases[0].state.pause = 0
            yield emulator, bases[0].state, client


async def start(client: httpx.AsyncClient, path: str, body: Json) -> Json:
    """Start a job and return the answer; a call that the state refused is made again."""
    while (answer := await client.post(path, json=body)).status_code == 500:
        assert "Make room" in answer.json()["error"]
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


async def start_check(client: httpx.AsyncClient, *targets: Json) -> str:
    """Make a monitor, run a check of it, and return the path of the check."""
    body = {
        "name": "m",
        "schedule": {"cron": "0 0 1 1 *"},
        "webhook": HOOK,
        "judgeEnabled": False,
        "targets": list(targets),
    }
    monitor = (await start(client, "/v2/monitor", body))["data"]["id"]
    check = (await start(client, f"/v2/monitor/{monitor}/run", {}))["data"]["id"]
    return f"/v2/monitor/{monitor}/checks/{check}"


def crashes(records: list[logging.LogRecord]) -> list[str]:
    return [name for name in map(event_of, records) if "crashed" in name or "lost" in name]


@pytest.mark.parametrize("path", ["/v2/extract", "/v2/agent"])
async def test_research_goes_on_when_there_is_room(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, path: str
) -> None:
    """No page is lost or paid twice, and each event is sent once."""
    site, kind = HeldSite(), path.rpartition("/")[2]
    async with running(tmp_path / "emulator.db", site) as (emulator, state, client):
        body = {"urls": PAGES, "prompt": "about the company", "schema": WANTED, "webhook": HOOK}
        job = f"{path}/{(await start(client, path, body))['id']}"
        await soon(site.asked.wait())
        await fill(state)
        site.gate.set()
        await eventually(lambda: "emulator_state_unwritable" in map(event_of, caplog.records))
        await turns()
        waiting = (await client.get(job)).json()
        await make_room(state)
        await soon(emulator.settled())
        ended = (await client.get(job)).json()

    assert waiting["status"] == "processing"
    assert (ended["status"], ended["data"], ended["creditsUsed"]) == ("completed", FOUND, 10)
    steps = ["agent.action"] * 2 if kind == "agent" else []
    assert site.seen() == sorted([f"{kind}.started", *steps, f"{kind}.completed"])
    assert crashes(caplog.records) == []


async def test_a_check_goes_on_when_there_is_room(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It does not fail, no page is an error, and each event is sent once."""
    site = HeldSite()
    async with running(tmp_path / "emulator.db", site) as (emulator, state, client):
        check = await start_check(client, {"type": "scrape", "urls": PAGES})
        await soon(site.asked.wait())
        await fill(state)
        site.gate.set()
        await eventually(lambda: "emulator_state_unwritable" in map(event_of, caplog.records))
        await turns()
        waiting = (await client.get(check)).json()["data"]
        await make_room(state)
        await soon(emulator.settled())
        ended = (await client.get(check)).json()["data"]

    assert (waiting["status"], waiting["error"]) == ("running", None)
    assert (ended["status"], ended["summary"]["new"], ended["actualCredits"]) == ("completed", 2, 2)
    assert site.seen() == ["monitor.check.completed", *(f"monitor.page {url}" for url in PAGES)]
    assert crashes(caplog.records) == []


def refuse_first_tries(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Let the first try of each transaction in the code fail, of those that only read, too; return their names."""
    tried: set[str] = set()
    attempt = StateDatabase.run

    async def fails_at_first(state: StateDatabase, work: Any) -> Any:
        name = f"{work.func.__qualname__ if isinstance(work, partial) else work.__qualname__}"
        if name in tried:
            return await attempt(state, work)
        tried.add(name)
        raise StateUnwritable("emulator.db", "database or disk is full")

    monkeypatch.setattr(StateDatabase, "run", fails_at_first)
    return tried


JOBS: dict[str, tuple[str, Json]] = {
    "extract": (
        "/v2/extract",
        {"urls": [f"{COMPANY_SITE}/*", *PAGES], "prompt": "the company", "schema": WANTED, "enableWebSearch": True},
    ),
    "agent": ("/v2/agent", {"urls": PAGES[:1], "prompt": "the company", "schema": WANTED}),
    "agent that searches": ("/v2/agent", {"prompt": "Find the company", "schema": WANTED}),
    "crawl": ("/v2/crawl", {"url": PAGES[0]}),
    "batch": ("/v2/batch/scrape", {"urls": [*PAGES, f"{COMPANY_SITE}/nothing"]}),
}


@pytest.mark.parametrize("kind", JOBS)
async def test_each_transaction_of_a_job_is_tried_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """No refusal is taken for a fault of the job: its events are those of a state that is always writable."""
    path, body = JOBS[kind]
    ends = []
    for refuses in (False, True):
        site = HeldSite()
        site.gate.set()
        async with running(tmp_path / f"{refuses}.db", site) as (emulator, _, client):
            with monkeypatch.context() as patch:
                tried = refuse_first_tries(patch) if refuses else set()
                job = await start(client, path, {**body, "webhook": HOOK})
                await soon(emulator.settled())
            ended = (await client.get(f"{path}/{job['id']}")).json()
        ends.append((ended["status"], ended["creditsUsed"], ended.get("error"), site.seen()))
        assert crashes(caplog.records) == []

    assert len(tried) > 5
    assert ends[0] == ends[1]


async def test_each_transaction_of_a_check_is_tried_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also those of its crawl and of its searches."""
    ends = []
    targets: list[Json] = [
        {"type": "scrape", "urls": PAGES},
        {"type": "crawl", "url": PAGES[0]},
        {"type": "search", "queries": ["the company"]},
    ]
    for refuses in (False, True):
        site = HeldSite()
        site.gate.set()
        async with running(tmp_path / f"{refuses}.db", site) as (emulator, _, client):
            with monkeypatch.context() as patch:
                tried = refuse_first_tries(patch) if refuses else set()
                check = await start_check(client, *targets)
                await soon(emulator.settled())
            ended = (await client.get(check)).json()["data"]
        ends.append((ended["status"], ended["error"], ended["summary"], ended["actualCredits"], site.seen()))
        assert crashes(caplog.records) == []

    assert len(tried) > 10
    assert ends[0] == ends[1]
    assert ends[0][0] == "completed"


async def test_a_sweep_that_waits_for_room_is_stopped_with_the_emulator(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk is full for hours, in which more sweeps come due."""
    run = StateDatabase.run

    async def without_sweeps(state: StateDatabase, work: Any) -> Any:
        if "_sweep" in getattr(work, "__qualname__", ""):
            raise StateUnwritable("emulator.db", "database or disk is full")
        return await run(state, work)

    async with open_world() as world:
        world.database.pause = 0
        monkeypatch.setattr(StateDatabase, "run", without_sweeps)
        for _ in range(3):
            world.clock.advance(timedelta(hours=1))
            await turns()
    await soon(world.activity.over())

    assert crashes(caplog.records) == []
