"""The PostgreSQL store against others: `python -m tests.benchmarks.postgres [--json FILE]`.

It starts a PostgreSQL server of its own with fsync on, on a real disk; server, web processes, workers and load
programs share the cores of this machine, so the ratios within a round count, not the rates.

Acknowledgements: with PostgreSQL and one or two web processes, beside the SQLite store and the bare endpoint. Work:
deliveries that lie ready are handled by one, two and four workers, with a handler that does nothing, beside
Procrastinate and PgQueuer with as many workers on the same server. Each has its defaults, but Procrastinate runs 32
jobs at one time, as ours does; PgQueuer is measured with its fastest setting too. All workers run when the work
begins, and the time is that from the first call of a handler until the last result is in the database. Ours make
their work items in that time; those of the others lie there before. Afterwards every store must hold what was
acknowledged, and everything must have been handled once.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg

from tests.benchmarks.cores import apply_load
from tests.benchmarks.payloads import Pages
from tests.benchmarks.queue_workers import RIVALS, StartingLine
from tests.benchmarks.report import middle, say, table, write_json
from tests.benchmarks.servers import CONTENDERS, Contender, cpu_seconds, real_folder, running, serving
from tests.stores.postgres.programs import installed_programs
from tests.stores.postgres.server import Server, running_server

Sample = dict[str, Any]

SAFE = {"fsync": "on", "synchronous_commit": "on", "shared_buffers": "256MB", "max_wal_size": "4GB"}
"""What a server has that keeps what it acknowledged, and memory as people give it."""
ACKS = (("bare", 1), ("ours", 1), ("postgres", 1), ("postgres", 2))
"""Contenders and their numbers of web processes; `ours` is the SQLite store."""
OURS = {
    "ours": "tests.benchmarks.noop:on_loop",
    "batches": "tests.benchmarks.noop:in_batches",
    "waiting": "tests.benchmarks.noop:waiting",
}
"""The routers of our workers: a call for each delivery, a call for a hundred, and a call that waits for 20 ms."""
_LONGEST_SECONDS = 300
_POLL_SECONDS = 0.02

_FILL = """
WITH turn AS MATERIALIZED (SELECT 1), made AS (
    INSERT INTO receiver.deliveries (key, type, job_id, success, received_at, size)
    SELECT gen_random_uuid()::text, 'crawl.page', (%(job)s || (n %% 100)::text), true, %(now)s, length(%(body)s)
    FROM generate_series(1, %(rows)s) AS n
    RETURNING seq
)
INSERT INTO receiver.bodies (seq, headers, body) SELECT seq, '[]', %(body)s FROM made ORDER BY seq
"""
_UNRECORDED = """
SELECT (SELECT value FROM receiver.marks WHERE name = 'routed') < (SELECT max(seq) FROM receiver.deliveries)
    OR EXISTS (SELECT 1 FROM receiver.work_items WHERE state = 'running')
    OR EXISTS (SELECT 1 FROM receiver.work_items WHERE state = 'waiting')
