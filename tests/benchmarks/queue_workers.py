"""Workers of other queues: `python -m tests.benchmarks.queue_workers NAME URL fill COUNT SIZE`, or `... work`.

`work` connects, waits in the current folder until all workers may begin, and drains the queue with a handler that
does nothing. It prints as JSON how many it has handled, when the first, and the processor time.
"""

import asyncio
import json
import logging
import os
import sys
import time
from pathlib import Path
from typing import Any

from tests.benchmarks.payloads import Pages

_POLL_SECONDS = 0.002
_CONCURRENCY = 32
_SHIPPED, _TUNED = 10, 64
"""Jobs that PgQueuer takes at a time: its default, and where it was quickest here, of 10, 64, 256 and 1,000."""


class Span:
    """Counts what was handled, and when the first was."""

    def __init__(self) -> None:
        self.count = 0
        self._first = 0.0
        self._cpu = time.process_time()

    def add(self) -> None:
        """Count one."""
        self._first = self._first or time.time()  # noqa: TID251 - compared with that of other processes
        self.count += 1

    def figures(self) -> dict[str, float]:
        """Return what the benchmark adds up."""
        used = time.process_time() - self._cpu
        return {"count": self.count, "first": self._first, "cpu": used}


class StartingLine:
    """A folder in which workers say that they are ready, and wait until all may begin."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._signal = folder / "begin"

    def await_signal(self) -> None:
        """Say that this process is ready, and return when it may begin. It ends if its parent has ended."""
        (self._folder / f"ready-{os.getpid()}").touch()
        parent = os.getppid()
        while not self._signal.exists():
            if os.getppid() != parent:
                sys.exit("the benchmark has ended")
            time.sleep(_POLL_SECONDS)

    def begin(self, workers: int, seconds: float) -> None:
        """Wait for so many workers, and let them begin together. Raises RuntimeError after so many seconds."""
        deadline = time.monotonic() + seconds
        while len(list(self._folder.glob("ready-*"))) < workers:
            if time.monotonic() > deadline:
                raise RuntimeError("the workers do not start")
            time.sleep(_POLL_SECONDS)
        self._signal.touch()


class ProcrastinateQueue:
    """Procrastinate with its own connector."""

    UNRECORDED = "SELECT EXISTS (SELECT 1 FROM procrastinate_jobs WHERE status IN ('todo', 'doing'))"

    def __init__(self, url: str) -> None:
        from procrastinate import App, PsycopgConnector

        self.span = Span()
        self._app = App(connector=PsycopgConnector(conninfo=url))

        @self._app.task(name="benchmark")  # type: ignore[untyped-decorator]
        async def handle(body: str) -> None:
            self.span.add()

        self._handle = handle

    async def fill(self, bodies: list[bytes]) -> None:
        """Make the tables, and a job for each body."""
        async with self._app.open_async():
            await self._app.schema_manager.apply_schema_async()
            await self._handle.batch_defer_async(*({"body": body.decode()} for body in bodies))

    async def work(self) -> None:
        """Handle everything."""
        async with self._app.open_async():
            StartingLine(Path()).await_signal()
            self.span = Span()
            await self._app.run_worker_async(concurrency=_CONCURRENCY, wait=False, install_signal_handlers=False)


class PgQueuerQueue:
    """PgQueuer with psycopg. It removes a job when it has logged its end, which happens after the handler's."""

    UNRECORDED = "SELECT EXISTS (SELECT 1 FROM pgqueuer)"
    batch = _SHIPPED

    def __init__(self, url: str) -> None:
        self._url = url
        self.span = Span()

    async def fill(self, bodies: list[bytes]) -> None:
        """Make the tables, and a job for each body."""
        from pgqueuer import Queries

        async with await self._connect() as connection:
            queries = Queries(self._driver(connection))
            await queries.install()
            for start in range(0, len(bodies), 1_000):
                part = bodies[start : start + 1_000]
                await queries.enqueue(["benchmark"] * len(part), list(part), [0] * len(part))

    async def work(self) -> None:
        """Handle everything."""
        from pgqueuer import PgQueuer
        from pgqueuer.types import QueueExecutionMode

        async with await self._connect() as connection:
            queue = PgQueuer(self._driver(connection))

            @queue.entrypoint("benchmark")
            async def handle(job: object) -> None:
                self.span.add()

            StartingLine(Path()).await_signal()
            self.span = Span()
            await queue.run(batch_size=self.batch, mode=QueueExecutionMode.drain)

    async def _connect(self) -> Any:
        import psycopg

        return await psycopg.AsyncConnection.connect(self._url, autocommit=True)

    def _driver(self, connection: Any) -> Any:
        from pgqueuer.db import PsycopgDriver

        return PsycopgDriver(connection)


class TunedPgQueuerQueue(PgQueuerQueue):
    """PgQueuer as its user sets it who has measured. Ours is measured as it is shipped."""

    batch = _TUNED


RIVALS: dict[str, type[ProcrastinateQueue] | type[PgQueuerQueue]] = {
    "procrastinate": ProcrastinateQueue,
    "pgqueuer": PgQueuerQueue,
    "pgqueuer-64": TunedPgQueuerQueue,
}


def main() -> None:
    """Fill a queue or drain it."""
    name, url, action, *numbers = sys.argv[1:]
    logging.getLogger("procrastinate").setLevel(logging.ERROR)
    queue = RIVALS[name](url)
    if action == "fill":
        count, size = map(int, numbers)
        asyncio.run(queue.fill([Pages(size).body()] * count))
        return
    asyncio.run(queue.work())
    sys.stdout.write(json.dumps(queue.span.figures()) + "\n")


if __name__ == "__main__":
    main()
