"""Run every benchmark: `python -m tests.benchmarks [--short]`.

`--short` shows that each one still runs, and that every store holds what it should; its figures mean nothing.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.benchmarks import (
    ack,
    console,
    conversion,
    cores,
    crawl,
    dispatch,
    postgres,
    replay,
    search,
    start,
    steady,
    traces,
)
from tests.benchmarks.queue_rivals import rivals_here
from tests.benchmarks.queue_workers import RIVALS


@dataclass(frozen=True)
class Benchmark:
    """A benchmark, the arguments of its short form, and a check of the figures that this form has written."""

    main: Callable[[Sequence[str]], int]
    short: str
    complete: Callable[[dict[str, Any]], bool]


def _acks_complete(written: dict[str, Any]) -> bool:
    return [one["contender"] for one in written["acks"]] == ["bare", "ours+worker"] and bool(written["growth"])


def _dispatch_complete(written: dict[str, Any]) -> bool:
    measured = {(one["stored"], one["handler"]) for one in written["handled"]}
    kinds, rivals = ("async", "sync", "lanes", "one lane", "batches"), rivals_here()
    stores = ("0 done", "0 done, 20 waiting")
    return measured == {
        *((store, kind) for store in stores for kind in kinds),
        *(("0 done", name) for name in rivals),
    }


def _replay_complete(written: dict[str, Any]) -> bool:
    commands = [one["command"] for one in written["commands"]]
    beside = [one["beside"] for one in written["acks"]]
    return commands == list(replay.COMMANDS) and beside == ["nothing", *replay.BESIDE]


def _cores_complete(written: dict[str, Any]) -> bool:
    return [(one["contender"], one["processes"]) for one in written["cores"]] == [("ours", 2), ("per-request", 2)]


def _postgres_complete(written: dict[str, Any]) -> bool:
    queues = {(one["queue"], one["workers"]) for one in written["handled"]}
    contenders = [(one["contender"], one["processes"]) for one in written["acks"]]
    expected = {(name, 2) for name in (*postgres.OURS, *RIVALS)}
    return queues == expected and contenders == list(postgres.ACKS)


def _console_complete(written: dict[str, Any]) -> bool:
    besides = [one["beside"] for one in written["acks"]]
    return besides == [console.NONE, console.TABS] and all(one["steps"] >= 0 for one in written["pages"])


def _conversion_complete(written: dict[str, Any]) -> bool:
    return [one["converter"] for one in written["conversion"]] == list(conversion.converters())


def _crawl_complete(written: dict[str, Any]) -> bool:
    return [one["case"] for one in written["crawls"]] == [case.name for case in crawl.CASES]


def _searches_complete(written: dict[str, Any]) -> bool:
    return [one["query"] for one in written["searches"]] == [kind[0] for kind in search.KINDS]


def _starts_complete(written: dict[str, Any]) -> bool:
    return [one["program"] for one in written["starts"]] == [*start.COMMANDS, *start.SERVERS]


def _steady_complete(written: dict[str, Any]) -> bool:
    return [(one["rate"], one["handled_all"]) for one in written["steady"]] == [(20, True)]


def _traces_complete(written: dict[str, Any]) -> bool:
    return all([one["traces"] for one in written[name]] == ["off", "on"] for name in ("deliveries", "attempts"))


BENCHMARKS = {
    "ack": Benchmark(
        ack.main,
        "--sizes 2048 --connections 4 --rounds 1 --seconds 0.5 --warmup 0 --stored 100 --in-flight 1000000"
        " --contenders bare,ours+worker",
        _acks_complete,
    ),
    "console": Benchmark(
        console.main,
        "--rounds 1 --connections 2 --seconds 0.5 --warmup 0 --stored 300 --pages 2 --visits 1 --quiet",
        _console_complete,
    ),
    "conversion": Benchmark(conversion.main, "--size 3000 --rounds 1", _conversion_complete),
    "cores": Benchmark(
        cores.main,
        "--contenders ours:2,per-request:2 --connections 4 --rounds 1 --seconds 0.5 --warmup 0.5",
        _cores_complete,
    ),
    "crawl": Benchmark(crawl.main, "--pages 30", _crawl_complete),
    "dispatch": Benchmark(
        dispatch.main,
        "--stored 0 --waiting 20 --deliveries 20 --rounds 1 --batch 5 --repeat 2",
        _dispatch_complete,
    ),
    "postgres": Benchmark(
        postgres.main,
        "--connections 4 --rounds 1 --seconds 0.5 --warmup 0.2 --deliveries 40 --workers 2",
        _postgres_complete,
    ),
    "search": Benchmark(search.main, "--pages 300 --queries 3", _searches_complete),
    "replay": Benchmark(
        replay.main,
        "--deliveries 20 --rounds 1 --connections 2 --seconds 0.5 --warmup 0",
        _replay_complete,
    ),
    "start": Benchmark(start.main, "--rounds 1 --stored 20", _starts_complete),
    "steady": Benchmark(steady.main, "--rates 20 --rounds 1 --seconds 0.5 --warmup 0", _steady_complete),
    "traces": Benchmark(traces.main, "--rounds 1 --count 20", _traces_complete),
}


def main() -> int:
    """Run the benchmarks one after the other; return 1 if one of them failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("--short", action="store_true")
    short = parser.parse_args().short
    results = {name: _run_short(one) if short else one.main([]) == 0 for name, one in BENCHMARKS.items()}
    failed = [name for name, well in results.items() if not well]
    sys.stdout.write(f"{len(results) - len(failed)} benchmarks ran, failed: {', '.join(failed) or 'none'}\n")
    return 1 if failed else 0


def _run_short(benchmark: Benchmark) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        figures = Path(folder, "figures.json")
        code = benchmark.main([*benchmark.short.split(), "--json", str(figures)])
        return code == 0 and benchmark.complete(json.loads(figures.read_text(encoding="utf-8")))


if __name__ == "__main__":
    sys.exit(main())
