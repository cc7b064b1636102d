"""How fast stored deliveries are handled: `python -m tests.benchmarks.dispatch [--json FILE]`.

First the worker: `receiver work` runs as a process on a core of its own beside a store that holds done work
already; then deliveries lie in the database, and what counts is the time from the first attempt until the last
result is written. The handler does nothing: on the event loop, in threads, in a lane for each job of a hundred
pages, in a single lane, and given a hundred events at a time. Beside it stand Huey on SQLite, as it is and without
syncs, and, where BENCHMARK_POSTGRES names a database that may be used up, Procrastinate, each with a handler that
does nothing for the same bodies.

Then the store alone, in this process: how long one call of each of the queue's methods takes when much is stored,
done or waiting for a later time.
"""

import argparse
import asyncio
import json
import os
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from receiver.core.claims import ClaimLimits, HandlerClaim, Lease, Settlement
from receiver.core.clock import SystemClock, to_micros
from receiver.core.ports.queue import WorkQueue
from receiver.core.types import AttemptOutcome, HandlerName, Trigger, WorkerId, WorkState
from receiver.core.work import Attempt, NewWork
from receiver.stores import open_store
from tests.benchmarks.prefill import Prefill
from tests.benchmarks.queue_rivals import POSTGRES, rivals_here
from tests.benchmarks.report import middle, say, table, write_json
from tests.benchmarks.servers import STORE, WORK, cores, count, cpu_seconds, real_folder, running

Sample = dict[str, Any]

ROUTERS = {
    "async": ("on_loop", "benchmark.on_loop"),
    "sync": ("in_threads", "benchmark.in_threads"),
    "lanes": ("in_lanes", "benchmark.in_lanes"),
    "one lane": ("in_one_lane", "benchmark.in_one_lane"),
    "batches": ("in_batches", "benchmark.in_batches"),
}
"""By kind of handler: its router in `noop`, and its name in the store."""

_DONE = "SELECT count(*) FROM work_items WHERE handler = '{}' AND state = 'done'"
_OPEN = """
SELECT (SELECT max(seq) FROM deliveries) - (SELECT value FROM marks WHERE name = 'routed')
    + EXISTS (SELECT 1 FROM work_items WHERE state = 'waiting' AND handler = '{0}' AND due_at < {1})
    + EXISTS (SELECT 1 FROM work_items WHERE state = 'queued' AND handler = '{0}')
    + EXISTS (SELECT 1 FROM work_items WHERE state = 'running' AND handler = '{0}')
"""
"""Each part has an index: to read all items takes longer than to handle some, and would be measured too."""
_SOON_MICROS = 600_000_000
"""Work that waits in a store from the start is due much later."""
_LAST_WORK = "SELECT max(id) FROM work_items"
_BEGUN = "SELECT min(started_at) FROM attempts WHERE work_id > {}"
_LONGEST_SECONDS = 300
_POLL_SECONDS = 0.002
_OTHERS = "benchmark.past"
_WORKER = WorkerId("benchmark")
_MOST_BYTES = 2**30


