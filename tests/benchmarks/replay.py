"""How fast stored deliveries are gone through: `python -m tests.benchmarks.replay [--json FILE]`.

Each command runs as a user runs it, in a process of its own on one core, on a store on a real disk; from its time
that of the same command's start is taken, which `receiver replay --limit 1` shows, before anything is divided. The
handler does nothing. Then: how many deliveries a server acknowledges while such a command runs over and over beside
it, and how many it does alone; the command has the core of the load program, so part of the difference is that, as
much as a program makes that only computes. wrk leaves most of that core free; our own load program needs all of it.
"""

import argparse
import asyncio
import itertools
import multiprocessing
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from receiver.core.bulk import Imported
from receiver.core.clock import SystemClock
from receiver.core.envelope import read_envelope
from receiver.core.types import AppendOutcome
from receiver.stores import open_store
from tests.benchmarks import wrk
from tests.benchmarks.ack import apply_load
from tests.benchmarks.payloads import Pages
from tests.benchmarks.report import middle, table, write_json
from tests.benchmarks.servers import CONTENDERS, STORE, clean_environment, cores, real_folder, serving

Sample = dict[str, Any]

_CONTROL = "a program that only computes"
_OTHERS, _OTHER_STORE = "others", "others.db"
_REPLAY = ("replay", "--yes", "--handlers", "tests.benchmarks.noop:on_loop")
COMMANDS: dict[str, tuple[str, ...]] = {
    "replay": _REPLAY,
    "replay, job by job": (*_REPLAY, "--order", "job"),
    "replay --record": (*_REPLAY, "--record"),
    "enqueue": (*_REPLAY, "--enqueue"),
    "export": ("events", "export", "bundle", "--force"),
    "import": ("events", "import", "bundle", "--yes", "--store", "sqlite:///imported.db"),
    "plan": (*_REPLAY, "--dry-run"),
    "first page": ("events", "list", "--limit", "20"),
}
BESIDE = {
    _CONTROL: ("-c", "for _ in range(100_000_000): pass"),
    **{
        name: ("-m", "receiver", *COMMANDS[name])
        for name in ("first page", "plan", "export", "replay", "replay --record", "enqueue")
    },
    "import": ("-m", "receiver", "events", "import", _OTHERS, "--yes"),
}
"""What Python runs beside a server. The import brings in new deliveries until it has gone through them once."""
_WHOLE = frozenset({"plan", "first page"})
"""Commands whose time counts, and not how many deliveries they go through in a second."""
_START = (*_REPLAY, "--limit", "1")
_TOGETHER = 500


async def fill(path: Path, count: int, size: int, *, behind: int = 0) -> None:
    """Make a store with so many deliveries, behind so many that are left out of it.

    Their keys fit their bodies, as an import wants them.
    """
    store, pages, now = open_store(f"sqlite:///{path}"), Pages(size), SystemClock().now()
    bodies = (pages.head + one.tail for one in itertools.islice(pages, behind, None))
    async with store.log():
        pass
    async with store.controls() as controls:
        for start in range(0, count, _TOGETHER):
            some = itertools.islice(bodies, min(_TOGETHER, count - start))
            outcomes = await controls.import_deliveries(
                [Imported(read_envelope((), body, received_at=now)) for body in some]
            )
            if set(outcomes) != {AppendOutcome.ACCEPTED}:
                raise RuntimeError("the deliveries are not all different")


