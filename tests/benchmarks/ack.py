"""How fast deliveries are acknowledged: `python -m tests.benchmarks.ack [--json FILE]`.

Every contender is started as a process of its own, on a store of its own on a real disk, for each figure anew.
Servers, workers and the load program run on any core: the system shares the cores among them. Rounds are
interleaved, so that a noise of the machine meets all of them; shown are medians over the rounds, and the ratio to
the bare endpoint within the same round. Afterwards every store must hold exactly what was acknowledged. The load
comes from wrk where that is installed, and otherwise from a program of our own, which is slower than the servers.

Then: how the rate changes with what is stored already (`--stored`), and the server's memory at rest and with as
many bytes in flight as the settings allow.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.benchmarks import memory, wrk
from tests.benchmarks.prefill import Prefill
from tests.benchmarks.report import middle, say, table, write_json
from tests.benchmarks.servers import (
    CONTENDERS,
    STORE,
    Contender,
    clean_environment,
    contenders_here,
    cores,
    count,
    cpu_seconds_of_all,
    real_folder,
    serving,
    stored,
)

Sample = dict[str, Any]

_HANDLED = "SELECT count(*) FROM work_items WHERE state = 'done'"


def measure(contender: Contender, folder: Path, *, size: int, connections: int, args: argparse.Namespace) -> Sample:
    """Load a contender once, in this folder; return what the load program saw and what the store holds."""
    before = stored(contender, folder) if any(folder.iterdir()) else 0
    with serving(contender, folder, pinned=False) as (server, port):
        used = cpu_seconds_of_all(server)
        sample = apply_load(port, size=size, connections=connections, args=args)
        sample["server_cpu"] = (cpu_seconds_of_all(server) - used) / (args.warmup + args.seconds)
        if contender.worker:
            sample["handled_per_second"] = count(folder / STORE, _HANDLED) / (args.warmup + args.seconds)
    after = stored(contender, folder)
    sample["stored"] = None if after is None else after - (before or 0)
    more = (sample["stored"] or 0) - sample["acked"]
    sample["kept_all"] = after is None or 0 <= more <= sample.get("unanswered", 0)
    return sample


def apply_load(port: int, *, size: int, connections: int, args: argparse.Namespace) -> Sample:
    """Load a port and return what the load program saw."""
    if args.load == "wrk":
        return wrk.load(port, size=size, connections=connections, seconds=max(1, round(args.seconds)))
    command = (
        *(sys.executable, "-m", "tests.benchmarks.load", "--port", str(port), "--size", str(size)),
        *("--connections", str(connections), "--warmup", str(args.warmup), "--seconds", str(args.seconds)),
    )
    process = subprocess.Popen(command, stdout=subprocess.PIPE, env=clean_environment())
    output, _ = process.communicate()
    if process.returncode:
        raise RuntimeError(f"the load program ended with {process.returncode}")
    sample: Sample = json.loads(output)
    return sample


def compare(args: argparse.Namespace, parent: Path) -> list[Sample]:
    """Measure every contender at every size and number of connections, round by round."""
    samples = []
    for number in range(args.rounds):
        for size in args.sizes:
            for connections in args.connections:
                for name in args.contenders:
                    started = time.monotonic()
                    with real_folder(parent) as folder:
                        sample = measure(CONTENDERS[name], folder, size=size, connections=connections, args=args)
                    place = {"round": number, "size": size, "connections": connections, "contender": name}
                    samples.append({**place, **sample})
                    _progress(samples[-1], time.monotonic() - started, quiet=args.quiet)
    return samples


def grow(args: argparse.Namespace, parent: Path) -> list[Sample]:
    """Measure the rate on stores that hold something already, next to the bare endpoint."""
    samples: list[Sample] = []
    size, connections = args.sizes[0], args.connections[-1]
    for level in args.stored:
        with real_folder(parent) as folder, real_folder(parent) as empty:
            Prefill(folder / STORE, size).past_done(level, "benchmark.on_loop")
            os.sync()
            for number in range(args.rounds):
                place = {"round": number, "size": size, "connections": connections, "level": level}
                for name, where in (("bare", empty), ("ours", folder)):
                    sample = measure(CONTENDERS[name], where, size=size, connections=connections, args=args)
                    samples.append({**place, "contender": name, **sample})
                    _progress(samples[-1], 0, quiet=args.quiet)
    return samples


def _progress(sample: Sample, seconds: float, *, quiet: bool) -> None:
    if not quiet:
        say(
            f"{sample['contender']:<12} {sample['size']:>6} B {sample['connections']:>3} connections  "
            f"{sample['requests_per_second']:>8,.0f} /s  p99 {sample['p99_ms']:.2f} ms  ({seconds:.1f} s)"
        )


def summary(samples: Sequence[Sample], *keys: str) -> list[dict[str, object]]:
    """Return one row for each contender and place: medians over the rounds, ratios within them."""
    groups: dict[tuple[object, ...], list[Sample]] = {}
    for sample in samples:
        groups.setdefault((*(sample[key] for key in keys), sample["contender"]), []).append(sample)
    return [_row(dict(zip(keys, group, strict=False)), group, rounds, groups) for group, rounds in groups.items()]


def _row(
    place: dict[str, object],
    group: tuple[object, ...],
    rounds: list[Sample],
    groups: dict[tuple[object, ...], list[Sample]],
) -> dict[str, object]:
    bare = {one["round"]: one["requests_per_second"] for one in groups.get((*group[:-1], "bare"), ())}
    ratios = [{"ratio": one["requests_per_second"] / bare[one["round"]]} for one in rounds if one["round"] in bare]
    return {
        **place,
        "contender": group[-1],
        "requests/s": middle(rounds, "requests_per_second"),
        "ratio": middle(ratios, "ratio") if ratios else None,
        "p50 ms": middle(rounds, "p50_ms"),
        "p99 ms": middle(rounds, "p99_ms"),
        "max ms": max(one["max_ms"] for one in rounds),
        "server cpu": middle(rounds, "server_cpu"),
        "handled/s": middle(rounds, "handled_per_second") if "handled_per_second" in rounds[0] else "",
        "refused": sum(sum(one["refused"].values()) for one in rounds),
        "kept": "all" if all(one["kept_all"] for one in rounds) else "NOT ALL",
    }


def arguments(given: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.ack", description=__doc__)
    parser.add_argument("--sizes", type=_numbers, default=[1_024, 51_200], help="bytes of a body: 1024,51200")
    parser.add_argument("--connections", type=_numbers, default=[64], help="at one time: 1,16,64")
    parser.add_argument("--contenders", type=lambda text: text.split(","), default=contenders_here())
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0, help="length of one measurement")
    parser.add_argument("--warmup", type=float, default=0.5)
    parser.add_argument("--stored", type=_numbers, default=[0, 1_000_000], help="already there: 0,1000000")
    parser.add_argument("--no-growth", action="store_true", help="do not measure on a store that is full already")
    parser.add_argument("--no-memory", action="store_true")
    parser.add_argument("--load", choices=("wrk", "own"), default="wrk" if wrk.is_here() else "own")
    parser.add_argument("--in-flight", type=int, default=256 * 1024 * 1024, help="limit for the memory, in bytes")
    parser.add_argument("--folder", type=Path, help="where to put the stores; must be on a real disk")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every figure of every round")
    parser.add_argument("--quiet", action="store_true", help="print the tables only")
    return parser.parse_args(given)


def _numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def main(given: Sequence[str] | None = None) -> int:
    """Run the benchmark; return 1 if a store does not hold what was acknowledged."""
    args = arguments(given)
    with real_folder(args.folder) as parent:
        sections: dict[str, Any] = {"cores": cores(), "acks": compare(args, parent)}
        for size in args.sizes:
            of_size = [one for one in sections["acks"] if one["size"] == size]
            table(f"Acknowledged per second, bodies of {size:,} bytes", summary(of_size, "connections"))
        if not args.no_growth:
            sections["growth"] = grow(args, parent)
            table("The same on a store that holds deliveries already", summary(sections["growth"], "level"))
        if not args.no_memory:
            sections["memory"] = memory.measure(parent, in_flight=args.in_flight)
            table("Memory of the web process in MiB", sections["memory"])
    say()
    for contender in (CONTENDERS[name] for name in args.contenders):
        say(f"  {contender.name:<12} {contender.title}")
    write_json(args.json, sections)
    return 0 if all(one["kept_all"] for one in (*sections["acks"], *sections.get("growth", ()))) else 1


if __name__ == "__main__":
    sys.exit(main())