"""
_HANDLED = "SELECT count(*), count(DISTINCT work_id), min(started_at) / 1e6 FROM receiver.attempts"
_SHARE = {"procrastinate": 0.1, "waiting": 0.2}
"""Of the deliveries, for what takes so many times as long."""
_KEPT = "SELECT count(*) FROM receiver.deliveries JOIN receiver.bodies USING (seq)"


# --- acknowledgements


def acks(server: Server, parent: Path, args: argparse.Namespace) -> list[Sample]:
    """Measure every contender, round by round."""
    samples = []
    for number in range(args.rounds):
        for name, processes in ACKS:
            with real_folder(parent) as folder:
                sample = _ack(server, name, folder, processes, args)
            samples.append({"round": number, "contender": name, "processes": processes, **sample})
            say(f"{name:<9} {processes} web process(es): {samples[-1]['requests_per_second']:>8,.0f} acks/s")
    return samples


def _ack(server: Server, name: str, folder: Path, processes: int, args: argparse.Namespace) -> Sample:
    _empty(server)
    settings = {"RECEIVER_WEB_PROCESSES": str(processes)}
    with serving(_contender(server, name), folder, environment=settings, pinned=False) as (process, port):
        warm = apply_load(port, args, seconds=args.warmup)
        used = cpu_seconds(process)
        sample = apply_load(port, args, seconds=args.seconds)
        sample["server_cpu"] = (cpu_seconds(process) - used) / args.seconds
    if name == "postgres":
        sample["kept_all"] = _number(server, _KEPT) == warm["acked"] + sample["acked"]
    return sample


def _contender(server: Server, name: str) -> Contender:
    if name != "postgres":
        return CONTENDERS[name]
    command = ("-m", "receiver", "serve", "--no-worker", "--port", "PORT", "--store", server.url)
    return replace(CONTENDERS["ours"], command=command, count=None)


# --- work


def work(server: Server, parent: Path, args: argparse.Namespace) -> list[Sample]:
    """Measure our workers and those of others, round by round."""
    samples = []
    for number in range(args.rounds):
        for name in args.queues:
            for workers in args.workers:
                with real_folder(parent) as folder:
                    _empty(server)
                    measure = _ours if name in OURS else _rival
                    sample = measure(server, folder, name, workers, args)
                samples.append({"round": number, "queue": name, "workers": workers, **sample})
                say(f"{name:<14} {workers} worker(s): {sample['handled_per_second']:>8,.0f} /s")
    return samples


def _ours(server: Server, folder: Path, name: str, workers: int, args: argparse.Namespace) -> Sample:
    command = ("-m", "receiver", "work", "--store", server.url, "--handlers", OURS[name])
    deliveries = _deliveries(name, args)
    with ExitStack() as stack:
        made = ("-m", "receiver", "store", "migrate", "--store", server.url)
        stack.enter_context(running(made, folder, core=None)).communicate()
        processes = [stack.enter_context(running(command, folder, core=None)) for _ in range(workers)]
        _await_ready(folder, workers)
        used = [cpu_seconds(one) for one in processes]
        _fill(server, deliveries, args.size)
        recorded_at = _await_recorded(server, _UNRECORDED)
        used = [cpu_seconds(one) - before for one, before in zip(processes, used, strict=True)]
    with psycopg.connect(server.url) as connection:
        row = connection.execute(_HANDLED).fetchone()
    assert row is not None
    attempts, items, first = row
    return {
        "handled_per_second": items / (recorded_at - float(first)),
        "worker_cpu_us": sum(used) / deliveries * 1e6,
        "once": attempts == items == deliveries,
    }


def _deliveries(name: str, args: argparse.Namespace) -> int:
    return int(args.deliveries * _SHARE.get(name, 1))


def _await_recorded(server: Server, unrecorded: str) -> float:
    """Return the moment at which all results were in the database."""
    deadline = time.monotonic() + _LONGEST_SECONDS
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute("SET enable_seqscan = off")
        while connection.execute(unrecorded.encode()).fetchone() == (True,):
            if time.monotonic() > deadline:
                raise RuntimeError("the workers do not get through")
            time.sleep(_POLL_SECONDS)
    return time.time()  # noqa: TID251 - compared with that of other processes


def _await_ready(folder: Path, workers: int) -> None:
    deadline = time.monotonic() + _LONGEST_SECONDS
    while (folder / "log").read_text(encoding="utf-8").count("worker_started") < workers:
        if time.monotonic() > deadline:
            raise RuntimeError("the workers do not start")
        time.sleep(_POLL_SECONDS)


def _fill(server: Server, rows: int, size: int) -> None:
    values = {"job": "job-", "rows": rows, "body": Pages(size).body(), "now": time.time_ns() // 1_000}
    with psycopg.connect(server.url) as connection:
        connection.execute(_FILL, values)


def _rival(server: Server, folder: Path, name: str, workers: int, args: argparse.Namespace) -> Sample:
    program = ("-m", "tests.benchmarks.queue_workers", name, server.url)
    deliveries = _deliveries(name, args)
    with running((*program, "fill", str(deliveries), str(args.size)), folder, core=None) as filling:
        filling.communicate()
    with ExitStack() as stack:
        processes = [stack.enter_context(running((*program, "work"), folder, core=None)) for _ in range(workers)]
        StartingLine(folder).begin(workers, _LONGEST_SECONDS)
        recorded_at = _await_recorded(server, RIVALS[name].UNRECORDED)
        ran = [json.loads(_output(one)) for one in processes]
    counts, firsts, cpu = zip(*(one.values() for one in ran if one["count"]), strict=True)
    return {
        "handled_per_second": sum(counts) / (recorded_at - min(firsts)),
        "worker_cpu_us": sum(cpu) / deliveries * 1e6,
        "once": sum(counts) == deliveries,
    }


def _output(process: "subprocess.Popen[bytes]") -> bytes:
    output, _ = process.communicate(timeout=_LONGEST_SECONDS)
    if process.returncode:
        raise RuntimeError(f"a worker ended with {process.returncode}")
    return output


# --- the server


def _empty(server: Server) -> None:
    """Leave nothing of the last measurement."""
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS receiver CASCADE")
        connection.execute("DROP SCHEMA IF EXISTS public CASCADE")
        connection.execute("CREATE SCHEMA public")
        connection.execute("CHECKPOINT")


def _number(server: Server, query: str) -> int:
    with psycopg.connect(server.url) as connection:
        rows = connection.execute(query.encode()).fetchall()
    return int(rows[0][0])


# --- the command


def ack_rows(samples: Sequence[Sample]) -> list[dict[str, object]]:
    """Return medians over the rounds, and the ratios to SQLite and to the bare endpoint within them."""
    rates = {(one["round"], one["contender"], one["processes"]): one["requests_per_second"] for one in samples}
    rows = []
    for name, processes in dict.fromkeys((one["contender"], one["processes"]) for one in samples):
        mine = [one for one in samples if (one["contender"], one["processes"]) == (name, processes)]
        to = {
            other: middle([{"r": one["requests_per_second"] / rates[one["round"], other, 1]} for one in mine], "r")
            for other in ("bare", "ours")
        }
        rows.append(
            {
                "contender": "sqlite" if name == "ours" else name,
                "web processes": processes,
                "acks/s": middle(mine, "requests_per_second"),
                "of bare": to["bare"],
                "of sqlite": to["ours"],
                "p50 ms": middle(mine, "p50_ms"),
                "p99 ms": middle(mine, "p99_ms"),
                "kept": "all" if all(one.get("kept_all", True) for one in mine) else "NOT ALL",
            }
        )
    return rows


def work_rows(samples: Sequence[Sample]) -> list[dict[str, object]]:
    """Return medians over the rounds, and the ratios to our store with as many workers."""
    rates = {(one["round"], one["queue"], one["workers"]): one["handled_per_second"] for one in samples}
    rows = []
    for name, workers in dict.fromkeys((one["queue"], one["workers"]) for one in samples):
        mine = [one for one in samples if (one["queue"], one["workers"]) == (name, workers)]
        ours = [rates.get((one["round"], "ours", workers), 0.0) for one in mine]
        ratios = [{"r": rate / one["handled_per_second"]} for rate, one in zip(ours, mine, strict=True)]
        rows.append(
            {
                "queue": name,
                "workers": workers,
                "handled/s": middle(mine, "handled_per_second"),
                "ours is": f"{middle(ratios, 'r'):.1f} times",
                "worker cpu µs": middle(mine, "worker_cpu_us"),
                "once": "all" if all(one["once"] for one in mine) else "NOT ALL",
            }
        )
    return rows


def arguments(given: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.postgres", description=__doc__)
    parser.add_argument("--size", type=int, default=2_048, help="bytes of a body")
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=4.0, help="length of one measurement of acks")
    parser.add_argument("--warmup", type=float, default=1.0)
    parser.add_argument("--deliveries", type=int, default=40_000, help="to be handled in one measurement")
    parser.add_argument("--workers", type=_numbers, default=[1, 2, 4])
    parser.add_argument("--queues", type=lambda text: text.split(","), default=[*OURS, *RIVALS])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="where to put the data; must be on a real disk")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every figure of every round")
    return parser.parse_args(given)


def _numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def main(given: Sequence[str] | None = None) -> int:
    """Run the benchmark; return 1 if something was lost, or handled twice."""
    args = arguments(given)
    programs = next(installed_programs(), None)
    if programs is None:
        say("no PostgreSQL is installed here")
        return 1
    with real_folder(args.folder) as parent:
        parent.chmod(0o755)
        with running_server(programs, SAFE, parent=parent) as server:
            sections = {"acks": acks(server, parent, args), "handled": work(server, parent, args)}
    table(f"Acknowledged per second, bodies of {args.size:,} bytes", ack_rows(sections["acks"]))
    table("Handled per second", work_rows(sections["handled"]))
    write_json(args.json, sections)
    kept = all(one.get("kept_all", True) for one in sections["acks"])
    return 0 if kept and all(one["once"] for one in sections["handled"]) else 1


if __name__ == "__main__":
    sys.exit(main())