def fill_stores(folder: Path, deliveries: int, size: int) -> None:
    """Make the store, and a bundle of half as many others."""
    asyncio.run(fill(folder / STORE, deliveries, size))
    asyncio.run(fill(folder / _OTHER_STORE, deliveries // 2, size, behind=deliveries))
    if (
        run(("-m", "receiver", "events", "export", _OTHERS, "--store", f"sqlite:///{_OTHER_STORE}"), folder)["code"]
        != 0
    ):
        raise RuntimeError("the others are not exported")
    (folder / _OTHER_STORE).unlink()


def run(arguments: Sequence[str], folder: Path) -> Sample:
    """Run Python with these arguments to its end; return seconds, CPU seconds and peak of memory in MiB.

    Linux counts in the peak what this process had when it started the command, so it has to stay small.
    """
    started = time.perf_counter()
    process = _start(arguments, folder)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return {
        "code": process.returncode,
        "seconds": time.perf_counter() - started,
        "cpu_seconds": used.ru_utime + used.ru_stime,
        "peak_mib": used.ru_maxrss / 1024,
    }


def _start(arguments: Sequence[str], folder: Path) -> "subprocess.Popen[bytes]":
    process = subprocess.Popen(
        (sys.executable, *arguments),
        cwd=folder,
        env={**clean_environment(), "RECEIVER_STORE": f"sqlite:///{STORE}"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    if (core := cores()[1]) is not None:
        os.sched_setaffinity(process.pid, {core})
    return process


def time_commands(args: argparse.Namespace, folder: Path) -> list[Sample]:
    """Run every command so many times, by turns."""
    samples = []
    for _ in range(args.rounds):
        start = run(("-m", "receiver", *_START), folder)["seconds"]
        for name, command in COMMANDS.items():
            (folder / "imported.db").unlink(missing_ok=True)
            sample = run(("-m", "receiver", *command), folder)
            samples.append({"command": name, "start_seconds": start, **sample})
    return samples


def time_acks(args: argparse.Namespace, folder: Path) -> list[Sample]:
    """Load a server alone, and beside commands."""
    samples = []
    for _ in range(args.rounds):
        for name in ("nothing", *BESIDE):
            with serving(CONTENDERS["ours"], folder) as (_, port), _beside(name, folder):
                acks = apply_load(port, size=args.size, connections=args.connections, args=args)
            samples.append({"beside": name, **acks})
    return samples


@contextmanager
def _beside(name: str, folder: Path) -> Iterator[None]:
    """Run a command over and over while the block lasts, and kill the last one."""
    over = threading.Event()
    started: list[subprocess.Popen[bytes]] = []

    def go_on() -> None:
        while not over.is_set():
            started.append(_start(BESIDE[name], folder))
            started[-1].wait()

    running = threading.Thread(target=go_on)
    if name in BESIDE:
        running.start()
    try:
        yield
    finally:
        over.set()
        while running.is_alive():
            if started:
                started[-1].kill()
            running.join(0.1)


def summary(samples: Sequence[Sample], deliveries: int) -> list[dict[str, object]]:
    """Return a row for each command: medians over the rounds."""
    rows: list[dict[str, object]] = []
    for name in COMMANDS:
        rounds = [one for one in samples if one["command"] == name]
        seconds = middle(rounds, "seconds")
        rate = deliveries / max(seconds - middle(rounds, "start_seconds"), 1e-3)
        rows.append(
            {
                "command": name,
                "seconds": seconds,
                "deliveries/s": "-" if name in _WHOLE else f"{rate:,.0f}",
                "peak MiB": middle(rounds, "peak_mib"),
            }
        )
    return rows


def beside(samples: Sequence[Sample]) -> list[dict[str, object]]:
    """Return a row for each thing that ran beside the server, with the ratios to nothing and to the control."""
    rows: list[dict[str, object]] = []
    for name in dict.fromkeys(one["beside"] for one in samples):
        rounds = [one for one in samples if one["beside"] == name]
        rate = middle(rounds, "requests_per_second")
        alone, control = (
            middle([one for one in samples if one["beside"] == other], "requests_per_second")
            for other in ("nothing", _CONTROL)
        )
        ratios = {"of nothing": rate / alone, "of computing": rate / control}
        rows.append({"beside": name, "acks/s": rate, **ratios, "p99 ms": middle(rounds, "p99_ms")})
    return rows


def arguments(given: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.replay", description=__doc__)
    parser.add_argument("--deliveries", type=int, default=100_000, help="in the store")
    parser.add_argument("--size", type=int, default=2_048, help="bytes of a body")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--connections", type=int, default=64, help="of the load beside which commands run")
    parser.add_argument("--seconds", type=float, default=5.0, help="of load in one measurement")
    parser.add_argument("--warmup", type=float, default=1.0, help="seconds of load before that")
    parser.add_argument("--folder", type=Path, help="where to put the stores; must be on a real disk")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every figure of every round")
    parser.add_argument("--load", choices=("wrk", "own"), default="wrk" if wrk.is_here() else "own")
    return parser.parse_args(given)


def main(given: Sequence[str] | None = None) -> int:
    """Run the benchmark; return 1 if a command failed."""
    args = arguments(given)
    with real_folder(args.folder) as folder:
        filling = multiprocessing.get_context("spawn").Process(
            target=fill_stores, args=(folder, args.deliveries, args.size)
        )
        filling.start()
        filling.join()
        if filling.exitcode:
            return 1
        commands = time_commands(args, folder)
        table(f"{args.deliveries:,} deliveries of {args.size:,} bytes", summary(commands, args.deliveries))
        acks = time_acks(args, folder)
        table("Acks beside a command on the same store", beside(acks))
    write_json(args.json, {"cores": cores(), "commands": commands, "acks": acks})
    return 0 if all(one["code"] == 0 for one in commands) else 1


if __name__ == "__main__":
    sys.exit(main())
