"""What the console costs: `python -m tests.benchmarks.console [--json FILE]`.

First, acknowledgements beside ten open consoles: ten tabs listen to the stream of changes and read their page anew
at each, as a browser does. Each round has a measurement with them and one without; the ratio is that within the
round. The endpoint has a core for itself; the console, the tabs and the load program share the other.

Then, with a million deliveries, how soon the first byte of each page comes: on the first visit after the start of
the console, and on later ones; and the steps that SQLite takes for the first. Some hundreds of old work items are
dead, held, waiting or skipped. Other programs on the machine move the times, and not the steps.
"""

import argparse
import asyncio
import http.client
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

from receiver.core.clock import SystemClock
from tests.benchmarks import ack, wrk
from tests.benchmarks.console_tabs import TAB_PAGES
from tests.benchmarks.report import middle, say, table, write_json
from tests.benchmarks.servers import (
    CONTENDERS,
    STORE,
    await_port,
    cores,
    cpu_seconds,
    free_port,
    real_folder,
    running,
    serving,
    stored,
)
from tests.web.console.full_store import fill, paths, steps_of

Sample = dict[str, Any]

NONE, TABS = "no open console", f"{len(TAB_PAGES)} open consoles"
_SHOWN = 12
"""Pages in the table, the slowest."""


@contextmanager
def console(folder: Path) -> Iterator[tuple["subprocess.Popen[bytes]", int]]:
    """Start a console for the store in a folder, on the second core; gives its process and its port."""
    port = free_port()
    command = ("-m", "receiver", "console", "--console-port", str(port), "--store", f"sqlite:///{STORE}")
    with running(command, folder, core=cores()[1]) as process:
        await_port(process, port)
        yield process, port


@contextmanager
def tabs(folder: Path, port: int, *, are_open: bool) -> Iterator[None]:
    """Keep the tabs open as long as the block lasts."""
    if not are_open:
        yield
        return
    command = ("-m", "tests.benchmarks.console_tabs", str(port))
    with running(command, folder, core=cores()[1]) as process:
        assert process.stdout is not None
        process.stdout.readline()  # all of them listen
        yield


def acks(args: argparse.Namespace, parent: Path) -> list[Sample]:
    """Measure acknowledgements with open consoles and without, round by round."""
    samples: list[Sample] = []
    ours = CONTENDERS["ours"]
    for number in range(args.rounds):
        for beside in (NONE, TABS) if number % 2 == 0 else (TABS, NONE):
            with (
                real_folder(parent) as folder,
                serving(ours, folder) as (server, port),
                console(folder) as (shown, shown_port),
                tabs(folder, shown_port, are_open=beside is TABS),
            ):
                used = cpu_seconds(server), cpu_seconds(shown)
                sample = ack.apply_load(port, size=args.size, connections=args.connections, args=args)
                sample["server_cpu"], sample["console_cpu"] = (
                    cpu_seconds(server) - used[0],
                    cpu_seconds(shown) - used[1],
                )
                kept = (stored(ours, folder) or 0) - sample["acked"]
            kept_all = 0 <= kept <= sample.get("unanswered", 0)
            samples.append({"round": number, "beside": beside, "kept_all": kept_all, **sample})
            if not args.quiet:
                say(f"{beside:<16} {sample['requests_per_second']:>8,.0f} acks/s")
    return samples


def ack_rows(samples: Sequence[Sample]) -> list[dict[str, object]]:
    """Return one row without open consoles and one with them."""
    alone = {one["round"]: one["requests_per_second"] for one in samples if one["beside"] == NONE}
    return [
        {
            "beside": beside,
            "acks/s": middle(mine, "requests_per_second"),
            "ratio": middle([{"ratio": one["requests_per_second"] / alone[one["round"]]} for one in mine], "ratio"),
            "p99 ms": middle(mine, "p99_ms"),
            "cpu us/ack": middle([{"cpu": 1e6 * one["server_cpu"] / one["acked"]} for one in mine], "cpu"),
            "console cpu s": middle(mine, "console_cpu"),
            "kept": "all" if all(one["kept_all"] for one in mine) else "NOT ALL",
        }
        for beside in (NONE, TABS)
        if (mine := [one for one in samples if one["beside"] == beside])
    ]


def pages(args: argparse.Namespace, parent: Path) -> list[Sample]:
    """Measure each page of a full store."""
    samples = []
    with real_folder(parent) as folder:
        say(f"putting {args.stored:,} deliveries into a store")
        fill(folder / STORE, args.stored, rare=min(500, args.stored // 10))
        os.sync()
        for path in islice(paths(folder / STORE), args.pages):
            with console(folder) as (_, port):
                first, *later = [first_byte_ms(port, path) for _ in range(args.visits + 1)]
            steps = asyncio.run(steps_of(folder / STORE, path, SystemClock()))
            samples.append({"page": path, "first_ms": first, "later_ms": sorted(later), "steps": steps})
    return samples


def first_byte_ms(port: int, path: str) -> float:
    """Return how long the first byte of a page takes, in milliseconds."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.connect()
    begun = time.perf_counter()
    connection.request("GET", path)
    answer = connection.getresponse()
    took = time.perf_counter() - begun
    answer.read()
    connection.close()
    if answer.status != http.HTTPStatus.OK:
        raise RuntimeError(f"{path} was answered {answer.status}")
    return took * 1_000


def page_row(sample: Sample) -> dict[str, object]:
    """Return the row of a page."""
    later = sample["later_ms"]
    return {
        "page": sample["page"][:44],
        "first visit ms": sample["first_ms"],
        "p50 ms": later[len(later) // 2],
        "p99 ms": later[len(later) * 99 // 100],
        "max ms": later[-1],
        "steps": sample["steps"],
    }


def arguments(given: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.console", description=__doc__)
    parser.add_argument("--size", type=int, default=1_024, help="bytes of a body")
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4.0, help="length of one measurement of acknowledgements")
    parser.add_argument("--warmup", type=float, default=0.5)
    parser.add_argument("--load", choices=("wrk", "own"), default="wrk" if wrk.is_here() else "own")
    parser.add_argument("--stored", type=int, default=1_000_000, help="deliveries behind the pages")
    parser.add_argument("--pages", type=int, help="only so many of the pages")
    parser.add_argument("--visits", type=int, default=50, help="of each page, after the first one")
    parser.add_argument("--folder", type=Path, help="where to put the stores; must be on a real disk")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every figure of every round")
    parser.add_argument("--quiet", action="store_true", help="print the tables only")
    return parser.parse_args(given)


def main(given: Sequence[str] | None = None) -> int:
    """Run the benchmark; return 1 if a store does not hold what was acknowledged."""
    args = arguments(given)
    with real_folder(args.folder) as parent:
        sections: dict[str, Any] = {"cores": cores(), "acks": acks(args, parent)}
        table(f"Acknowledged per second, bodies of {args.size:,} bytes", ack_rows(sections["acks"]))
        sections["pages"] = pages(args, parent)
    rows = sorted(map(page_row, sections["pages"]), key=lambda row: -float(str(row["p50 ms"])))
    table(f"First bytes with {args.stored:,} deliveries, the slowest of {len(rows)} pages", rows[:_SHOWN])
    write_json(args.json, sections)
    return 0 if all(one["kept_all"] for one in sections["acks"]) else 1


if __name__ == "__main__":
    sys.exit(main())
