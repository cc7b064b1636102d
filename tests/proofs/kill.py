"""Kill `receiver serve` under load, again and again on one growing database: nothing acknowledged is ever lost.

    python -m tests.proofs kill --trials 1000

Each trial ends the web process, the worker or both with SIGKILL, at a random moment of the start or under load.
A few of the same trials are part of the test suite (tests/process/test_kill.py).

This shows what a killed process loses, not what a power cut does: what the kernel has taken it keeps.
"""

import argparse
import asyncio
import random
import secrets
import shutil
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Literal

from tests.process.harness import HANDLERS, Deployment, Load, Serving, cancelled, kill, until

Victim = Literal["web", "worker", "writer", "all"]

_LONGEST_START_SECONDS = 0.7
"""Longer than a start takes here, so that every part of one is hit."""
_LONGEST_LOAD_SECONDS = 0.6
_CONNECTIONS = 3
_SHARE_DURING_START = 0.25
_SHARE_AT_WORK = 0.25
"""Of the trials; else the worker is often not so far yet when the moment comes."""
_HANDLERS = f"""{HANDLERS}    await asyncio.sleep(zlib.crc32(ctx.delivery.id.encode()) % 10 / 400)
""".replace("import os", "import asyncio, os, zlib", 1)
"""Takes some milliseconds, so that many kills come in mid-run."""
_CHECK_INTEGRITY_AFTER = frozenset(10 * 2**power for power in range(20))
"""Trials; not after each, since the whole of a growing database is read."""


