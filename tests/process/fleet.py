"""Several workers alone on one database, started, stopped, killed and started again by a test."""

import json
import signal
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from tests.process.harness import POISON, Deployment, Program, connection, until

RUNS = "runs"
BEGIN = f"""
import asyncio, fcntl, os, signal, time
from contextlib import contextmanager
from pathlib import Path
from receiver import Context, Router
from receiver.events import Event

router = Router()
runs = os.open({RUNS!r}, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

def record_run(ctx):
    os.write(runs, f"{{ctx.delivery.id}} {{ctx.attempt}} {{os.getpid()}}\\n".encode())

def blocked():
    return Path(f"blocked-{{os.getpid()}}").exists()

"""
"""Beginning of handlers that record each of their runs; the test can block them in one worker."""


@dataclass(frozen=True)
class Run:
    """One run of a handler, as it has recorded itself."""

    key: str
    attempt: int
    pid: int


@dataclass
class Fleet:
    """The workers of a deployment; those that live, in the order in which they were started."""

    deployment: Deployment
    workers: list[Program] = field(default_factory=list)
    _stack: AsyncExitStack = field(default_factory=AsyncExitStack)
    _names: dict[int, str] = field(default_factory=dict)

    async def start(self, count: int = 1, *flags: str, at_work: bool = True) -> Sequence[Program]:
        """Start workers, and return them when they are at work; one that may die at once is not waited for."""
        new = [await self._start_one(flags) for _ in range(count)]
        for worker in new if at_work else ():
            await worker.line("worker_started", "handlers=")
        self.workers += new
        return new

    async def _start_one(self, flags: Sequence[str]) -> Program:
        name = f"fleet-{len(self._names) + 1}"
        program = await self._stack.enter_async_context(self.deployment.start("work", "--name", name, *flags))
        self._names[program.pid] = name
        return program

    def name(self, worker: Program) -> str:
        """Return the name of a worker, which another one may take over from."""
        return self._names[worker.pid]

    async def kill(self, worker: Program) -> None:
        """End a worker as suddenly as it can be."""
        self.workers.remove(worker)
        worker.send_signal(signal.SIGKILL)
        await worker.gone()

    async def stop(self, worker: Program) -> None:
        """End a worker as a service manager does; it must end well."""
        self.workers.remove(worker)
        worker.send_signal(signal.SIGTERM)
        assert await worker.exit_code() == 0, worker.output
        await worker.gone()
        assert "Traceback" not in worker.output

    def block(self, worker: Program) -> None:
        """Let the handlers of a worker wait from now on, if they ask `blocked()`."""
        self._blocking(worker).touch()

    def release(self, worker: Program) -> None:
        """Let the handlers of a worker go on."""
        self._blocking(worker).unlink()

    def _blocking(self, worker: Program) -> Path:
        return self.deployment.folder / f"blocked-{worker.pid}"

    def runs(self) -> list[Run]:
        """Return every run that was recorded, in this order."""
        path = self.deployment.folder / RUNS
        lines = path.read_text().splitlines() if path.exists() else ()
        return [Run(key, int(attempt), int(pid)) for key, attempt, pid in (line.split() for line in lines)]

    async def runs_more(self, worker: Program) -> None:
        """Return when a worker has started one more run than now."""

        def count() -> int:
            return sum(run.pid == worker.pid for run in self.runs())

        before = count()
        await until(lambda: count() > before, lambda: f"worker {worker.pid} to start run {before + 1}")

    async def ran(self, count: int) -> None:
        """Return when so many runs have been recorded."""
        await until(lambda: len(self.runs()) >= count, lambda: f"{count} runs, of which {len(self.runs())} came")


@asynccontextmanager
async def fleet(deployment: Deployment) -> AsyncIterator[Fleet]:
    """Give a fleet without workers; those that are started end with the block."""
    made = Fleet(deployment)
    async with made._stack:
        yield made


# --- deliveries


def page(job: str, number: int, kind: str = "crawl.page") -> bytes:
    """Return the body of one page of a job; its delivery key tells which it is."""
    content = {"success": True, "type": kind, "id": job, "webhookId": f"{job}-{number}", "data": []}
    return json.dumps(content).encode()


async def deliver(port: int, bodies: Iterable[bytes]) -> None:
    """Send deliveries one after the other, so that they arrive in this order."""
    async with connection(port) as line:
        for body in bodies:
            answer = await line.post(body)
            assert (answer.status, answer.json()["status"]) == (200, "accepted")


# --- what the store has recorded


@dataclass(frozen=True)
class Recorded:
    """One attempt of a work item, as it is recorded."""

    work_id: int
    key: str
    handler: str
    lane: str | None
    number: int
    outcome: str
    error: str | None
    started_at: int | None
    ended_at: int


def recorded(deployment: Deployment) -> list[Recorded]:
    """Return every attempt, those of a work item in their order."""
    rows = deployment.rows(
        "SELECT w.id, d.key, w.handler, w.lane, a.number, a.outcome, a.error, a.started_at, a.ended_at"
        " FROM attempts AS a JOIN work_items AS w ON w.id = a.work_id"
        " JOIN deliveries AS d ON d.seq = w.delivery_seq ORDER BY w.id, a.number"
    )
    return [Recorded(*row) for row in rows]


def check_recorded(deployment: Deployment, runs: Sequence[Run]) -> None:
    """Check that each work item is done after one success, its last attempt, and that every attempt ran once.

    Before it there may be attempts whose worker died, and refusals to try once more. They are numbered without a
    gap. The keys of the runs say which handler ran.
    """
    states = {work_id: (state, count) for work_id, state, count in _states(deployment)}
    attempts: dict[int, list[Recorded]] = defaultdict(list)
    for attempt in recorded(deployment):
        attempts[attempt.work_id].append(attempt)
    assert {state for state, _ in states.values()} == {"done"}
    for work_id, (_, count) in states.items():
        *before, last = attempts[work_id]
        assert [one.number for one in attempts[work_id]] == list(range(1, count + 1)), attempts[work_id]
        assert last.outcome == "succeeded", attempts[work_id]
        assert all(one.outcome == "lost" or POISON in (one.error or "") for one in before), attempts[work_id]
    ran = [(run.key, run.attempt) for run in runs]
    assert len(set(ran)) == len(ran), "an attempt ran twice"
    known = {(one.key, one.number) for of_one in attempts.values() for one in of_one}
    assert set(ran) <= known, "something ran that is not recorded"


def _states(deployment: Deployment) -> list[tuple[int, str, int]]:
    return [tuple(row) for row in deployment.rows("SELECT id, state, attempts FROM work_items")]


def check_order(deployment: Deployment) -> None:
    """Check that in each lane one success began when the one before it, by arrival, had ended."""
    lanes: dict[str | None, list[Recorded]] = defaultdict(list)
    for attempt in recorded(deployment):
        if attempt.outcome == "succeeded":
            lanes[attempt.lane].append(attempt)
    for lane in lanes.values():
        for one, following in pairwise(lane):
            assert following.started_at is not None
            assert one.ended_at <= following.started_at, (one, following)
