"""The files and functions of three flows, as they run: `python -m tests.flows_map [--write | --json]`.

One request from its first byte to its answer, one delivery from the store to its settled result, and one replay in
this process. Each runs several times, warm, under `sys.monitoring` (PEP 669, Python 3.12).
Shown is what ran every time, in the order of the first calls. `--write` puts the lists into CONTRIBUTING.md, and
`tests/test_flows_map.py` compares them with the trace that `--json` prints.
"""

import asyncio
import json
import os
import re
import socket
import sqlite3
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import CodeType
from typing import Any

import receiver
from receiver import Context, Router, Settings, sign
from receiver.core.clock import SystemClock
from receiver.events import CrawlPage
from receiver.service.samples import load_sample
from tests.doubles import appended, delivery
from tests.process.waiting import until

ROOT = Path(__file__).parent.parent
CONTRIBUTING = ROOT / "CONTRIBUTING.md"
RUNS = 5
SECRET = "a secret for the flows"
TITLES = {
    "request": "A request, from its first byte to its answer, with the process that writes",
    "delivery": "A delivery, from the store to its settled result",
    "replay": "`receiver replay --yes`",
}
_MONITORING: Any = getattr(sys, "monitoring", None)
Call = tuple[str, str]
"""A file below `receiver/`, and the name of a function in it. What is nested in a function counts as part of it."""


@dataclass(frozen=True, slots=True)
class Flow:
    """What ran in each of several runs of a flow, in the order of the first calls."""

    runs: Sequence[Sequence[Call]]

    @property
    def always(self) -> Sequence[Call]:
        """What ran in every run, in the order of the last one."""
        common = set(self.runs[0]).intersection(*self.runs)
        return [call for call in self.runs[-1] if call in common]

    @property
    def ever(self) -> set[Call]:
        """What ran at least once."""
        return set().union(*self.runs)

    def by_file(self) -> dict[str, list[str]]:
        """Return the functions that always ran, by their file."""
        found: dict[str, list[str]] = {}
        for file, function in self.always:
            found.setdefault(file, []).append(function)
        return found


class Trace:
    """Notes each function of the package that begins while the block runs, in all threads of this process."""

    def __init__(self) -> None:
        self.calls: dict[Call, None] = {}
        self._known: dict[CodeType, Call | None] = {}

    def __enter__(self) -> "Trace":
        _MONITORING.use_tool_id(_MONITORING.PROFILER_ID, "flows")
        _MONITORING.register_callback(_MONITORING.PROFILER_ID, _MONITORING.events.PY_START, self._started)
        _MONITORING.set_events(_MONITORING.PROFILER_ID, _MONITORING.events.PY_START)
        return self

    def __exit__(self, *_: object) -> None:
        _MONITORING.set_events(_MONITORING.PROFILER_ID, 0)
        _MONITORING.register_callback(_MONITORING.PROFILER_ID, _MONITORING.events.PY_START, None)
        _MONITORING.free_tool_id(_MONITORING.PROFILER_ID)

    def take(self) -> Sequence[Call]:
        """Return what began since the last call."""
        calls, self.calls = self.calls, {}
        return [*calls]

    def _started(self, code: CodeType, _offset: int) -> None:
        try:
            call = self._known[code]
        except KeyError:
            call = self._known[code] = named(code)
        if call is not None:
            self.calls.setdefault(call)


_PACKAGE = str(Path(receiver.__file__).parent) + os.sep


def named(code: CodeType) -> Call | None:
    """Return file and function; None for code from outside, of a module's or class's body, or without a source."""
    name = code.co_qualname.partition(".<locals>")[0]
    if not code.co_filename.startswith(_PACKAGE) or name.startswith("<"):
        return None
    return code.co_filename[len(_PACKAGE) :], name


# --- a request


