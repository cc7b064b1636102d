"""Every example runs, by the command in its own docstring, in a folder of its own."""

import asyncio
import importlib.util
import os
import re
import shlex
import shutil
import sqlite3
import sys
from ast import get_docstring, parse
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from datetime import timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx
import pytest

from receiver import Client, sign, signals
from receiver.core.types import DeliveryKey, HandlerName, Trigger
from receiver.service.samples import encode, load_sample, set_value
from tests.doubles import NOON
from tests.service.client.stub import Connection
from tests.service.client.stub import serving as serving_stub

EXAMPLES = Path(__file__).parents[1] / "examples"
SECRET = "example-secret-1"
PATIENCE_SECONDS = 120
READY_TRIES = 2_400
OURS = ("RECEIVER_", "UVICORN_", "PORT", "DATABASE_URL", "OUTPUT_DIR", "CHAT_WEBHOOK_URL")


def commands_of(name: str) -> list[list[str]]:
    """Return the commands in the docstring of an example: its indented lines."""
    text = get_docstring(parse((EXAMPLES / name).read_text(encoding="utf-8"))) or ""
    return [shlex.split(line) for line in text.splitlines() if line.startswith("    ")]


def environment(**more: str) -> dict[str, str]:
    """Return an environment without settings of ours, but for a free port, a secret, and logs to read by."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
    ours = {"RECEIVER_PORT": "0", "UVICORN_PORT": "0", "RECEIVER_SECRETS": SECRET, "RECEIVER_JSON_LOGS": "true"}
    return inherited | ours | more


class Program:
    """A running program and what it has said so far."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.log = ""
        self._said = asyncio.Event()
        self._reading = asyncio.create_task(self._read())

    async def heard(self, pattern: str, times: int = 1) -> str:
        """Return the last match of a pattern as soon as it was said that often."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while len(found := re.findall(pattern, self.log)) < times:
                assert not self._reading.done(), f"it ended without a word of {pattern!r}:\n{self.log}"
                self._said.clear()
                await self._said.wait()
        return str(found[-1])

    async def stop(self) -> None:
        """End the program as an operator would, and the hard way when that does not help."""
        if self.process.returncode is None:
            self.process.terminate()
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await self.process.wait()
        finally:
            if self.process.returncode is None:
                self.process.kill()
                await self.process.wait()
            await self._reading

    async def _read(self) -> None:
        assert self.process.stderr is not None
        while line := await self.process.stderr.readline():
            self.log += line.decode()
            self._said.set()
        self._said.set()


@asynccontextmanager
async def running(command: list[str], folder: Path) -> AsyncIterator[Program]:
    process = await asyncio.create_subprocess_exec(
        Path(sys.executable).parent / command[0],
        *command[1:],
        cwd=folder,
        env=environment(),
        stderr=asyncio.subprocess.PIPE,
    )
    program = Program(process)
    try:
        yield program
    finally:
        await program.stop()


@asynccontextmanager
async def serving(
    command: list[str], folder: Path, below: str = ""
) -> AsyncIterator[tuple[Program, httpx.AsyncClient]]:
    """Run a program that serves, and return it with a client once it is ready for deliveries."""
    async with running(command, folder) as program:
        address = await program.heard(r"http://127\.0\.0\.1:\d+")
        async with httpx.AsyncClient(base_url=address, trust_env=False, timeout=PATIENCE_SECONDS) as client:
            await _ready(program, client, f"{below}/readyz")
            yield program, client


async def _ready(program: Program, client: httpx.AsyncClient, path: str) -> None:
    for _ in range(READY_TRIES):
        try:
            if (await client.get(path)).is_success:
                return
        except httpx.TransportError:
            pass
        ended = asyncio.ensure_future(program.process.wait())
        await asyncio.wait([ended], timeout=0.05)
        assert not ended.done(), program.log
        ended.cancel()
    pytest.fail(f"not ready after {READY_TRIES} tries:\n{program.log}")


async def deliver(client: httpx.AsyncClient, path: str, name: str, **values: Any) -> httpx.Response:
    """Post a signed sample; `data__0__markdown` sets `data.0.markdown` in it."""
    content = load_sample(name)
    for place, value in values.items():
        set_value(content, place.replace("__", "."), value)
    body = encode(content)
    return await client.post(path, content=body, headers={"X-Firecrawl-Signature": sign(body, SECRET)})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the examples and nothing else, so that what they write is thrown away."""
    shutil.copytree(EXAMPLES, tmp_path / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


async def test_own_router(folder: Path) -> None:
    """Each handler hears of what it wants, and one that asks for another attempt will get it."""
    (command,) = commands_of("own_router.py")
    async with serving(command, folder) as (program, client):
        for name in ("crawl.page", "crawl.page.error", "crawl.completed", "monitor.check.completed.partial"):
            assert (await deliver(client, "/webhooks", name)).json()["status"] == "accepted"

        await program.heard("indexed https://example.com/prices, 1111 characters")
        await program.heard("https://example.com/old/brochure.zip failed: Scrape resulted in unsupported file")
        await program.heard("job 019f2c10-0001-7a00-8b00-000000001eef: crawl.completed")
        await program.heard("give the pages that failed a moment")

    assert program.process.returncode == 0, program.log


async def test_pages_to_sqlite(folder: Path) -> None:
    """One row per URL, with what came last, whatever was delivered twice or failed."""
    (command,) = commands_of("pages_to_sqlite.py")
    async with serving(command, folder) as (program, client):
        await deliver(client, "/webhooks", "crawl.page", data__0__markdown="old")
        await deliver(client, "/webhooks", "crawl.page", data__0__markdown="old")
        await deliver(client, "/webhooks", "crawl.page", data__0__markdown="new \ud83d", webhookId="another")
        await deliver(client, "/webhooks", "crawl.page.error")
        await deliver(client, "/webhooks", "batch_scrape.page")
        await program.heard("attempt_succeeded", times=3)

    with closing(sqlite3.connect(folder / "pages.db")) as db:
        rows = db.execute("select url, status, markdown from pages order by url").fetchall()
    assert rows[1] == ("https://example.com/prices", 200, "new ?")
    assert [url for url, _, _ in rows] == ["https://example.com/guides/winter", "https://example.com/prices"]


@pytest.mark.parametrize("name", ["fastapi_app.py", "starlette_app.py"])
async def test_mounted_in_another_app(folder: Path, name: str) -> None:
    """Deliveries and the app's own routes share a server; a worker beside it runs the handlers."""
    serve, work = commands_of(name)
    async with serving(serve, folder, below="/hooks") as (_, client), running(work, folder) as worker:
        own = await client.get("/prices/gear-tune")
        first = await deliver(client, "/hooks/webhooks", "crawl.page")
        again = await deliver(client, "/hooks/webhooks/", "crawl.page")
        forged = await client.post("/hooks/webhooks", content=b"{}")
        await worker.heard("indexed https://example.com/prices, 1111 characters")

    assert own.json() == {"product": "gear-tune", "price": "£21"}
    assert (first.status_code, first.json()["status"]) == (200, "accepted")
    assert (again.status_code, again.json()["status"]) == (200, "duplicate")
    assert forged.status_code == 401
    assert worker.process.returncode == 0, worker.log


async def test_parse_event_alone(folder: Path) -> None:
    """It needs no settings, reads files or standard input, and says which of them is no payload."""
    (command,) = commands_of("parse_event_alone.py")

    assert await _run(command, folder) == (
        0,
        "crawl.page of job 019f2c10-0001-7a00-8b00-000000001eef (CrawlPage)\n"
        "  https://example.com/prices answered 200, 1111 characters of Markdown\n",
        "",
    )
    code, output, errors = await _run(command[:2], folder, encode(load_sample("monitor.page")))
    assert (code, errors) == (0, "")
    assert output.endswith("  https://example.com/prices is changed\n")
    code, output, errors = await _run(command[:2], folder, b"{}")
    assert (code, output) == (1, "")
    assert errors.startswith("-: the body has no `type`")


async def test_every_operation(folder: Path) -> None:
    """Each of the client's operations is called once or more, against a service that answers like the real one."""
    (command,) = commands_of("every_operation.py")
    with serving_stub(answer_like_the_service) as stub:
        ours = {"API_KEY": "fc-1", "BASE_URL": stub.address, "PUBLIC_URL": "https://hooks.example.com"}
        code, output, errors = await _run(command, folder, b"", **{f"RECEIVER_{name}": ours[name] for name in ours})

    assert (code, errors) == (0, "")
    assert "scraped https://example.com for 1 to 1 credits: 1 links\n" in output
    assert "read a file: m\nURLs found: 1 by a map, 2 by a search\n" in output
    assert "2 pages, 0 failed, 0 forbidden\n0 crawls under way\nit was over\n" in output
    assert "https://example.com changed\n3 jobs in the queue\n" in output
    source = (EXAMPLES / "every_operation.py").read_text(encoding="utf-8")
    operations = {name for name, value in vars(Client).items() if hasattr(value, "__wrapped__")}
    assert operations == {name for name in operations if f"client.{name}(" in source}
    webhooks = [one.body["webhook"] for one in stub.connections if one.body and "webhook" in one.body]
    assert [webhook.get("events") for webhook in webhooks] == [
        ["page", "completed"],
        None,
        ["action", "completed", "failed"],
        ["monitor.check.completed"],
    ]


def answer_like_the_service(connection: Connection) -> None:
    """Answer the example's requests."""
    page = {"markdown": "m", "links": ["l"], "metadata": {"sourceURL": "https://example.com"}}
    check = {"id": "c", "status": "completed", "pages": [{"url": "https://example.com", "status": "changed"}]}
    match connection.method, connection.path.partition("?")[0].split("/")[2:]:
        case "DELETE", ["crawl", _]:
            connection.answer(409, {"error": "Crawl already completed"})
        case _, [*_, "errors"]:
            connection.answer(200, {"errors": [], "robotsBlocked": []})
        case _, [*_, "active"]:
            connection.answer(200, {"success": True, "crawls": []})
        case "GET", ["crawl" | "batch", *_] if "skip" not in connection.path:
            more = f"https://elsewhere.example{connection.path.partition('?')[0]}?skip=1"
            connection.answer(200, {"success": True, "status": "completed", "data": [page], "next": more})
        case "GET", ["crawl" | "batch", *_]:
            connection.answer(200, {"success": True, "status": "completed", "data": [page]})
        case "GET", ["monitor"] | ["monitor", _, "checks"]:
            connection.answer(200, {"success": True, "data": []})
        case _, ["monitor", _, *rest] if rest:
            connection.answer(200, {"success": True, "data": check})
        case _, ["scrape" | "parse"]:
            connection.answer(200, {"success": True, "data": page})
        case _:
            hits = [{"url": "https://example.com"}, {"url": "https://example.com/prices"}]
            data = {"id": "m", "name": "n", "web": hits}
            found = {"success": True, "id": "j", "status": "done", "data": data, "links": hits[:1]}
            connection.answer(200, {**found, "jobsInQueue": 3})


@pytest.mark.parametrize(("name", "passed"), [("test_own_router.py", 4), ("test_scheduled_jobs.py", 3)])
async def test_tests_of_examples(folder: Path, name: str, passed: int) -> None:
    """Its tests pass, in a folder where nothing else says how pytest is to run."""
    (command,) = commands_of(name)

    code, output, errors = await _run([*command, "-p", "no:cacheprovider"], folder)

    assert code == 0, output + errors
    assert f" {passed} passed" in output


class _FakeScope:
    """What `sentry_sdk.new_scope()` gives, as far as the example uses it."""

    def __init__(self, told: list[Any]) -> None:
        self.told = told
        self.set_tag = self.set_context = lambda name, value: told.append((name, value))
        self.capture_exception = told.append

    def __enter__(self) -> "_FakeScope":
        return self

    def __exit__(self, *_: object) -> None: ...


@contextmanager
def imported(name: str) -> Iterator[ModuleType]:
    """Import an example, and disconnect afterwards what it connects."""
    spec = importlib.util.spec_from_file_location(f"imported_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    watched: tuple[signals.Signal[Any], ...] = (signals.work_done, signals.work_dead)
    before = [tuple(one.subscribers) for one in watched]
    try:
        spec.loader.exec_module(module)
        yield module
    finally:
        for signal, kept in zip(watched, before, strict=True):
            for subscriber in [one for one in signal.subscribers if one not in kept]:
                signal.disconnect(subscriber)


WORK: dict[str, Any] = {
    "work_id": 1,
    "handler": HandlerName("save"),
    "id": DeliveryKey("w-1"),
    "type": "crawl.page",
    "job_id": "j",
    "attempt": 8,
    "trigger": Trigger.RETRY,
    "at": NOON,
    "received_at": NOON,
}


def test_errors_to_sentry(monkeypatch: pytest.MonkeyPatch) -> None:
    """The exception itself arrives, with the handler and the delivery beside it."""
    told: list[Any] = []
    fake: Any = ModuleType("sentry_sdk")
    fake.init, fake.new_scope = lambda: told.append("init"), lambda: _FakeScope(told)
    monkeypatch.setitem(sys.modules, "sentry_sdk", fake)
    error = ValueError("no text")
    with imported("errors_to_sentry"):
        signals.work_dead.emit(signals.WorkDead(**WORK, error="ValueError: no text", exception=error))
        assert signals.flush(timedelta(seconds=PATIENCE_SECONDS))

    context = ("delivery", {"id": "w-1", "job_id": "j", "attempt": 8})
    assert told == ["init", ("handler", "save"), ("event_type", "crawl.page"), context, error]


def test_incidents_to_pagerduty(monkeypatch: pytest.MonkeyPatch) -> None:
    """One is opened for a handler with dead work, and closed when the handler works again, once."""
    posted: list[Any] = []

    def post(url: str, *, json: Any, timeout: float) -> httpx.Response:
        posted.append(json)
        return httpx.Response(202, request=httpx.Request("POST", url))

    monkeypatch.setattr(httpx, "post", post)
    monkeypatch.setenv("PAGERDUTY_ROUTING_KEY", "the-key")
    with imported("incidents_to_pagerduty"):
        signals.work_done.emit(signals.WorkDone(**WORK))
        signals.work_dead.emit(signals.WorkDead(**WORK, error="ValueError: no text"))
        signals.work_done.emit(signals.WorkDone(**WORK))
        signals.work_done.emit(signals.WorkDone(**WORK))
        assert signals.flush(timedelta(seconds=PATIENCE_SECONDS))

    assert [(one["event_action"], one["dedup_key"], one["routing_key"]) for one in posted] == [
        ("trigger", "receiver/save", "the-key"),
        ("resolve", "receiver/save", "the-key"),
    ]
    assert posted[0]["payload"]["summary"] == "dead in save: ValueError: no text"


def test_every_example_is_run_here() -> None:
    """A new example needs a command in its docstring and a test above."""
    names = {path.name for path in EXAMPLES.glob("*.py")} - {"__init__.py"}

    assert names == {
        "own_router.py",
        "scheduled_jobs.py",
        "pages_to_sqlite.py",
        "fastapi_app.py",
        "starlette_app.py",
        "parse_event_alone.py",
        "every_operation.py",
        "test_own_router.py",
        "errors_to_sentry.py",
        "incidents_to_pagerduty.py",
        "test_scheduled_jobs.py",
    }
    assert all(commands_of(name) for name in names)


async def _run(
    command: list[str], folder: Path, given: bytes = b"", **variables: str
) -> tuple[int | None, str, str]:
    process = await asyncio.create_subprocess_exec(
        Path(sys.executable).parent / command[0],
        *command[1:],
        cwd=folder,
        env=environment(PYTHONUTF8="1", **variables),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(PATIENCE_SECONDS):
        output, errors = await process.communicate(given)
    return process.returncode, output.decode(), errors.decode()
