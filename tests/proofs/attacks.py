"""Attack `receiver serve` while honest deliveries arrive: it survives each attack without help.

    python -m tests.proofs attacks [NAME ...]

During an attack every honest delivery is answered 200 or 503 before the service gives up. After it everything
acknowledged is stored, byte for byte, and handled. The web process is the same as before, and the memory of both
processes stays within the bounds that the guide states.
"""

import argparse
import asyncio
import inspect
import random
import secrets
import signal
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from tests.process.harness import Deployment, Load, Serving, cancelled, until
from tests.proofs.bounds import web_bound_mib, worker_bound_mib, writer_bound_mib
from tests.proofs.resources import MIB, use_of

_SHORT = ("broken_requests", "costly_bodies", "leaking_files", "full_disk")
"""Attacks of the short form. Tests of the suite are about most of the others, in a small way."""
_HONEST_CONNECTIONS = 2
_LATEST_SECONDS = 10.0
"""The service's time-out."""
_MAX_BODY, _MAX_IN_FLIGHT = 32 * MIB, 256 * MIB
"""The defaults, on a machine with at least 2 GiB."""


class Site:
    """A deployment under attack, with honest traffic. Every check that fails raises AssertionError."""

    def __init__(self, folder: Path, rng: random.Random, *, is_short: bool) -> None:
        self.deployment = Deployment(folder, lease="60", grace="5", max_in_flight=str(_MAX_IN_FLIGHT))
        self.deployment.cold = not is_short
        self.honest = Load(random.Random(rng.getrandbits(32)))
        self.rng = rng
        self.is_short = is_short
        self.serving: Serving
        self.may_lose_workers = False
        """Whether the attack ends workers, which the supervisor replaces."""
        self.expected_dead = 0
        """Work items of the attack that are dead, and rightly so."""
        self.peaks_mib = (0.0, 0.0, 0.0)
        self._stack = AsyncExitStack()
        self._traffic: asyncio.Task[None] | None = None

    async def start(self, *arguments: str, launcher: tuple[str, ...] = ()) -> None:
        """Start the server and honest traffic to it."""
        self.serving = await self._stack.enter_async_context(self.deployment.serve(*arguments, launcher=launcher))
        self._writer, self._worker = await self.serving.writer(), await self.serving.worker()
        self._traffic = asyncio.create_task(self._send())

    async def _send(self) -> None:
        while not self.serving.has_ended():  # an attack may use up all connections, and the server then closes some
            await self.honest.run(self.serving.port, connections=_HONEST_CONNECTIONS)
            await asyncio.sleep(0.01)

    async def more_honest(self, count: int) -> None:
        """Return when so many more honest deliveries were acknowledged."""
        enough = len(self.honest.acknowledged) + count
        await until(lambda: len(self.honest.acknowledged) >= enough, f"{count} more honest deliveries")

    async def finish(self) -> None:
        """End the traffic, check everything, and stop the server."""
        async with self._stack:
            await self.end_traffic()
            assert not self.serving.has_ended(), self.serving.end
            await self.serving.becomes_ready()
            await self.honest.send_again(self.serving.port)
            await self._all_handled()
            self._check_processes(await self.serving.writer(), await self.serving.worker())
            self.check_answers()
            self.check_store()
            self.serving.send_signal(signal.SIGTERM)
            assert await self.serving.exit_code() == 0, self.serving.end
            await self.serving.gone()
            assert "Traceback" not in self.serving.output, self.serving.end
            if not self.may_lose_workers:  # else what ran when they ended was dead until it was retried
                assert self.serving.output.count("DEAD after attempt") == self.expected_dead, self.serving.end

    async def _all_handled(self) -> None:
        if self.may_lose_workers:
            await self.deployment.all_handled_in_the_end()
        await self.deployment.all_ended()
        [(dead,)] = self.deployment.rows("SELECT count(*) FROM work_items WHERE state = 'dead'")
        assert dead == self.expected_dead, f"{dead} work items are dead"

    async def end_traffic(self) -> None:
        """Let the honest sender stop."""
        if self._traffic is not None:
            traffic, self._traffic = self._traffic, None
            await cancelled(traffic)

    def check_answers(self) -> None:
        """Check that honest deliveries were answered in time, and with 200 or 503."""
        assert set(self.honest.answers) <= {200, 503}, self.honest.answers
        slowest = max(self.honest.seconds)
        assert slowest < _LATEST_SECONDS, f"an honest delivery was answered after {slowest:.1f} s"

    def check_store(self) -> None:
        """Check that every acknowledged delivery is stored as it was sent, and handled."""
        stored = self.deployment.stored(self.honest.acknowledged)
        assert stored == self.honest.acknowledged, "an acknowledged delivery is not stored as it was sent"
        assert self.honest.acknowledged.keys() <= self.deployment.handled().keys()
        assert self.deployment.intact()

    def _check_processes(self, writer: int, worker: int) -> None:
        assert writer == self._writer, "the writer was replaced"
        assert self.may_lose_workers or worker == self._worker, "the worker was replaced"
        web, write, work = use_of(self.serving.pid), use_of(writer), use_of(worker)
        self.peaks_mib = web.highest_mib, write.highest_mib, work.highest_mib
        bound = web_bound_mib(max_body=_MAX_BODY, max_in_flight=_MAX_IN_FLIGHT)
        assert web.highest_mib < bound, f"the web process took {web.highest_mib:.0f} of {bound:.0f} MiB"
        bound = writer_bound_mib(max_body=_MAX_BODY)
        assert write.highest_mib < bound, f"the writer took {write.highest_mib:.0f} of {bound:.0f} MiB"
        bound = worker_bound_mib(max_body=_MAX_BODY)
        assert work.highest_mib < bound, f"the worker took {work.highest_mib:.0f} of {bound:.0f} MiB"

    def summary(self) -> str:
        """Say how honest deliveries fared, and how much memory the processes took."""
        seconds = sorted(self.honest.seconds)
        web, write, work = self.peaks_mib
        middle, late = seconds[len(seconds) // 2], seconds[len(seconds) * 99 // 100]
        return (
            f"{len(self.honest.acknowledged):,} honest deliveries stored and handled, "
            f"{self.honest.answers[503]:,} x 503; answers p50 {middle * 1000:.0f} ms, p99 {late * 1000:.0f} ms, "
            f"slowest {seconds[-1]:.1f} s; at most {web:.0f} MiB in the web process, "
            f"{write:.0f} MiB in the writer, {work:.0f} MiB in the worker"
        )


Attack = Callable[[Site], Awaitable[None]]


def _attacks() -> dict[str, Attack]:
    from tests.proofs import attack_bodies, attack_clients, attack_handlers, attack_machine

    modules = (attack_bodies, attack_clients, attack_handlers, attack_machine)
    return {attack.__name__: attack for module in modules for attack in module.ATTACKS}


async def _attack(attack: Attack, seed: int, *, is_short: bool) -> str:
    with tempfile.TemporaryDirectory(prefix="attack-") as folder:
        site = Site(Path(folder), random.Random(seed), is_short=is_short)
        try:
            await attack(site)
        finally:
            await site.end_traffic()
        await site.finish()
        return site.summary()


def main(arguments: Sequence[str]) -> None:
    """Run the attacks, or those that are named, one after the other."""
    attacks = _attacks()
    parser = argparse.ArgumentParser(
        prog="python -m tests.proofs attacks",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="\n".join(
            f"  {name:20} {(inspect.getdoc(attack) or '').splitlines()[0]}" for name, attack in attacks.items()
        ),
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="an attack of the list below; all unless given")
    parser.add_argument("--short", action="store_true", help="smaller attacks, and a few of them unless named")
    parser.add_argument("--seed", type=int)
    options = parser.parse_args(arguments)
    if unknown := set(options.names) - attacks.keys():
        parser.error(f"there is no attack {', '.join(sorted(unknown))}")
    seed = secrets.randbits(32) if options.seed is None else options.seed
    for name in options.names or (_SHORT if options.short else attacks):
        started = time.monotonic()
        summary = asyncio.run(_attack(attacks[name], seed, is_short=options.short))
        sys.stdout.write(f"{name}: {summary}; took {time.monotonic() - started:.0f} s\n")
        sys.stdout.flush()
