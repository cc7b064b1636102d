"""What several web processes give: `python -m tests.benchmarks.cores [--json FILE]`.

The same receiver with one web process and with more, and what else is deployed so, on all cores, with the load
program beside it. The rate depends on what else uses the cores, so the processor time of the server for
each acknowledgement stands beside it: a second process pays if that hardly grows and there is a core for it.
Afterwards every store must hold exactly what was acknowledged.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.benchmarks.report import middle, table, write_json
from tests.benchmarks.servers import (
    CONTENDERS,
    Contender,
    clean_environment,
    cpu_seconds_of_all,
    real_folder,
    serving,
    stored,
)

Sample = dict[str, Any]

PLACES = [("ours", 1), ("ours", 2), ("ours", 4), ("bare", 4), ("per-request", 4), ("huey", 4)]
"""Contenders and their numbers of processes."""
_WARMUP_SECONDS = 3.0
"""Time in which all web processes start; a supervisor listens before them."""


def measure(contender: Contender, folder: Path, *, processes: int, args: argparse.Namespace) -> Sample:
    """Load a contender with so many web processes; return what the load program saw and what the store holds."""
    settings = {"RECEIVER_WEB_PROCESSES": str(processes), "RIVAL_PROCESSES": str(processes)}
    with serving(contender, folder, environment=settings, pinned=False) as (server, port):
        warm = apply_load(port, args, seconds=args.warmup)
        used = cpu_seconds_of_all(server)
        sample = apply_load(port, args, seconds=args.seconds)
        used = cpu_seconds_of_all(server) - used
    kept = stored(contender, folder) in (None, warm["acked"] + sample["acked"])
    return {"cpu_ms_per_ack": used * 1_000 / sample["acked"], "kept_all": kept, **sample}


def apply_load(port: int, args: argparse.Namespace, *, seconds: float) -> Sample:
    """Run the load program against a port, on any core, and return what it saw."""
    command = (
        *(sys.executable, "-m", "tests.benchmarks.load", "--port", str(port), "--size", str(args.size)),
        *("--connections", str(args.connections), "--warmup", "0", "--seconds", str(seconds)),
    )
    done = subprocess.run(command, stdout=subprocess.PIPE, env=clean_environment(), check=True)
    sample: Sample = json.loads(done.stdout)
    return sample


def arguments(given: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.cores", description=__doc__)
    parser.add_argument("--contenders", type=_places, default=PLACES, help="name:processes, such as ours:1,huey:4")
    parser.add_argument("--size", type=int, default=2_048, help="bytes of a body")
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5.0, help="length of one measurement")
    parser.add_argument("--warmup", type=float, default=_WARMUP_SECONDS)
    parser.add_argument("--folder", type=Path, help="where to put the stores; must be on a real disk")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every figure of every round")
    return parser.parse_args(given)


def _places(text: str) -> list[tuple[str, int]]:
    return [(name, int(processes)) for name, _, processes in (part.partition(":") for part in text.split(","))]


def main(given: Sequence[str] | None = None) -> int:
    """Run the benchmark; return 1 if a store does not hold what was acknowledged."""
    args = arguments(given)
    samples: list[Sample] = []
    with real_folder(args.folder) as parent:
        for number in range(args.rounds):
            for name, processes in args.contenders:
                with real_folder(parent) as folder:
                    sample = measure(CONTENDERS[name], folder, processes=processes, args=args)
                samples.append({"round": number, "contender": name, "processes": processes, **sample})
    rows = [
        _row(name, processes, [one for one in samples if (one["contender"], one["processes"]) == (name, processes)])
        for name, processes in args.contenders
    ]
    table(f"Acknowledged per second with several web processes, bodies of {args.size:,} bytes", rows)
    write_json(args.json, {"cores": samples})
    return 0 if all(one["kept_all"] for one in samples) else 1


def _row(name: str, processes: int, rounds: Sequence[Sample]) -> dict[str, object]:
    return {
        "contender": name,
        "web processes": processes,
        "acks/s": middle(rounds, "requests_per_second"),
        "cpu ms/ack": middle(rounds, "cpu_ms_per_ack"),
        "p50 ms": middle(rounds, "p50_ms"),
        "p99 ms": middle(rounds, "p99_ms"),
        "kept": "all" if all(one["kept_all"] for one in rounds) else "NOT ALL",
    }


if __name__ == "__main__":
    sys.exit(main())