async def trace_request(folder: Path) -> Flow:
    """Post to a server as `receiver serve` makes it; what the writing process runs follows what this one runs."""
    from receiver.stores.writer_process.process import open_writer_process
    from receiver.stores.writer_process.starting import start_writer
    from receiver.web.server import make_server

    settings = settings_in(folder)
    notes = folder / "writer.json"
    command = (sys.executable, "-m", "tests.flows_map", "write-traced", str(notes), settings.store, "ERROR", "text")
    open_log = partial(
        open_writer_process, settings.store, log_level="ERROR", json_logs=False, started=start_writer(command)
    )
    app = receiver.Receiver(settings, log=open_log)
    web: list[Sequence[Call]] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = make_server(
            app, read_timeout=settings.read_timeout, shutdown=settings.ack_deadline, direct=app.direct
        )
        async with app.lifespan():
            serving = asyncio.create_task(server.serve(sockets=[listener]))
            await server.listening.wait()
            reader, writer = await asyncio.open_connection(*listener.getsockname()[:2])
            with Trace() as trace:
                for number in range(RUNS + 1):
                    request = signed(sample(number), settings)
                    trace.take()
                    await post(reader, writer, request)
                    web.append(trace.take())
            writer.close()
            server.should_exit = True
            await serving
    written = [[(file, name) for file, name in run] for run in json.loads(notes.read_text(encoding="utf-8"))]
    both = zip(web, written, strict=True)  # one batch for each request
    return Flow([[*mine, *(call for call in theirs if call not in mine)] for mine, theirs in both][1:])


def signed(body: bytes, settings: Settings) -> bytes:
    """Return a signed delivery as it is sent."""
    head = (
        f"POST {settings.path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"{settings.signature_header}: {sign(body, SECRET)}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def post(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes) -> None:
    """Send one delivery, and read the answer."""
    writer.write(request)
    status = await reader.readline()
    assert b" 200 " in status, status
    length = 0
    while (line := await reader.readline()).strip():
        name, _, value = line.partition(b":")
        length = int(value) if name.lower() == b"content-length" else length
    await reader.readexactly(length)


def write_traced(notes: Path, arguments: Sequence[str]) -> None:
    """Be the process that writes; note what runs for each batch, from the one message to the next."""
    from receiver.stores.writer_process import __main__ as writing

    batches: list[Sequence[Call]] = []
    with Trace() as trace:
        answer = writing._answer_next

        def noted(*given: object) -> bool:
            trace.take()
            went_on = answer(*given)  # type: ignore[arg-type]
            if went_on:
                batches.append(trace.take())
            return went_on

        writing._answer_next = noted  # type: ignore[assignment]
        writing.main(*arguments)
    notes.write_text(json.dumps(batches), encoding="utf-8")


# --- a delivery


async def trace_delivery(folder: Path) -> Flow:
    """Let another process append deliveries one by one, while a worker runs a handler on each."""
    from receiver.running import run_worker
    from receiver.worker.upkeep.supervisor import new_worker_id

    settings, router, ran = settings_in(folder), Router(), asyncio.Queue[str]()

    @router.on(CrawlPage)
    async def handle(event: CrawlPage, ctx: Context) -> None:
        ran.put_nowait(ctx.delivery.id)

    await append(settings, 0)
    stop = asyncio.Event()
    worker = asyncio.create_task(run_worker(settings, router, stop, worker=new_worker_id()))
    await ran.get()
    await settled(settings, 1)
    runs = []
    with Trace() as trace:
        for number in range(1, RUNS + 1):
            trace.take()
            await append(settings, number)
            await ran.get()
            await settled(settings, number + 1)
            runs.append(trace.take())
    stop.set()
    await worker
    return Flow(runs)


async def append(settings: Settings, number: int) -> None:
    """Append a delivery in another process, whose functions are not this flow's."""
    program = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.flows_map", "append", settings.store, str(number)), cwd=ROOT
    )
    assert await program.wait() == 0


async def settled(settings: Settings, count: int) -> None:
    """Return when the file of the database has so many work items that are done."""
    with closing(sqlite3.connect(settings.store.removeprefix("sqlite:///"))) as connection:
        query = "SELECT count(*) FROM work_items WHERE state = 'done'"
        await until(lambda: connection.execute(query).fetchone()[0] == count, "the end of the work")


