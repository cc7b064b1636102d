"""What dispatch is compared with: `python -m tests.benchmarks.queue_rivals NAME COUNT SIZE`, in the current folder.

Each puts so many bodies into its queue, then starts its worker with a handler that does nothing, and prints as JSON
how many were handled per second from the first to the last.
"""

import asyncio
import json
import logging
import os
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec

from tests.benchmarks.payloads import Pages

POSTGRES = "BENCHMARK_POSTGRES"
"""Environment variable with the address of a PostgreSQL database that may be used up."""

_THREADS = 8
_CONCURRENCY = 32
_LONGEST_SECONDS = 600


class Tally:
    """Counts what was handled, and when the first and the last were."""

    def __init__(self, expected: int) -> None:
        self._expected = expected
        self._lock = threading.Lock()
        self._count = 0
        self._first = self._last = 0.0
        self.complete = threading.Event()

    def add(self) -> None:
        """Count one."""
        with self._lock:
            self._last = time.perf_counter()
            self._first = self._first or self._last
            self._count += 1
            if self._count == self._expected:
                self.complete.set()

    def sample(self, cpu_seconds: float) -> dict[str, float]:
        """Return what the benchmark shows."""
        return {
            "handled_per_second": self._count / (self._last - self._first),
            "worker_cpu_us": cpu_seconds / self._expected * 1e6,
            "handled": self._count,
            "expected": self._expected,
        }


def huey(bodies: list[bytes], *, fsync: bool = True) -> dict[str, float]:
    """Drain a Huey queue in SQLite, with as many threads as ours has.

    It syncs each step as Huey does by default. Without `fsync` it never syncs, and a power cut may corrupt the
    database (SQLite manual, "PRAGMA synchronous"). Huey has no setting between the two.
    """
    from huey import SqliteHuey

    logging.getLogger("huey").setLevel(logging.ERROR)
    tally = Tally(len(bodies))
    queue = SqliteHuey("benchmark", filename="huey.db", fsync=fsync, results=False)

    @queue.task()  # type: ignore[untyped-decorator]
    def handle(body: bytes) -> None:
        tally.add()

    for body in bodies:
        handle(body)
    used = time.process_time()
    consumer = queue.create_consumer(workers=_THREADS, periodic=False, initial_delay=0.01, max_delay=0.05)
    consumer.start()
    tally.complete.wait(_LONGEST_SECONDS)
    used = time.process_time() - used
    consumer.stop(graceful=True)
    return tally.sample(used)


def procrastinate(bodies: list[bytes], *, concurrency: int = 1) -> dict[str, float]:
    """Drain a Procrastinate queue in PostgreSQL, with the concurrency that it has by default (its worker.py)."""
    return asyncio.run(_procrastinate(bodies, concurrency))


async def _procrastinate(bodies: list[bytes], concurrency: int) -> dict[str, float]:
    from procrastinate import App, PsycopgConnector

    tally = Tally(len(bodies))
    app = App(connector=PsycopgConnector(conninfo=os.environ[POSTGRES]))

    @app.task(name="benchmark")  # type: ignore[untyped-decorator]
    async def handle(body: str) -> None:
        tally.add()

    async with app.open_async():
        await app.connector.execute_query_async("DROP SCHEMA public CASCADE")
        await app.connector.execute_query_async("CREATE SCHEMA public")
        await app.schema_manager.apply_schema_async()
        await handle.batch_defer_async(*({"body": body.decode()} for body in bodies))
        used = time.process_time()
        await app.run_worker_async(concurrency=concurrency, wait=False, install_signal_handlers=False)
        used = time.process_time() - used
    return tally.sample(used)


RIVALS: dict[str, Callable[[list[bytes]], dict[str, float]]] = {
    "huey": huey,
    "huey without fsync": partial(huey, fsync=False),
    "procrastinate": procrastinate,
    "procrastinate with as much concurrency as ours": partial(procrastinate, concurrency=_CONCURRENCY),
}
"""By name. The first word is the package."""


def rivals_here() -> list[str]:
    """Return the names of those that can run."""
    installed = [name for name in RIVALS if find_spec(name.split()[0])]
    return [name for name in installed if not name.startswith("procrastinate") or POSTGRES in os.environ]


def main() -> None:
    """Run one and print its figures."""
    name, count, size = sys.argv[1:]
    body = Pages(int(size)).body()
    sys.stdout.write(json.dumps(RIVALS[name]([body] * int(count))) + "\n")


if __name__ == "__main__":
    main()
