"""The emulator is killed in the middle of its work, and goes on when it is started again."""

import asyncio
import json
import sqlite3
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from receiver.emulator.jobs.records import EmulatedJobState
from tests.doubles import eventually, soon, turns
from tests.emulator.killed_program import CREDITS, PAGES, open_jobs, open_monitors
from tests.emulator.world import SITE, TEAM


@dataclass
class Hook:
    """A real endpoint, which keeps the events that it has answered."""

    url: str = ""
    events: list[dict[str, Any]] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = next(
                    int(line.split(b":")[1])
                    for line in head.split(b"\r\n")
                    if line.lower().startswith(b"content-length:")
                )
                self.events.append(json.loads(await reader.readexactly(length)))
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()


@pytest.fixture
async def hook() -> AsyncIterator[Hook]:
    made = Hook()
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/webhooks"
    async with server:
        yield made


@asynccontextmanager
async def killed_at_the_end(what: str, state: Path, url: str) -> AsyncIterator[asyncio.StreamReader]:
    """Run the program, and kill it at the end of the block."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "tests.emulator.killed_program", what, str(state), url),
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        yield process.stdout
    finally:
        process.kill()
        await process.wait()


@pytest.mark.parametrize("count", [1, 20, 150])
async def test_a_webhook_that_was_put_survives_a_kill(tmp_path: Path, hook: Hook, count: int) -> None:
    """What `put` returned for arrives, before the kill or after the restart."""
    state = tmp_path / "emulator.db"
    async with killed_at_the_end("put", state, hook.url) as lines:
        for _ in range(count):
            last = int(await soon(lines.readline()))
    while line := await lines.readline():
        last = int(line) if line.endswith(b"\n") else last

    async with AsyncExitStack() as stack:
        _, outbox = await open_jobs(stack, state)
        await soon(_delivered(outbox))
        listed = await outbox.deliveries(limit=10_000)

    arrived = {event["webhookId"]: event["data"][0]["number"] for event in hook.events}
    assert set(range(last + 1)) <= set(arrived.values())
    assert {one.id for one in listed if one.state == "delivered"} == set(arrived)


@pytest.mark.parametrize("seen", [1, 60, 300])
async def test_a_crawl_goes_on_after_a_kill(tmp_path: Path, hook: Hook, seen: int) -> None:
    """Each page is one result, one event and paid for once, and the job is completed once."""
    state = tmp_path / "emulator.db"
    async with killed_at_the_end("crawl", state, hook.url) as lines:
        job_id = (await soon(lines.readline())).decode().strip()
        await eventually(lambda: len(hook.events) >= seen)

    async with AsyncExitStack() as stack:
        engine, outbox = await open_jobs(stack, state)
        with engine.watch(job_id) as watch:
            while (job := await engine.get(job_id, TEAM)).ended_at is None:
                await soon(watch.changed())
        await soon(_delivered(outbox))
        page = await engine.documents(job, limit=PAGES)
    with closing(sqlite3.connect(state)) as connection:
        (remaining,) = connection.execute("SELECT remaining FROM team_credits").fetchone()

    assert CREDITS - remaining == job.credits == PAGES
    assert (job.state, job.completed, job.failed) == (EmulatedJobState.COMPLETED, PAGES, 0)
    sources = [document["metadata"]["sourceURL"] for document in page.documents]
    assert sorted(sources) == sorted(f"{SITE}/{number}" for number in range(PAGES))
    types = Counter({event["webhookId"]: event["type"] for event in hook.events}.values())
    assert types == {"crawl.started": 1, "crawl.page": PAGES, "crawl.completed": 1}


@pytest.mark.parametrize("seen", [1, 150, 250])
async def test_a_check_goes_on_after_a_kill(tmp_path: Path, hook: Hook, seen: int) -> None:
    """Each page is recorded and paid for once; each URL has one event, and the end of the check has one."""
    state = tmp_path / "emulator.db"
    async with killed_at_the_end("check", state, hook.url) as lines:
        monitor_id, check_id = (await soon(lines.readline())).decode().split()
        await eventually(lambda: len(hook.events) >= seen)

    async with AsyncExitStack() as stack:
        monitors, outbox = await open_monitors(stack, state)
        await soon(monitors.over())
        await soon(_delivered(outbox))
        check = await monitors.check(TEAM, monitor_id, check_id)
        pages = await monitors.pages(check_id, 2 * PAGES, 0, None)
    with closing(sqlite3.connect(state)) as connection:
        (remaining,) = connection.execute("SELECT remaining FROM team_credits").fetchone()

    urls = [f"{SITE}/{number}" for number in range(PAGES)]
    assert (check["status"], check["summary"]["totalPages"]) == ("completed", PAGES + PAGES // 2)
    assert sorted(page["url"] for page in pages) == sorted(urls[: PAGES // 2] + urls)
    assert CREDITS - remaining == check["actualCredits"] == PAGES + PAGES // 2
    told = {event["webhookId"]: event for event in hook.events}.values()
    assert sorted(event["data"][0]["url"] for event in told if event["type"] == "monitor.page") == sorted(urls)
    assert Counter(event["type"] for event in told) == {"monitor.page": PAGES, "monitor.check.completed": 1}


async def _delivered(outbox: Any) -> None:
    while set(await outbox.counts()) != {"delivered"}:
        await turns(10)