async def append_here(store: str, number: int) -> None:
    """Append one sample to the store at this address."""
    from receiver.stores import open_store

    async with open_store(store).log() as log:
        await appended(log, delivery(f"flow-{number}", body=sample(number), received_at=SystemClock().now()))


# --- a replay


def trace_replay(folder: Path) -> Flow:
    """Run the command several times in this process, on one stored delivery."""
    from receiver.cli import main

    settings = settings_in(folder)
    asyncio.run(append_here(settings.store, 0))
    (folder / "flow_handlers.py").write_text(
        "from receiver import Router\nrouter = Router()\n\n@router.on('*')\nasync def handle(event): pass\n",
        encoding="utf-8",
    )
    arguments = ["replay", "--yes", "--store", settings.store, "--handlers", "flow_handlers:router"]
    runs, printed = [], folder / "printed.txt"
    with working_in(folder), Trace() as trace:
        for _ in range(RUNS + 1):
            trace.take()
            with printed.open("w") as file, redirect_stdout(file), redirect_stderr(file):
                code = main.run(main.receiver.main, arguments)
            runs.append(trace.take())
            assert code == 0, printed.read_text(encoding="utf-8")
    return Flow(runs[1:])


@contextmanager
def working_in(folder: Path) -> Iterator[None]:
    """Work in a folder whose modules can be imported."""
    before, path = Path.cwd(), sys.path[:]
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)
        sys.path[:] = path


# --- all of them


def settings_in(folder: Path) -> Settings:
    """Return settings whose store is in this folder."""
    return Settings(store=f"sqlite:///{folder / 'flows.db'}", secrets=(SECRET,), handlers="flow_handlers:router")


def sample(number: int) -> bytes:
    """Return a page of a crawl with an id of its own."""
    return json.dumps({**load_sample("crawl.page"), "webhookId": f"flow-{number}"}).encode()


def trace_all() -> dict[str, Flow]:
    """Run the three flows, each in a folder of its own."""
    found = {}
    for name, traced in (
        ("request", lambda folder: asyncio.run(trace_request(folder))),
        ("delivery", lambda folder: asyncio.run(trace_delivery(folder))),
        ("replay", trace_replay),
    ):
        with TemporaryDirectory() as folder:
            found[name] = traced(Path(folder))
    return found


def shown(flows: dict[str, Flow]) -> str:
    """Return the lists in Markdown."""
    parts = []
    for name, flow in flows.items():
        files = flow.by_file()
        functions = sum(map(len, files.values()))
        parts.append(
            f"### {TITLES[name]}\n\n{len(files)} files, {functions} functions.\n\n"
            + "\n".join(f"- `{file}`: {', '.join(names)}" for file, names in files.items())
        )
    return "\n\n".join(parts) + "\n"


def listed(text: str) -> dict[str, dict[str, list[str]]]:
    """Return what a text in Markdown lists for each flow: the functions by file."""
    found = {}
    for name, title in TITLES.items():
        part = text.partition(f"### {title}\n")[2].partition("\n#")[0]
        lines = re.findall(r"^- `([\w/.]+)`: (.+)$", part, re.MULTILINE)
        found[name] = {file: names.split(", ") for file, names in lines}
    return found


def main(arguments: Sequence[str]) -> None:
    """Show the flows, or put them into CONTRIBUTING.md."""
    flows = trace_all()
    text = shown(flows)
    if arguments == ["--json"]:
        json.dump({name: flow.runs for name, flow in flows.items()}, sys.stdout)
    elif arguments == ["--write"]:
        before, begin, rest = CONTRIBUTING.read_text(encoding="utf-8").partition("<!-- flows -->\n")
        _, end, after = rest.partition("<!-- end of flows -->")
        assert end, "CONTRIBUTING.md has no marks `<!-- flows -->` and `<!-- end of flows -->`"
        CONTRIBUTING.write_text(f"{before}{begin}\n{text}\n{end}{after}", encoding="utf-8")
    else:
        sys.stdout.write(text)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["write-traced", notes, *rest]:
            write_traced(Path(notes), rest)
        case ["append", store, number]:
            asyncio.run(append_here(store, int(number)))
        case arguments:
            main(arguments)
