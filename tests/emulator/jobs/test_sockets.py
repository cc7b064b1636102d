"""Watchers of jobs over WebSocket, by hand and with the service's SDK."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

import pytest
import uvicorn
from firecrawl import AsyncFirecrawl, Firecrawl
from firecrawl.v1.client import AsyncV1CrawlWatcher, AsyncV1FirecrawlApp
from starlette.types import Message, Receive, Scope, Send

from receiver.emulator.account.keys import ApiKeys
from receiver.emulator.api.calls import CallRefused
from receiver.emulator.api.sockets import JobSockets
from receiver.emulator.json_text import to_json
from receiver.emulator.wire.jobs import BatchPlan, CrawlPlan
from tests.doubles import event_of, eventually, soon
from tests.emulator.world import SITE, MadePage, MadeRules, World, open_world, site

SMALL = site(home="a b", a="c home", b="a", c="")
KEY = "fc-any"
TEAM_OF_KEY = ApiKeys().team_of(f"Bearer {KEY}")


@dataclass
class Watching:
    """A WebSocket to the sockets of jobs, without a network."""

    sent: list[Message] = field(default_factory=list)
    inbox: asyncio.Queue[Message] = field(default_factory=asyncio.Queue)

    @property
    def messages(self) -> list[dict[str, Any]]:
        return [json.loads(one["text"]) for one in self.sent if one["type"] == "websocket.send"]

    @property
    def closed(self) -> tuple[int, str] | None:
        ends = [(one["code"], one["reason"]) for one in self.sent if one["type"] == "websocket.close"]
        return ends[0] if ends else None


async def watch(
    world: World, path: str, *, key: str | None = KEY, origin: str | None = None, keys: tuple[str, ...] = ()
) -> tuple[Watching, asyncio.Task[None]]:
    watching = Watching()
    app = JobSockets(world.engine, ApiKeys(keys)).app()
    scope = {
        "type": "websocket",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(b"host", b"127.0.0.1:3002")]
        + ([] if key is None else [(b"authorization", f"Bearer {key}".encode())])
        + ([] if origin is None else [(b"origin", origin.encode())]),
        "scheme": "ws",
        "server": ("127.0.0.1", 3002),
        "client": ("127.0.0.1", 1),
        "subprotocols": [],
        "asgi": {"version": "3.0"},
    }
    watching.inbox.put_nowait({"type": "websocket.connect"})

    async def send(message: Message) -> None:
        watching.sent.append(message)

    async def serve() -> None:
        await app(scope, watching.inbox.get, send)

    return watching, asyncio.create_task(serve())


async def started(world: World, **options: Any) -> str:
    job = await world.engine.start(CrawlPlan(url=f"{SITE}/", **options), TEAM_OF_KEY)
    return job.id


async def test_a_watcher_sees_what_is_there_then_each_document_and_the_end() -> None:
    """No document twice, none left out."""
    async with open_world(SMALL, max_concurrency=1) as world:
        held = world.scraper.hold_after(1)
        job_id = await started(world)
        await eventually(lambda: len(world.scraper.scraped) == 2)
        watching, task = await watch(world, f"/v2/crawl/{job_id}")
        await eventually(lambda: watching.messages)
        held.set()
        await soon(task)

    first, *documents, last = watching.messages
    assert (first["type"], first["data"]["status"], first["data"]["completed"]) == ("catchup", "scraping", 1)
    assert first["data"]["next"].startswith(f"http://127.0.0.1:3002/v2/crawl/{job_id}?skip=1")
    assert {one["type"] for one in documents} == {"document"}
    urls = [one["metadata"]["sourceURL"] for one in [*first["data"]["data"], *(one["data"] for one in documents)]]
    assert urls == [f"{SITE}/", f"{SITE}/a", f"{SITE}/b", f"{SITE}/c"]
    assert last == {
        "type": "done",
        "data": {
            "status": "completed",
            "completed": 4,
            "total": 4,
            "creditsUsed": 4,
            "expiresAt": "2026-01-02T12:00:00.000Z",
        },
    }
    assert watching.closed == (1000, "done")


async def test_a_job_that_has_ended_is_told_in_small_messages() -> None:
    """Clients refuse a message of more than 1 MiB."""
    pages = {f"{SITE}/": MadePage([f"{SITE}/{number}" for number in range(30)])}
    pages |= {f"{SITE}/{number}": MadePage(markdown="x" * 100_000) for number in range(30)}
    async with open_world(pages) as world:
        job_id = await started(world)
        await world.quiet()
        watching, task = await watch(world, f"/v1/batch/scrape/{job_id}")
        await soon(task)

    assert max(len(one["text"]) for one in watching.sent if one["type"] == "websocket.send") < 512 * 1024
    assert len(watching.messages[0]["data"]["data"]) + len(watching.messages[1:-1]) == 31
    assert watching.messages[-1]["type"] == "done"


@pytest.mark.parametrize(
    ("key", "team", "job", "code"),
    [
        (None, TEAM_OF_KEY, None, 3000),
        ("fc-other", TEAM_OF_KEY, None, 3003),
        (KEY, TEAM_OF_KEY, "019f2c10-0000-7000-8000-000000000001", 1008),
        (KEY, TEAM_OF_KEY, "nonsense", 1008),
    ],
)
async def test_a_watcher_who_may_not_see_a_job_is_told_why(
    key: str | None, team: str, job: str | None, code: int
) -> None:
    """By the codes of the service, after a message."""
    async with open_world(SMALL) as world:
        job_id = job or await started(world)
        watching, task = await watch(world, f"/v2/crawl/{job_id}", key=key)
        await soon(task)
        await world.quiet()

    assert [one["type"] for one in watching.messages] == ["error"]
    assert watching.closed is not None
    assert watching.closed[0] == code


async def test_a_failed_job_ends_with_an_error() -> None:
    """Its text is that of the status."""

    class BrokenRules(MadeRules):
        def key(self, url: str) -> str:
            raise RuntimeError("a fault in the code")

    async with open_world(SMALL, rules=BrokenRules()) as world:
        job_id = await started(world)
        await world.quiet()
        watching, task = await watch(world, f"/v2/crawl/{job_id}")
        await soon(task)

    assert watching.messages[-1]["type"] == "error"
    assert "fault" in watching.messages[-1]["error"]
    assert watching.closed == (1000, "done")


async def test_a_watcher_that_leaves_is_forgotten() -> None:
    """The job goes on."""
    async with open_world(SMALL, max_concurrency=1) as world:
        held = world.scraper.hold_after(0)
        job_id = await started(world)
        watching, task = await watch(world, f"/v2/crawl/{job_id}")
        await eventually(lambda: watching.messages)
        watching.inbox.put_nowait({"type": "websocket.receive", "text": "hello"})
        watching.inbox.put_nowait({"type": "websocket.disconnect", "code": 1001})
        await soon(task)
        held.set()
        await world.quiet()
        assert (await world.engine.get(job_id, TEAM_OF_KEY)).completed == 4
        assert watching.closed is None


async def test_a_fault_closes_the_socket_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """The watcher falls back to asking."""
    async with open_world(SMALL) as world:
        job_id = await started(world)
        await world.quiet()
        await world.database.run(lambda c: c.execute("DROP TABLE job_documents") and None)
        watching, task = await watch(world, f"/v2/crawl/{job_id}")
        await soon(task)

    assert watching.closed is not None
    assert watching.closed[0] == 1011
    assert [event_of(record) for record in caplog.records] == ["watcher_crashed"]


async def test_other_paths_are_refused() -> None:
    """Without being accepted."""
    async with open_world() as world:
        watching, task = await watch(world, "/v2/scrape/x")
        await soon(task)

    assert [one["type"] for one in watching.sent] == ["websocket.close"]


@asynccontextmanager
async def served(world: World) -> AsyncIterator[str]:
    """Serve sockets, and the status of jobs over HTTP, on a real port."""
    sockets = JobSockets(world.engine, ApiKeys()).app()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            return await sockets(scope, receive, send)
        try:
            query = dict(parse_qsl(scope["query_string"].decode()))
            answer = await world.call(scope["method"], scope["path"], team=TEAM_OF_KEY, query=query)
            status, body = answer.status, answer.body
        except CallRefused as exc:
            status, body = exc.status, {"success": False, "error": exc.error}
        headers = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        return await send({"type": "http.response.body", "body": to_json(body)})

    config = uvicorn.Config(app, port=0, ws="websockets-sansio", lifespan="off", log_config=None)
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve())
    await eventually(lambda: server.started)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        await soon(serving)


@pytest.mark.parametrize("kind", ["crawl", "batch"])
async def test_the_watcher_of_the_sdk_sees_the_end(kind: Any) -> None:
    """It works for crawls and batches, and its last snapshot has all documents."""
    async with open_world(SMALL, max_concurrency=1) as world, served(world) as url:
        held = world.scraper.hold_after(1)
        job_id = await started(world)
        client = AsyncFirecrawl(api_key=KEY, api_url=url)
        snapshots = []
        async for snapshot in client.watcher(job_id, kind=kind, poll_interval=60, timeout=100):
            snapshots.append(snapshot)
            held.set()

    assert snapshots[-1].status == "completed"
    assert len(snapshots[-1].data) == 4


async def test_the_plain_watcher_of_the_sdk_calls_its_listeners() -> None:
    """It runs in a thread of its own."""
    async with open_world(SMALL, max_concurrency=1) as world, served(world) as url:
        held = world.scraper.hold_after(1)
        job_id = await started(world)
        watcher = Firecrawl(api_key=KEY, api_url=url).watcher(job_id, kind="crawl", poll_interval=60)
        documents: list[Any] = []
        done: list[Any] = []
        watcher.add_event_listener("document", documents.append)
        watcher.add_event_listener("done", done.append)
        watcher.start()
        await eventually(lambda: documents)
        held.set()
        await eventually(lambda: done)
        await asyncio.to_thread(watcher.stop)

    assert len(documents) == len(done[0]["data"]) == 4


async def test_the_watcher_of_version_1_sees_the_end_of_any_job() -> None:
    """It asks for batches below crawl, too."""
    async with open_world(SMALL, max_concurrency=1) as world, served(world) as url:
        batch = await world.engine.start(BatchPlan(urls=tuple(SMALL)), TEAM_OF_KEY)
        for job_id in (await started(world), batch.id):
            watcher = AsyncV1CrawlWatcher(job_id, AsyncV1FirecrawlApp(api_key=KEY, api_url=url))
            done: list[Any] = []
            watcher.add_event_listener("done", done.append)
            await soon(watcher.connect())
            assert len(done[0]["data"]) == 4


@pytest.mark.parametrize(
    ("origin", "keys", "opens"),
    [
        ("https://evil.example", (), False),
        ("null", (), False),
        ("http://127.0.0.1:8000", (), True),
        ("http://app.localhost:8000", (), True),
        ("https://evil.example", (KEY,), True),
    ],
)
async def test_a_page_of_another_host_watches_only_with_a_key_that_was_given(
    origin: str, keys: tuple[str, ...], opens: bool
) -> None:
    """The rule is that of the HTTP side: where any key passes, a page that somebody visits would pass too."""
    async with open_world(SMALL) as world:
        job_id = await started(world)
        watching, task = await watch(world, f"/v2/crawl/{job_id}", origin=origin, keys=keys)
        await soon(task)

    assert (watching.sent[0]["type"] == "websocket.accept") is opens
    assert bool(watching.messages) is opens
