"""Load `receiver serve` for a long time, and restart it now and then.

    python -m tests.proofs soak --minutes 60

Everything acknowledged is stored and handled; the memory and the open files of both processes stop growing.
"""

import argparse
import asyncio
import random
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.process.harness import Deployment, Load, Serving
from tests.process.waiting import until
from tests.proofs.resources import Use, use_of

_DELIVERIES = 1_000
"""In one round."""
_ROUNDS_WARM = 2
"""Rounds after a start in which caches fill."""
_ROUNDS_PER_START = 20
_GROWTH_MIB = 64
"""Of one process within a run; a leak of a few bytes per delivery is more in an hour."""


class Soak:
    """Rounds of load on one database. Every check that fails raises AssertionError."""

    def __init__(self, folder: Path, seed: int) -> None:
        self._deployment = Deployment(folder, grace="20", lease="60")
        self._deployment.cold = True
        self.load = Load(random.Random(seed))
        self.rounds = 0
        self.most_mib = 0.0

    async def run(self, seconds: float) -> None:
        """Load for so many seconds, and for as many rounds at least as show a growth."""
        end = time.monotonic() + seconds
        while self.rounds <= _ROUNDS_WARM or time.monotonic() < end:
            async with self._deployment.serve() as serving:
                await self._rounds(serving, end)
                serving.send_signal(signal.SIGTERM)
                assert await serving.exit_code() == 0, serving.end
                await serving.gone()
                assert "Traceback" not in serving.output, serving.end
            self.load.check_stored(self._deployment.stored())
            assert self._deployment.intact()
        assert set(self.load.answers) <= {200, 503}
        assert self._deployment.handled().keys() == self.load.acknowledged.keys()
        assert set(self._deployment.handled().values()) == {1}

    async def _rounds(self, serving: Serving, end: float) -> None:
        warm: list[Use] = []
        for number in range(_ROUNDS_PER_START):
            await self.load.send(serving.port, _DELIVERIES)
            await self.load.send_again(serving.port)
            await self._deployment.all_handled()
            self.rounds += 1
            pids = (serving.pid, await serving.writer(), await serving.worker())
            if number >= _ROUNDS_WARM:
                await _files_as_before(pids, warm)
            uses = [use_of(pid) for pid in pids]
            self.most_mib = max(self.most_mib, *(use.mib for use in uses))
            if number < _ROUNDS_WARM:
                warm = uses
                continue
            for before, now in zip(warm, uses, strict=True):
                assert now.mib < before.mib + _GROWTH_MIB, f"memory grew: {before} {now}"
            if time.monotonic() > end:
                return

    def summary(self) -> str:
        """Return what was done and seen."""
        return (
            f"{self.rounds} rounds, {len(self.load.acknowledged)} deliveries acknowledged, stored, "
            f"and handled once; at most {self.most_mib:.0f} MiB in a process"
        )


async def _files_as_before(pids: Sequence[int], before: Sequence[Use]) -> None:
    """Return when no process has more open files. A server may note later that the load has closed a connection."""

    def grown() -> list[tuple[Use, Use]]:
        uses = zip(before, map(use_of, pids), strict=True)
        return [(then, now) for then, now in uses if now.files > then.files + 2]

    await until(lambda: not grown(), lambda: f"the open files to be as few as before: {grown()}")


def main(arguments: Sequence[str]) -> None:
    """Run the proof from the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.proofs soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--short", action="store_true", help="three rounds")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        soak = Soak(Path(folder), options.seed)
        asyncio.run(soak.run(0.0 if options.short else options.minutes * 60))
    sys.stdout.write(f"{soak.summary()}\n")