@dataclass(frozen=True, slots=True)
class Past:
    """What a store holds before anything is measured."""

    done: int
    waiting: int = 0

    def __str__(self) -> str:
        return f"{self.done:,} done" + (f", {self.waiting:,} waiting" if self.waiting else "")

    def make(self, path: Path, size: int) -> Prefill:
        """Make the store."""
        prefill = Prefill(path, size)
        prefill.past_done(self.done, _OTHERS)
        for _, handler in ROUTERS.values():
            prefill.past_waiting(self.waiting // len(ROUTERS), handler)
        os.sync()
        return prefill


# --- the worker


def drain(args: argparse.Namespace, parent: Path) -> list[Sample]:
    """Measure the worker with every kind of handler, round by round. Each round has a store of its own."""
    samples = []
    for past in pasts(args):
        for number in range(args.rounds):
            with real_folder(parent) as folder:
                prefill = past.make(folder / STORE, args.size)
                for kind in ROUTERS:
                    sample = _drain(kind, folder, prefill, args.deliveries)
                    samples.append({"round": number, "stored": str(past), "handler": kind, **sample})
                    _progress(samples[-1], quiet=args.quiet)
    return samples


def compete(args: argparse.Namespace, parent: Path) -> list[Sample]:
    """Measure what others do with as many bodies in an empty store."""
    samples = []
    for number in range(args.rounds):
        for rival in rivals_here():
            with real_folder(parent) as folder:
                sample = _compete(rival, folder, args)
            samples.append({"round": number, "stored": str(Past(0)), "handler": rival, **sample})
            _progress(samples[-1], quiet=args.quiet)
    return samples


def _compete(rival: str, folder: Path, args: argparse.Namespace) -> Sample:
    command = ("-m", "tests.benchmarks.queue_rivals", rival, str(args.deliveries), str(args.size))
    postgres = {POSTGRES: os.environ[POSTGRES]} if POSTGRES in os.environ else {}
    with running(command, folder, core=cores()[0], environment=postgres) as process:
        output, _ = process.communicate()
    if process.returncode:
        raise RuntimeError(f"{rival} ended with {process.returncode}")
    sample: Sample = json.loads(output)
    return sample


def _progress(sample: Sample, *, quiet: bool) -> None:
    if not quiet:
        say(f"{sample['handler']:<14} {sample['stored']:<28} {sample['handled_per_second']:>8,.0f} /s")


def _drain(kind: str, folder: Path, prefill: Prefill, deliveries: int) -> Sample:
    """Let a fresh worker handle so many deliveries; return how fast, and whether each is done."""
    router, handler = ROUTERS[kind]
    path = folder / STORE
    done = count(path, _DONE.format(handler))
    command = (*WORK, "--handlers", f"tests.benchmarks.noop:{router}")
    with running(command, folder, core=cores()[0]) as worker:
        prefill.new(1)  # it is ready once it has handled one
        _await_empty(path, handler)
        used = cpu_seconds(worker)
        last = count(path, _LAST_WORK)
        prefill.new(deliveries)
        _await_empty(path, handler)
        ended = to_micros(SystemClock().now())
        used = cpu_seconds(worker) - used
    seconds = (ended - count(path, _BEGUN.format(last))) / 1e6
    return {
        "handled_per_second": deliveries / seconds,
        "worker_cpu_us": used / deliveries * 1e6,
        "handled": count(path, _DONE.format(handler)) - done,
        "expected": deliveries + 1,
    }


def _await_empty(path: Path, handler: str) -> None:
    """Return when no delivery is unrouted and no work of this handler is due."""
    query = _OPEN.format(handler, to_micros(SystemClock().now()) + _SOON_MICROS)
    deadline = time.monotonic() + _LONGEST_SECONDS
    while count(path, query):
        if time.monotonic() > deadline:
            raise RuntimeError("the worker does not get through")
        time.sleep(_POLL_SECONDS)


# --- the store alone


async def time_calls(args: argparse.Namespace, parent: Path) -> list[Sample]:
    """Time the queue's methods on every store."""
    rows = []
    for past in pasts(args):
        with real_folder(parent) as folder:
            prefill = past.make(folder / STORE, args.size)
            async with open_store(f"sqlite:///{folder / STORE}").queue() as queue:
                timer = _Calls(queue, prefill, args)
                rows.append({"stored": str(past), **await timer.idle(), **await timer.busy()})
    return rows


class _Calls:
    """Times calls of one queue, in microseconds, medians over several."""

    def __init__(self, queue: WorkQueue, prefill: Prefill, args: argparse.Namespace) -> None:
        self._queue = queue
        self._prefill = prefill
        self._batch = args.batch
        self._repeat = args.repeat
        self._clock = SystemClock()
        self._handler = HandlerName(ROUTERS["async"][1])

    async def idle(self) -> Sample:
        """Ask when there is nothing to do."""
        return {
            "claim, none due": await self._typical(self._claim),
            "unrouted, none": await self._typical(self._unrouted),
            "next due": await self._typical(self._next_due),
        }

    async def busy(self) -> Sample:
        """Take one batch after another through all its states; figures are for one delivery."""
        taken: dict[str, list[float]] = {"unrouted": [], "route": [], "give back": [], "claim": [], "settle": []}

        async def timed(name: str, call: Awaitable[Any]) -> Any:
            started = time.perf_counter()
            result = await call
            taken[name].append((time.perf_counter() - started) * 1e6 / self._batch)
            return result

        for _ in range(self._repeat):
            self._prefill.new(self._batch)
            batch = await timed("unrouted", self._unrouted())
            work = [NewWork(stored.seq, self._handler) for stored in batch.deliveries]
            now = self._clock.now()
            ids = await timed("route", self._queue.route(batch, work, lease=self._lease(), now=now))
            await timed("give back", self._queue.release_leases(ids, _WORKER, now=self._clock.now()))
            items = await timed("claim", self._claim())
            await timed("settle", self._queue.settle([self._success(item.id, item.attempt) for item in items]))
        return {f"{name} each of {self._batch}": statistics.median(times) for name, times in taken.items()}

    def _claim(self) -> Awaitable[Any]:
        wanted = ClaimLimits(self._batch, _MOST_BYTES)
        claimants = [HandlerClaim(self._handler)]
        return self._queue.claim(claimants, wanted, lease=self._lease(), now=self._clock.now())

    def _next_due(self) -> Awaitable[Any]:
        return self._queue.next_due([HandlerClaim(self._handler)], now=self._clock.now())

    def _unrouted(self) -> Awaitable[Any]:
        return self._queue.routing_batch(limit=self._batch, max_bytes=_MOST_BYTES)

    def _lease(self) -> Lease:
        return Lease(_WORKER, self._clock.now() + timedelta(minutes=1))

    def _success(self, work_id: int, number: int) -> Settlement:
        now = self._clock.now()
        attempt = Attempt(number, Trigger.DELIVERY, now, now, AttemptOutcome.SUCCEEDED)
        return Settlement(work_id, self._handler, _WORKER, attempt, WorkState.DONE, now, in_lane=False)

    async def _typical(self, call: Callable[[], Awaitable[Any]]) -> float:
        times = []
        for _ in range(self._repeat):
            started = time.perf_counter()
            await call()
            times.append((time.perf_counter() - started) * 1e6)
        return statistics.median(times)


# --- the command


def pasts(args: argparse.Namespace) -> list[Past]:
    """Return the stores to measure on."""
    waiting = [Past(0, args.waiting)] if args.waiting else []
    return [*(Past(done) for done in args.stored), *waiting]


def summary(samples: Sequence[Sample]) -> list[dict[str, object]]:
    """Return a row for each store and kind of handler: medians over the rounds, and the best of them."""
    groups: dict[tuple[str, str], list[Sample]] = {}
    for sample in samples:
        groups.setdefault((sample["stored"], sample["handler"]), []).append(sample)
    return [
        {
            "stored": stored,
            "handler": handler,
            "handled/s": middle(rounds, "handled_per_second"),
            "best": max(one["handled_per_second"] for one in rounds),
            "worker cpu µs": middle(rounds, "worker_cpu_us"),
            "done": "all" if all(one["handled"] == one["expected"] for one in rounds) else "NOT ALL",
        }
        for (stored, handler), rounds in groups.items()
    ]


def arguments(given: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.dispatch", description=__doc__)
    parser.add_argument("--stored", type=_numbers, default=[0, 100_000, 1_000_000], help="done before: 0,100000")
    parser.add_argument("--waiting", type=int, default=100_000, help="in one more store, due in an hour")
    parser.add_argument("--deliveries", type=int, default=20_000, help="to be handled in one measurement")
    parser.add_argument("--size", type=int, default=2_048, help="bytes of a body")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batch", type=int, default=128, help="deliveries in one call of the store")
    parser.add_argument("--repeat", type=int, default=50, help="calls of the store; medians are shown")
    parser.add_argument("--folder", type=Path, help="where to put the stores; must be on a real disk")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every figure of every round")
    parser.add_argument("--quiet", action="store_true", help="print the tables only")
    return parser.parse_args(given)


def _numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def main(given: Sequence[str] | None = None) -> int:
    """Run the benchmark; return 1 if a delivery was not handled exactly once."""
    args = arguments(given)
    with real_folder(args.folder) as parent:
        drained = [*drain(args, parent), *compete(args, parent)]
        rows = summary(drained)
        table(f"Handled per second by one worker, bodies of {args.size:,} bytes", rows)
        calls = asyncio.run(time_calls(args, parent))
        table("Time of one call of the store, µs", calls)
    write_json(args.json, {"cores": cores(), "handled": drained, "calls": calls})
    return 0 if all(row["done"] == "all" for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
