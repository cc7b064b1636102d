"""Real processes for tests: start a command in a folder of its own, watch it, kill it, load it with deliveries.

Every process that a test starts belongs to one Program, whose block ends them all. They share one pipe as their
output, so a line there and its end (all of them have ended) can be waited for without asking again and again.
"""

import asyncio
import hashlib
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import uuid
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Protocol, Self

from receiver.core.clock import SystemClock, to_micros
from receiver.core.signing import sign
from receiver.stores.sqlite.compression import decoded
from tests.process import warm
from tests.process.warm import Finished as Finished

SECRET = "a-secret-of-the-process-tests"
PATIENCE_SECONDS = 120.0
"""How long a test waits for what must happen; only a failing test waits that long."""
_POLL_SECONDS = 0.02

POISON = "workers died or lost their leases while it ran"
"""Part of the error of a work item that is dead for that."""
_OPEN = "('waiting', 'queued', 'held', 'running')"

HANDLED = "handled"
"""File to which the usual handler appends the keys of what it has handled."""

HANDLERS = f"""
import os
from receiver import Context, Router
from receiver.events import Event

router = Router()
out = os.open({HANDLED!r}, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

@router.on("*")
async def record(event: Event, ctx: Context) -> None:
    os.write(out, ctx.delivery.key.encode() + b"\\n")
"""


async def until(
    holds: Callable[[], bool], what: str | Callable[[], str], *, within: float = PATIENCE_SECONDS
) -> None:
    """Return when the condition holds; fail, saying what was waited for, when it does not in time.

    For what nothing signals: a row in another process's database, a file that a handler writes. `what` may be a
    function that says how far it came.
    """
    try:
        async with asyncio.timeout(within):
            while not holds():  # noqa: ASYNC110 - another process changes it
                await asyncio.sleep(_POLL_SECONDS)
    except TimeoutError:
        told = what if isinstance(what, str) else what()
        raise AssertionError(f"waited {within:g} s in vain for: {told}") from None


# --- processes


class Started(Protocol):
    """A process, as `subprocess.Popen` is one."""

    pid: int

    def poll(self) -> int | None:
        """Return the exit code, negative for a signal, or None while the process runs."""

    def wait(self) -> int:
        """Return the exit code when the process has ended."""


class Program:
    """One run of a command with all processes that it starts, in a group of its own as in a terminal."""

    def __init__(self, start: Callable[[int], Started]) -> None:
        """Start the process by a function that is told where it writes its output."""
        read_end, write_end = os.pipe()
        self._read_end = read_end
        try:
            self._process = start(write_end)
        finally:
            os.close(write_end)
        self.pid = self._process.pid
        self.lines: list[str] = []
        self._news = asyncio.Condition()
        self._over = False
        self._known_children: list[int] = []

    async def __aenter__(self) -> Self:
        self._pump = asyncio.create_task(self._read_output())
        return self

    async def __aexit__(self, *_: object) -> None:
        self.kill_all()
        await asyncio.to_thread(self._process.wait)
        await asyncio.wait_for(self._pump, PATIENCE_SECONDS)

    @property
    def output(self) -> str:
        """All that the processes have written so far."""
        return "\n".join(self.lines)

    @property
    def end(self) -> str:
        """The last lines of the output, for the message of a failure."""
        return "\n".join(self.lines[-30:])

    async def line(self, *words: str, times: int = 1, within: float = PATIENCE_SECONDS) -> str:
        """Return the line number `times` that holds all these words, as soon as it is written."""

        def found() -> list[str]:
            return [line for line in self.lines if all(word in line for word in words)]

        with self._told_on_failure(f"line {times} with {words}"):
            async with asyncio.timeout(within), self._news:
                await self._news.wait_for(lambda: self._over or len(found()) >= times)
        assert len(found()) >= times, f"the program ended without line {times} with {words}:\n{self.output}"
        return found()[times - 1]

    async def gone(self) -> None:
        """Return when the program and every process it has started have ended, however that came."""
        with self._told_on_failure("the end of all processes"):
            async with asyncio.timeout(PATIENCE_SECONDS), self._news:
                await self._news.wait_for(lambda: self._over)

    async def exit_code(self) -> int:
        """Return the exit code of the program itself, negative for a signal."""
        with self._told_on_failure("the program's end"):
            async with asyncio.timeout(PATIENCE_SECONDS):
                return await asyncio.to_thread(self._process.wait)

    @contextmanager
    def unread(self) -> Iterator[None]:
        """Leave the output in its pipe for a block. Some line must have been waited for before."""
        self._transport.pause_reading()
        try:
            yield
        finally:
            self._transport.resume_reading()

    def errors(self) -> list[str]:
        """Return the lines that tell of a fault: of level error, or out of a traceback. For JSON logs."""
        return [line for line in self.lines if '"level": "error"' in line or "Traceback" in line]

    def has_ended(self) -> bool:
        """Tell whether the program itself has ended."""
        return self._process.poll() is not None

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal to the program itself."""
        self.children()
        if not self.has_ended():
            os.kill(self.pid, number)

    def send_signal_to_group(self, number: signal.Signals) -> None:
        """Send a signal as a terminal does, to what runs in the program's own process group."""
        self.children()
        os.killpg(self.pid, number)

    def kill_all(self) -> None:
        """End the program and what it has started, as suddenly as it can be."""
        if self._over:
            return  # all have ended, and their numbers may belong to others
        for child in self.children():
            kill(child)
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)

    def children(self) -> list[int]:
        """Return the processes that the program has started and that live; once it has ended, the last known."""
        if not self.has_ended():
            self._known_children = _children(self.pid)
        return self._known_children

    @asynccontextmanager
    async def _lines_of(self) -> AsyncIterator[asyncio.StreamReader]:
        reader = asyncio.StreamReader(limit=2**20)
        pipe: IO[bytes] = os.fdopen(self._read_end, "rb", buffering=0)
        self._transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), pipe
        )
        try:
            yield reader
        finally:
            self._transport.close()

    async def _read_output(self) -> None:
        async with self._lines_of() as reader:
            while line := await reader.readline():
                async with self._news:
                    self.lines.append(line.decode("utf-8", "replace").rstrip("\n"))
                    self._news.notify_all()
        async with self._news:
            self._over = True
            self._news.notify_all()

    def _told_on_failure(self, what: str) -> "_Told":
        return _Told(self, what)


