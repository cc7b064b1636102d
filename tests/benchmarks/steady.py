"""What a steady flow costs: `python -m tests.benchmarks.steady [--json FILE]`.

Deliveries come one by one, so many in a second, to `receiver serve` and a worker. For each rate: the processor time
of the endpoint and of the worker for a delivery, and how long after its arrival the handler began. Afterwards every
delivery must be stored and handled.
"""

import argparse
import asyncio
import itertools
import sqlite3
import statistics
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.benchmarks.load import signed_requests
from tests.benchmarks.payloads import Pages
from tests.benchmarks.report import middle, table, write_json
from tests.benchmarks.servers import CONTENDERS, STORE, WORK, cpu_seconds_of_all, real_folder, running, serving

Sample = dict[str, Any]

RATES = (10, 100, 300, 1_000, 3_000)
_CONNECTIONS = 8
_HANDLER = "tests.benchmarks.noop:on_loop"
_HANDLED_SECONDS = 30
_DELAYS = """
SELECT a.started_at - d.received_at FROM attempts AS a
JOIN work_items AS w ON w.id = a.work_id JOIN deliveries AS d ON d.seq = w.delivery_seq
WHERE d.seq > ? AND w.state = 'done' ORDER BY 1
"""


def measure(folder: Path, rate: int, args: argparse.Namespace) -> Sample:
    """Send at this rate to an empty store; return what it cost."""
    with (
        serving(CONTENDERS["ours"], folder, pinned=False) as (server, port),
        running((*WORK, "--handlers", _HANDLER), folder, core=None) as worker,
    ):
        warm = asyncio.run(send(port, rate, args, seconds=args.warmup))
        _delays(folder, count=warm, after=0)
        before = cpu_seconds_of_all(server), cpu_seconds_of_all(worker)
        sent = asyncio.run(send(port, rate, args, seconds=args.seconds))
        delays = _delays(folder, count=sent, after=warm)
        used = cpu_seconds_of_all(server) - before[0], cpu_seconds_of_all(worker) - before[1]
    return {
        "rate": rate,
        "endpoint_us": used[0] * 1e6 / sent,
        "worker_us": used[1] * 1e6 / sent,
        "begun_p50_ms": statistics.median(delays) / 1e3,
        "begun_p99_ms": delays[len(delays) * 99 // 100] / 1e3,
        "handled_all": len(delays) == sent,
    }


async def send(port: int, rate: int, args: argparse.Namespace, *, seconds: float) -> int:
    """Send deliveries at equal distances, and return how many when all are acknowledged."""
    count = max(1, round(rate * seconds))
    requests = [b"".join(parts) for parts in itertools.islice(signed_requests(Pages(args.size)), count)]
    waiting: asyncio.Queue[bytes] = asyncio.Queue()
    async with asyncio.TaskGroup() as group:
        connections = [group.create_task(_keep_sending(port, waiting)) for _ in range(_CONNECTIONS)]
        begin = time.perf_counter()
        for number, request in enumerate(requests):
            await asyncio.sleep(begin + number / rate - time.perf_counter())
            waiting.put_nowait(request)
        await waiting.join()
        for one in connections:
            one.cancel()
    return count


async def _keep_sending(port: int, waiting: "asyncio.Queue[bytes]") -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    while True:
        writer.write(await waiting.get())
        head = await reader.readuntil(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200 "):
            raise RuntimeError(f"not acknowledged: {head[:40]!r}")
        await reader.readuntil(b"}")
        waiting.task_done()


def _delays(folder: Path, *, count: int, after: int) -> Sequence[int]:
    """Return how many microseconds after their arrival handlers began, the shortest first, when all are handled."""
    until = time.monotonic() + _HANDLED_SECONDS
    with closing(sqlite3.connect(f"file:{folder / STORE}?mode=ro", uri=True)) as connection:
        while True:
            found = [delay for (delay,) in connection.execute(_DELAYS, (after,))]
            if len(found) == count or time.monotonic() > until:
                return found
            time.sleep(0.1)


def arguments(given: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.steady", description=__doc__)
    parser.add_argument("--rates", type=_numbers, default=RATES, help="deliveries in a second, such as 10,100")
    parser.add_argument("--size", type=int, default=1_024, help="bytes of a body")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5.0, help="length of one measurement")
    parser.add_argument("--warmup", type=float, default=1.0)
    parser.add_argument("--folder", type=Path, help="where to put the stores; must be on a real disk")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every figure of every round")
    return parser.parse_args(given)


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(","))


def main(given: Sequence[str] | None = None) -> int:
    """Run the benchmark; return 1 if a delivery was not handled."""
    args = arguments(given)
    samples: list[Sample] = []
    with real_folder(args.folder) as parent:
        for number, rate in itertools.product(range(args.rounds), args.rates):
            with real_folder(parent) as folder:
                samples.append({"round": number, **measure(folder, rate, args)})
    rows = [_row([one for one in samples if one["rate"] == rate]) for rate in args.rates]
    table(
        f"A steady flow, bodies of {args.size:,} bytes: processor time of a delivery, and when its handler began",
        rows,
    )
    write_json(args.json, {"steady": samples})
    return 0 if all(one["handled_all"] for one in samples) else 1


def _row(rounds: Sequence[Sample]) -> dict[str, object]:
    return {
        "deliveries/s": rounds[0]["rate"],
        "endpoint µs": middle(rounds, "endpoint_us"),
        "worker µs": middle(rounds, "worker_us"),
        "begun p50 ms": middle(rounds, "begun_p50_ms"),
        "begun p99 ms": middle(rounds, "begun_p99_ms"),
        "handled": "all" if all(one["handled_all"] for one in rounds) else "NOT ALL",
    }


if __name__ == "__main__":
    sys.exit(main())