class KillProof:
    """Trials on one database. Every check that fails raises AssertionError."""

    def __init__(self, folder: Path, seed: int) -> None:
        self._rng = random.Random(seed)
        self._deployment = Deployment(folder, grace="1")
        self._deployment.cold = True
        self._deployment.write_handlers(_HANDLERS)
        self.load = Load(random.Random(seed + 1))
        self.kills: Counter[str] = Counter()
        self.checked = 0
        self.retried = 0
        self._serving: Serving | None = None
        self._workers = 0  # of this run of `serve`, those that got to work and were killed
        self._stack = AsyncExitStack()
        self._unchecked: dict[str, bytes] = {}

    async def run(self, trials: int, tell: Callable[[int], None] = lambda done: None) -> None:
        """Run the trials, then start once more and check that everything is there and handled."""
        async with self._stack:
            for number, victim in zip(range(1, trials + 1), self._victims(), strict=False):
                await self._trial(victim)
                if number in _CHECK_INTEGRITY_AFTER:
                    await self._start()
                    assert self._deployment.intact(), f"the database is damaged after {number} kills"
                tell(number)
            await self._finish()

    def summary(self) -> str:
        """Say what was done and found."""
        handled = self._deployment.handled()
        kills = ", ".join(f"{victim} {count}" for victim, count in sorted(self.kills.items()))
        return (
            f"{sum(self.kills.values())} kills ({kills}); {len(self.load.acknowledged)} deliveries acknowledged, "
            f"each stored once with equal bytes and handled; {self.load.repeated} sent again after no answer, "
            f"{handled.total() - len(handled)} handled more than once; "
            f"{self.retried} had been set aside after two deaths of their workers, and were retried; "
            f"database {self._deployment.database.stat().st_size / 2**20:.0f} MiB, integrity ok"
        )

    def _victims(self) -> Iterator[Victim]:
        while True:
            yield from self._rng.sample(["web", "worker", "writer", "all"], 4)  # type: ignore[misc]  # mypy widens to str

    async def _trial(self, victim: Victim) -> None:
        if self._serving is None and victim in ("web", "all") and self._rng.random() < _SHARE_DURING_START:
            await self._kill_while_starting(victim)
            return
        serving = await self._start()
        self._check_recent()
        load = asyncio.create_task(self._load(serving))
        try:
            if self._rng.random() < _SHARE_AT_WORK:
                await serving.line("worker_started", "handlers=", times=self._workers + 1)
            if victim == "worker":
                await self._kill_worker(serving)
            elif victim == "writer":
                await self._kill_writer(serving)
            else:
                await asyncio.wait([load], timeout=self._rng.uniform(0, _LONGEST_LOAD_SECONDS))
                await self._kill_serving(serving, victim)
        finally:
            await cancelled(load)

    async def _load(self, serving: Serving) -> None:
        before = set(self.load.acknowledged)
        try:
            await self.load.run(serving.port, connections=_CONNECTIONS)
        finally:
            new = self.load.acknowledged.keys() - before
            self._unchecked |= {key: self.load.acknowledged[key] for key in new}

    async def _kill_while_starting(self, victim: Victim) -> None:
        serving = await self._stack.enter_async_context(self._deployment.serve(wait=False))
        self._serving = serving
        with suppress(TimeoutError):
            await asyncio.wait_for(serving.gone(), self._rng.uniform(0, _LONGEST_START_SECONDS))
        assert not serving.has_ended(), f"it did not start:\n{serving.output}"
        await self._kill_serving(serving, victim)

    async def _kill_worker(self, serving: Serving) -> None:
        worker = await serving.worker()
        with suppress(TimeoutError):
            await asyncio.wait_for(serving.gone(), self._rng.uniform(0, _LONGEST_LOAD_SECONDS))
        ended = sum("worker_ended" in line for line in serving.lines)
        kill(worker)
        self.kills["worker"] += 1
        await serving.line("worker_ended", times=ended + 1)
        self._workers = sum("worker_started" in line and "handlers=" in line for line in serving.lines)
        count = len(self.load.acknowledged)
        await until(lambda: len(self.load.acknowledged) > count + 20, "deliveries to be taken without a worker")

    async def _kill_writer(self, serving: Serving) -> None:
        await asyncio.sleep(self._rng.uniform(0, _LONGEST_LOAD_SECONDS))
        ended = sum("writer_ended" in line for line in serving.lines)
        kill(await serving.writer())
        self.kills["writer"] += 1
        await serving.line("writer_ended", "SIGKILL", times=ended + 1)
        count = len(self.load.acknowledged)
        await until(lambda: len(self.load.acknowledged) > count + 20, "deliveries to be taken by a new writer")

    async def _kill_serving(self, serving: Serving, victim: Victim) -> None:
        if victim == "all":
            serving.kill_all()
        else:
            serving.send_signal(signal.SIGKILL)
        self.kills[victim] += 1
        assert await serving.exit_code() == -signal.SIGKILL
        await serving.gone()  # an orphaned worker ends by itself
        self._serving = None

    async def _start(self) -> Serving:
        if self._serving is None:
            await self._stack.aclose()  # of the programs that were killed
            self._serving = await self._stack.enter_async_context(self._deployment.serve())
            self._workers = 0
        return self._serving

    def _check_recent(self) -> None:
        """Check what was acknowledged since the last time, so that a loss is found near its cause."""
        recent, self._unchecked = self._unchecked, {}
        stored = self._deployment.stored(recent)
        assert stored == recent, f"not stored as acknowledged: {[key for key in recent if key not in stored][:3]}"
        self.checked += len(recent)

    async def _finish(self) -> None:
        serving = await self._start()
        await self.load.send_again(serving.port)
        self._deployment_holds_all()
        self.retried = await self._deployment.all_handled_in_the_end()
        serving.send_signal(signal.SIGTERM)
        assert await serving.exit_code() == 0, serving.output
        await serving.gone()
        assert self._deployment.intact()
        assert self._deployment.handled().keys() == self.load.acknowledged.keys()
        assert "Traceback" not in serving.output, serving.output
        assert {answer for answer in self.load.answers if answer >= 500} <= {503}

    def _deployment_holds_all(self) -> None:
        stored = self._deployment.stored()
        self.load.check_stored(stored)
        # Everything that got no answer has been sent again by now, so there is nothing else.
        assert stored.keys() == self.load.acknowledged.keys()
        [(twice,)] = self._deployment.rows(
            "SELECT count(*) FROM (SELECT 1 FROM work_items GROUP BY delivery_seq, handler HAVING count(*) > 1)"
        )
        assert twice == 0, "a delivery has two work items for one handler"


def main(arguments: Sequence[str]) -> None:
    """Run the proof from the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.proofs kill",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--trials", type=int)
    parser.add_argument("--short", action="store_true", help="6 trials instead of 1,000")
    parser.add_argument("--seed", type=int, help="repeat the moments of another run")
    parser.add_argument("--folder", type=Path, help="keep the database here; the folder must be empty")
    options = parser.parse_args(arguments)
    trials = options.trials or (6 if options.short else 1_000)
    seed = secrets.randbits(32) if options.seed is None else options.seed
    sys.stdout.write(f"{trials} trials with --seed {seed}\n")

    def tell(done: int) -> None:
        sys.stdout.write(f"\r{done} of {trials}, {proof.checked} acknowledged deliveries checked ")
        sys.stdout.flush()

    folder = options.folder or Path(tempfile.mkdtemp(prefix="kill-proof-"))
    folder.mkdir(parents=True, exist_ok=True)
    sys.stdout.write(f"in {folder}\n")  # it stays after a failure
    proof = KillProof(folder, seed)
    asyncio.run(proof.run(trials, tell))
    sys.stdout.write(f"\n{proof.summary()}\n")
    if options.folder is None:
        shutil.rmtree(folder)