class _Told:
    """Turns a time-out into a failure that shows the program's output."""

    def __init__(self, program: Program, what: str) -> None:
        self._program = program
        self._what = what

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and issubclass(kind, TimeoutError):
            raise AssertionError(f"waited in vain for {self._what}; the output ended:\n{self._program.end}")


class Serving(Program):
    """A running `receiver serve`."""

    port = 0

    async def listening(self) -> None:
        """Return when it answers /readyz with 200."""
        line = await self.line("listening", "http://")
        self.port = int(line.partition("http://127.0.0.1:")[2].partition("/")[0])
        await self.becomes_ready()

    async def becomes_ready(self) -> None:
        """Return when a write to the store succeeds."""
        with self._told_on_failure("/readyz to answer 200"):
            async with asyncio.timeout(PATIENCE_SECONDS):
                while (await get(self.port, "/readyz")).status != 200:  # noqa: ASYNC110 - as above
                    await asyncio.sleep(_POLL_SECONDS)

    async def worker(self) -> int:
        """Return the process id of the worker, once there is one."""
        await until(lambda: bool(self.children()), "a worker process")
        return self.children()[0]


def _children(pid: int) -> list[int]:
    """Return the child processes; from /proc where there is one, as images for containers often have no `ps`."""
    listed = Path(f"/proc/{pid}/task/{pid}/children")
    if listed.exists():
        with suppress(OSError):
            return [int(child) for child in listed.read_text().split()]
        return []
    rows = subprocess.run(["ps", "-axo", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    pairs = (row.split() for row in rows.splitlines())
    return [int(child) for child, parent in pairs if int(parent) == pid]


def kill(pid: int) -> None:
    """End a process that a test has started, as suddenly as it can be."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


class Deployment:
    """A folder with handlers and settings, in which commands run and see no other setting than these."""

    cold = False
    """Whether programs import all that they need, as outside of tests: for where the start itself is under test."""

    def __init__(self, folder: Path, **settings: str) -> None:
        self.folder = folder
        self.settings = {
            "SECRETS": SECRET,
            "PORT": "0",
            "LEASE": "1",
            "GRACE": "2",
            "LOG_LEVEL": "info",
        } | {name.upper(): value for name, value in settings.items()}
        self.database = folder / "receiver.db"
        self.write_handlers(HANDLERS)

    @property
    def environment(self) -> dict[str, str]:
        """The environment of every command: what a program needs to run, and our settings."""
        passed = {
            name: os.environ[name]
            for name in ("PATH", "PYTHONPATH", "HOME", "TMPDIR", "LANG")
            if name in os.environ
        }
        return passed | {f"RECEIVER_{name}": value for name, value in self.settings.items() if value}

    def write_handlers(self, text: str) -> None:
        """Put a handlers module in place, at once as a deployment tool would."""
        new = self.folder / "handlers.new"
        new.write_text(text, encoding="utf-8")
        new.replace(self.folder / "handlers.py")
        # A cached module is taken for current when its source has the same size and second of change.
        for cached in (self.folder / "__pycache__").glob("handlers.*"):
            cached.unlink()

    @asynccontextmanager
    async def start(self, *arguments: str, launcher: tuple[str, ...] = ()) -> AsyncIterator[Program]:
        """Start a `receiver` command, or another program with these arguments; its processes end with the block."""
        async with Program(self._starter(launcher, arguments)) as program:
            yield program

    @asynccontextmanager
    async def serve(
        self, *arguments: str, launcher: tuple[str, ...] = (), wait: bool = True
    ) -> AsyncIterator[Serving]:
        """Start `receiver serve`, by default until it is ready; its processes end with the block."""
        async with Serving(self._starter(launcher, ("serve", *arguments))) as serving:
            if wait:
                await serving.listening()
            yield serving

    def _starter(self, launcher: tuple[str, ...], arguments: tuple[str, ...]) -> Callable[[int], Started]:
        def warm_start(output: int) -> Started:
            return warm.start(arguments, self.folder, self.environment, stdout=output, stderr=output)

        def cold_start(output: int) -> Started:
            return subprocess.Popen(
                [sys.executable, *(launcher or ("-m", "receiver")), *arguments],
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

        return cold_start if launcher or self.cold else warm_start

    def run(
        self, *arguments: str, within: float = PATIENCE_SECONDS, environment: Mapping[str, str] | None = None
    ) -> Finished:
        """Run a command to its end, with these variables beside the settings."""
        return warm.run(arguments, self.folder, self.environment | dict(environment or {}), within=within)

    # --- what is in the store

    def rows(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        """Read the database as anybody can, beside the program."""
        with closing(self._open()) as connection:
            return connection.execute(sql, values).fetchall()

    def _open(self) -> sqlite3.Connection:
        return sqlite3.connect(f"file:{self.database}?mode=ro", uri=True, timeout=10)

    def stored(self, keys: Iterable[str] | None = None) -> dict[str, bytes]:
        """Return the digest of every stored body, or of these, by key; a key or body stored twice fails."""
        wanted = "" if keys is None else "WHERE key IN (SELECT value FROM json_each(?))"
        values = () if keys is None else (json.dumps(list(keys)),)
        sql = f"SELECT key, body, coding FROM deliveries JOIN bodies USING (seq) {wanted}"
        with closing(self._open()) as connection:
            rows = [
                (key, hashlib.sha256(decoded(body, coding, key=key)).digest())
                for key, body, coding in connection.execute(sql, values)
            ]
        stored = dict(rows)
        assert len(stored) == len(rows), "a key is stored twice"
        assert len(set(stored.values())) == len(rows), "a body is stored twice"
        return stored

    def unfinished(self) -> int:
        """Return how much is still to be done: deliveries nobody has looked at, and open work items."""
        [(new,)] = self.rows(
            "SELECT count(*) FROM deliveries WHERE seq > (SELECT value FROM marks WHERE name = 'routed')"
        )
        [(working,)] = self.rows(f"SELECT count(*) FROM work_items WHERE state IN {_OPEN}")
        return int(new) + int(working)

    def standing(self) -> str:
        """Say what is still to be done and in which state it is, for the message of a failure."""
        counts = self.rows(
            "SELECT handler, state, suspect, started, count(*), min(due_at), max(due_at) FROM work_items"
            f" WHERE state IN {_OPEN} GROUP BY 1, 2, 3, 4"
        )
        examples = self.rows(
            "SELECT id, delivery_seq, handler, state, attempts, uncounted, lost, deaths, suspect, started, due_at,"
            f" worker, lane, heads_lane, last_error FROM work_items WHERE state IN {_OPEN} ORDER BY due_at LIMIT 5"
        )
        marks = self.rows("SELECT value, (SELECT max(seq) FROM deliveries) FROM marks WHERE name = 'routed'")
        off = self.rows("SELECT name, switch FROM handlers WHERE switch <> 'on'")
        now = to_micros(SystemClock().now())
        return "\n".join(
            [
                f"{self.unfinished()} deliveries or work items are not finished at {now}; routed and last: {marks}",
                *(f"handler, state, suspect, started, how many, due from, to: {row}" for row in counts),
                *(f"for example: {row}" for row in examples),
                f"switched off: {off}",
            ]
        )

    def handled(self) -> Counter[str]:
        """Return how often the usual handler has seen each key."""
        path = self.folder / HANDLED
        return Counter(path.read_text().split()) if path.exists() else Counter()

    def work(self) -> list[tuple[str, str, int]]:
        """Return handler, state and number of attempts of every work item."""
        return [tuple(row) for row in self.rows("SELECT handler, state, attempts FROM work_items ORDER BY id")]

    def intact(self) -> bool:
        """Tell whether SQLite finds no fault in the database."""
        return self.rows("PRAGMA integrity_check") == [("ok",)]

    async def all_handled(self) -> None:
        """Return when every stored delivery is done; that may take long as long as they become fewer."""
        while left := self.unfinished():
            await self._fewer_unfinished(than=left)
        dead = self.rows("SELECT handler, attempts, last_error FROM work_items WHERE state = 'dead'")
        assert not dead, f"{len(dead)} work items are dead instead of done: {dead[:3]}"

    async def all_handled_in_the_end(self) -> int:
        """Return when every stored delivery is done, retrying what was set aside as poison; return how many were.

        A test that kills workers kills them under innocent work too, and two deaths are what tells poison.
        """
        retried = 0
        while (left := self.unfinished()) or self.poisonous():
            if poisonous := self.poisonous():
                await self.retry(poisonous)
                retried += len(poisonous)
            else:
                await self._fewer_unfinished(than=left, or_poisonous=True)
        await self.all_handled()
        return retried

    def poisonous(self) -> list[int]:
        """Return the ids of the work items that are dead because workers died while they ran."""
        dead = self.rows("SELECT id FROM work_items WHERE state = 'dead' AND last_error LIKE ?", f"%{POISON}%")
        return [work_id for (work_id,) in dead]

    async def retry(self, work_ids: Sequence[int]) -> None:
        """Have work items run again, as an operator does."""
        done = await asyncio.to_thread(self.run, "work-items", "retry", *map(str, work_ids), "--yes")
        assert done.code == 0, done.text

    async def _fewer_unfinished(self, *, than: int, or_poisonous: bool = False) -> None:
        def fewer() -> bool:
            return self.unfinished() < than or (or_poisonous and bool(self.poisonous()))

        def what() -> str:
            return f"less than {than} deliveries to be unfinished\n{self.standing()}"

        await until(fewer, what)


# --- HTTP


@dataclass(frozen=True)
class Answer:
    """A complete answer."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> dict[str, Any]:
        """Return the body, which must be a JSON object as all of ours are."""
        content = json.loads(self.body)
        assert isinstance(content, dict)
        return content


class Connection:
    """A plain connection over which a test says exactly what it wants to."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def say(self, *parts: bytes) -> None:
        """Send bytes as they are."""
        self._writer.write(b"".join(parts))
        await self._writer.drain()

    async def answer(self, *, head_only: bool = False, within: float = PATIENCE_SECONDS) -> Answer:
        """Return the next answer, all of it; raises what says that it did not come or was cut short."""
        async with asyncio.timeout(within):
            head = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            first, *lines = head.rstrip().split("\r\n")
            pairs = (line.split(": ", 1) for line in lines)
            headers = {name.lower(): value for name, value in pairs}
            length = 0 if head_only else int(headers.get("content-length", 0))
            return Answer(int(first.split()[1]), headers, await self._reader.readexactly(length))

    async def closed(self, within: float = PATIENCE_SECONDS) -> bytes:
        """Return what still came, once the other side has closed the connection."""
        async with asyncio.timeout(within):
            try:
                return await self._reader.read()
            except ConnectionError:
                return b""

    async def post(
        self, body: bytes, *, path: str = "/webhooks", headers: Iterable[tuple[str, str]] = ()
    ) -> Answer:
        """Send one signed delivery and return the answer."""
        await self.say(request(body, path=path, headers=headers))
        return await self.answer()

    def shut_down_sending(self) -> None:
        """Say that nothing more will come."""
        self._writer.write_eof()


@asynccontextmanager
async def connection(port: int) -> AsyncIterator[Connection]:
    """Open a connection for a block."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**20)
    try:
        yield Connection(reader, writer)
    finally:
        writer.close()
        with suppress(ConnectionError, BrokenPipeError):
            await writer.wait_closed()


def request(body: bytes, *, path: str = "/webhooks", headers: Iterable[tuple[str, str]] = ()) -> bytes:
    """Return a signed request as the service sends it."""
    signature = ("X-Firecrawl-Signature", sign(body, SECRET))
    return raw_request("POST", path, body, (("Content-Type", "application/json"), *headers, signature))


def raw_request(method: str, path: str, body: bytes | None, headers: Iterable[tuple[str, str]] = ()) -> bytes:
    """Return a request with exactly these headers, and a length if there is a body."""
    length = () if body is None else (("Content-Length", str(len(body))),)
    lines = [f"{method} {path} HTTP/1.1", "Host: receiver.test", *(f"{n}: {v}" for n, v in (*headers, *length))]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + (body or b"")


async def get(port: int, path: str) -> Answer:
    """Ask for a path."""
    async with connection(port) as line:
        await line.say(raw_request("GET", path, None))
        return await line.answer()


async def post(port: int, body: bytes, **more: Any) -> Answer:
    """Send one signed delivery on a connection of its own."""
    async with connection(port) as line:
        return await line.post(body, **more)


# --- load


@dataclass
class Load:
    """A sender of unique signed deliveries that remembers what was acknowledged, and sends again what was not.

    Only a complete 2xx answer counts. As from the real service, some deliveries have no webhookId, and a delivery
    that got no 2xx comes again with the same bytes.
    """

    rng: random.Random
    acknowledged: dict[str, bytes] = field(default_factory=dict)
    """Digest of the body by delivery key."""
    sent: set[bytes] = field(default_factory=set)
    """Digests of all bodies that were ever sent."""
    answers: Counter[int] = field(default_factory=Counter)
    repeated: int = 0
    _again: deque[bytes] = field(default_factory=deque)

    def body(self) -> bytes:
        """Return a new body, mostly small, at times large."""
        [size] = self.rng.choices((10, 500, 2_000, 20_000, 200_000), (40, 30, 30, 3, 1))
        content: dict[str, Any] = {
            "success": True,
            "type": "crawl.page",
            "id": str(uuid.UUID(int=self.rng.getrandbits(128))),
            "webhookId": str(uuid.UUID(int=self.rng.getrandbits(128))),
            "data": [{"markdown": self.rng.randbytes(size // 2).hex(), "metadata": {"statusCode": 200}}],
        }
        if self.rng.random() < 0.2:
            del content["webhookId"]
        return json.dumps(content).encode()

    async def run(self, port: int, *, connections: int = 6) -> None:
        """Send on several connections until cancelled, or until none of them gets through any more."""
        async with asyncio.TaskGroup() as group:
            for _ in range(connections):
                group.create_task(self._send_until_broken(port))

    async def send(self, port: int, count: int, *, connections: int = 6) -> None:
        """Send so many deliveries, once each; those that are not acknowledged are kept for the next time."""
        left = iter(range(count))

        async def some() -> None:
            async with connection(port) as line:
                for _ in left:
                    await self._send_one(line)

        async with asyncio.TaskGroup() as group:
            for _ in range(connections):
                group.create_task(some())

    async def send_again(self, port: int) -> None:
        """Send everything that was not acknowledged, as the service does some minutes later."""
        await self.send(port, len(self._again))

    async def _send_until_broken(self, port: int) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            async with connection(port) as line:
                while True:
                    await self._send_one(line)

    async def _send_one(self, line: Connection) -> None:
        if self._again:
            body = self._again.popleft()
            self.repeated += 1
        else:
            body = self.body()
        digest = hashlib.sha256(body).digest()
        self.sent.add(digest)
        try:
            answer = await line.post(body)
        except BaseException:
            self._again.append(body)
            raise
        self.answers[answer.status] += 1
        if not 200 <= answer.status < 300:
            self._again.append(body)
            return
        key = json.loads(body).get("webhookId", f"sha256:{digest.hex()}")
        assert answer.json()["id"] == key
        self.acknowledged[key] = digest

    def check_stored(self, stored: dict[str, bytes]) -> None:
        """Check that all that was acknowledged is stored as it was sent, and nothing that was never sent."""
        lost = {key for key, digest in self.acknowledged.items() if stored.get(key) != digest}
        assert not lost, f"{len(lost)} acknowledged deliveries are not stored as they were sent: {sorted(lost)[:3]}"
        assert set(stored.values()) <= self.sent, "something is stored that was not sent so"


async def cancelled(task: "asyncio.Task[None]") -> None:
    """Cancel a task and wait for its end; raises what it raised before."""
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def meanwhile(task: "asyncio.Task[None]", act: Callable[[], Awaitable[None]]) -> None:
    """Do something while a task runs, then cancel that."""
    try:
        await act()
    finally:
        await cancelled(task)
