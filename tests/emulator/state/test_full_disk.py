"""A state that takes nothing, because its disk is full. SQLite's own limit of pages stands for the disk."""

import random
import sqlite3
from pathlib import Path

import httpx
import pytest

from receiver.emulator.app import Emulator
from receiver.emulator.contracts import WebhookTarget
from receiver.emulator.jobs.records import EmulatedJobState
from receiver.emulator.options import EmulatorOptions
from receiver.emulator.state.database import StateDatabase, StateUnwritable
from receiver.emulator.wire.jobs import BatchPlan
from tests.doubles import event_of, eventually, soon
from tests.emulator.api.calling import BASE, KEY
from tests.emulator.world import HOOK, SITE, TEAM, MadePage, open_world

SCHEMA = ("CREATE TABLE IF NOT EXISTS notes (text TEXT) STRICT;",)
_MOST_PAGES = 1 << 30


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
    options = EmulatorOptions(
        sites={"https://site.test": {"/": f"<p>{random.Random(1).randbytes(50_000).hex()}</p>"}}
    )
    emulator = Emulator(options)
    async with (
        emulator.lifespan() as parts,
        httpx.AsyncClient(transport=httpx.ASGITransport(emulator), base_url=BASE, headers=KEY) as client,
    ):
        state = parts.state
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
