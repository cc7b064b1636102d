"""Send a million fuzzed requests to `receiver serve`: mutated HTTP and bodies, forged, doubled, broken off.

    python -m tests.proofs fuzz --requests 1000000

Every complete request gets its one right answer, in order and in time. What was acknowledged is stored once, byte
for byte, and handled once; what was authentic and refused is in quarantine; nothing is stored that was not signed.
The processes are the same at the end as at the start. Their memory stays within the stated bound, and that of the
web process does not grow: what a request leaves behind would show as growth long before it reaches the bound.
"""

import argparse
import asyncio
import hashlib
import math
import random
import secrets
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from tests.process.harness import Answer, Connection, Deployment, Serving, connection, until
from tests.proofs.bounds import web_bound_mib, worker_bound_mib, writer_bound_mib
from tests.proofs.fuzz_bodies import same_id
from tests.proofs.fuzz_requests import MAX_BODY, Ending, Request, broken, complete, delivery, wrong_head
from tests.proofs.resources import MIB, growth, use_of

_CONNECTIONS = 24
_LATEST_SECONDS = 10.0
"""The service's time-out. The receiver answers within five seconds; the rest is for a busy machine."""
_LONGEST_IDLE_SECONDS = 1.0
"""The receiver closes connections that are idle for longer; any may be so while this program gets no time."""
_MAX_IN_FLIGHT = 32 * MIB
_SAMPLES = 80
"""How often the memory of the web process is looked at during a run."""
_MOST_GROWTH_MIB = 24
"""Between the second and the last quarter: some bodies of two megabytes each way."""
_EXPECTED_ERRORS = ("delivery_conflict", "delivery_not_stored")
"""Events of level error: a conflict is an alarm, and the other goes with a 503."""
_RIGHT_BROKEN = frozenset({100, 200, 400, 401, 404, 405, 408, 413, 431, 503})
"""Answers to a broken request: what arrived may be a whole request, or several."""


class FuzzProof:
    """Fuzzed requests to one deployment. Every check that fails raises AssertionError."""

    def __init__(self, folder: Path, seed: int) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._port = free.getsockname()[1]
        settings = {"max_body": str(MAX_BODY), "max_in_flight": str(_MAX_IN_FLIGHT), "read_timeout": "2"}
        # Each refused request is a line of the log, and of each conflict too.
        self._deployment = Deployment(
            folder, port=str(self._port), log_level="error", json_logs="true", lease="60", **settings
        )
        self._deployment.cold = True
        self._seed = seed
        self.answers: Counter[int] = Counter()
        self.sent = self.broken = 0
        self.slowest_seconds = 0.0
        self._acknowledged: dict[str, bytes] = {}
        self._signed: set[bytes] = set()
        self._quarantined: set[bytes] = set()
        self._good: deque[bytes] = deque(maxlen=500)
        """Bodies of which duplicates and conflicts are made."""
        self.peaks_mib: tuple[float, float, float] = (0.0, 0.0, 0.0)
        self._web_mib: list[float] = []

    async def run(
        self, requests: int, seconds: float = math.inf, tell: Callable[[int], None] = lambda done: None
    ) -> None:
        """Send so many requests, or for so many seconds if they are over sooner, and then check everything."""
        end = time.monotonic() + seconds
        async with self._deployment.serve(wait=False) as serving:
            serving.port = self._port
            await until(self._listens, "the server to listen")
            await serving.becomes_ready()
            processes = [await serving.writer(), await serving.worker()]
            async with asyncio.TaskGroup() as group:
                for number in range(_CONNECTIONS):
                    rng = random.Random(f"{self._seed} {number}")
                    group.create_task(self._connect_again_and_again(rng, requests, end, tell, serving))
            await self._deployment.all_handled()
            # The last requests may have got no answer, and may be stored when all others are handled.
            await until(self._all_are_handled, "all that is stored to be handled")
            await self._check_processes(serving, processes)
            self._check_store()
            serving.send_signal(signal.SIGTERM)
            assert await serving.exit_code() == 0, serving.end
            await serving.gone()
            faults = [line for line in serving.errors() if not any(word in line for word in _EXPECTED_ERRORS)]
            assert not faults, faults[:3]
        assert self._deployment.intact()

    def _all_are_handled(self) -> bool:
        return self._deployment.handled().keys() == self._deployment.stored().keys()

    def _listens(self) -> bool:
        with suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", self._port)):
            return True
        return False

    async def _connect_again_and_again(
        self, rng: random.Random, requests: int, end: float, tell: Callable[[int], None], serving: Serving
    ) -> None:
        while self.sent < requests and time.monotonic() < end:
            used = time.monotonic()
            async with connection(self._port) as line:
                for _ in range(rng.randint(0, 8)):
                    if time.monotonic() - used > _LONGEST_IDLE_SECONDS:
                        break
                    used = time.monotonic()
                    if not await self._send(line, self._pipeline(rng)):
                        break
                else:
                    await self._send_broken(line, broken(rng))
            tell(self.sent)
            if self.sent * _SAMPLES >= len(self._web_mib) * requests:
                self._web_mib.append(use_of(serving.pid).mib)

    def _pipeline(self, rng: random.Random) -> Sequence[Request]:
        """Return complete requests to send in one piece. Only the last one may close the connection."""
        pipeline = [self._complete(rng) for _ in range(rng.choice((1, 1, 2, 8)))]
        if rng.random() < 0.05:
            pipeline.append(wrong_head(rng))
        closing = next((number for number, request in enumerate(pipeline) if request.closes), len(pipeline))
        return pipeline[: closing + 1]

    def _complete(self, rng: random.Random) -> Request:
        chosen = rng.random()
        if chosen < 0.9 or not self._good:
            return complete(rng)
        again = rng.choice(self._good)
        return delivery(rng, again if chosen < 0.96 else same_id(rng, again), is_good=True)

    async def _send(self, line: Connection, pipeline: Sequence[Request]) -> bool:
        """Send a pipeline and check its answers. Return whether the connection is still open."""
        started = self._begin(pipeline)
        await line.say(*(request.raw for request in pipeline))
        for request in pipeline:
            self._check_answer(request, await self._answer(line, request))
        self._check_time(started)
        return not pipeline[-1].closes

    async def _send_broken(self, line: Connection, request: Request) -> None:
        """Send a broken request, end the connection, and check what still came."""
        started = self._begin([request])
        with suppress(OSError):  # also ENOTCONN, after a reset by the receiver
            await line.say(request.raw)
            if request.ending is Ending.RESET:
                line.reset()
                return
            line.shut_down_sending()
        self._check_broken(await line.closed(_LATEST_SECONDS))
        self._check_time(started)

    def _begin(self, requests: Sequence[Request]) -> float:
        self.sent += len(requests)
        self.broken += sum(request.status is None for request in requests)
        self._signed |= {request.digest for request in requests if request.body is not None}
        return time.monotonic()

    def _check_time(self, started: float) -> None:
        self.slowest_seconds = max(self.slowest_seconds, time.monotonic() - started)
        assert self.slowest_seconds < _LATEST_SECONDS, f"an answer took {self.slowest_seconds:.1f} s"

    async def _answer(self, line: Connection, request: Request) -> Answer:
        try:
            answer = await line.answer(within=_LATEST_SECONDS)
            while answer.status == 100:
                answer = await line.answer(within=_LATEST_SECONDS)
        except (asyncio.IncompleteReadError, ConnectionError, TimeoutError) as exc:
            raise AssertionError(f"no answer, but {exc!r}, to {request.raw[:2_000]!r}") from exc
        self.answers[answer.status] += 1
        return answer

    def _check_answer(self, request: Request, answer: Answer) -> None:
        if answer.status == 503:
            return  # busy; it may also have been stored late
        assert answer.status == request.status, f"{answer} to {request.raw[:2_000]!r}"
        if answer.status == 400 and request.body is not None:
            self._quarantined.add(request.digest)
        if answer.status != 200 or request.body is None:
            return
        content = answer.json()
        key = content["id"]
        before = self._acknowledged.get(key)
        if content["status"] == "accepted":
            assert before is None, f"{key} was accepted twice"
        elif before is not None and before != request.digest:
            self._quarantined.add(request.digest)
            return
        if before is None and content["status"] == "duplicate":
            return  # of a request that got no answer
        self._acknowledged[key] = request.digest
        if request.body.startswith(b'{"success": true'):
            self._good.append(request.body)

    def _check_broken(self, text: bytes) -> None:
        """Check the answers to a broken request, which may be several, or none."""
        statuses = {int(line.split()[1]) for line in text.split(b"\r\n") if line.startswith(b"HTTP/1.1 ")}
        assert statuses <= _RIGHT_BROKEN, text
        assert text == b"" or statuses, text

    async def _check_processes(self, serving: Serving, processes: list[int]) -> None:
        assert not serving.has_ended()
        assert sorted(serving.children()) == sorted(processes), "the writer or the worker was replaced"
        web, write, work = use_of(serving.pid), *map(use_of, processes)
        self.peaks_mib = web.highest_mib, write.highest_mib, work.highest_mib
        bound = web_bound_mib(max_body=MAX_BODY, max_in_flight=_MAX_IN_FLIGHT)
        assert web.highest_mib < bound, f"the web process took {web.highest_mib:.0f} of {bound:.0f} MiB"
        grown = growth(self._web_mib)
        assert grown < _MOST_GROWTH_MIB, f"the web process grew: {[round(mib) for mib in self._web_mib]} MiB"
        bound = writer_bound_mib(max_body=MAX_BODY)
        assert write.highest_mib < bound, f"the writer took {write.highest_mib:.0f} of {bound:.0f} MiB"
        bound = worker_bound_mib(max_body=MAX_BODY)
        assert work.highest_mib < bound, f"the worker took {work.highest_mib:.0f} of {bound:.0f} MiB"

    def _check_store(self) -> None:
        stored = self._deployment.stored()
        lost = [key for key, digest in self._acknowledged.items() if stored.get(key) != digest]
        assert not lost, f"{len(lost)} acknowledged deliveries are not stored as they were sent: {lost[:3]}"
        assert set(stored.values()) <= self._signed, "something is stored that was not sent so"
        kept = {hashlib.sha256(body).digest() for (body,) in self._deployment.rows("SELECT body FROM quarantine")}
        assert self._quarantined <= kept, f"{len(self._quarantined - kept)} refused bodies are not in quarantine"
        assert kept <= self._signed, "something is in quarantine that was not sent so"
        assert set(self._deployment.handled().values()) <= {1}, "something was handled twice"

    def summary(self) -> str:
        """Say what was done and found."""
        answers = ", ".join(f"{count:,} x {status}" for status, count in sorted(self.answers.items()))
        web, write, work = self.peaks_mib
        return (
            f"{self.sent:,} requests, {self.broken:,} of them broken; answers {answers}; the slowest "
            f"{self.slowest_seconds:.1f} s; {len(self._acknowledged):,} deliveries acknowledged, stored once with "
            f"equal bytes and handled once; {len(self._quarantined):,} refused bodies in quarantine; no process "
            f"was restarted; at most {web:.0f} MiB in the web process, {write:.0f} MiB in the writer "
            f"and {work:.0f} MiB in the worker; the web process grew by {growth(self._web_mib):.0f} MiB between "
            "the second and the last quarter of the run"
        )


def main(arguments: Sequence[str]) -> None:
    """Run the proof from the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.proofs fuzz",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--requests", type=int)
    parser.add_argument("--short", action="store_true", help="2,000 requests instead of 1,000,000")
    parser.add_argument("--minutes", type=float, default=math.inf, help="end sooner on a machine that is slow")
    parser.add_argument("--seed", type=int, help="send the requests of another run, in about the same order")
    options = parser.parse_args(arguments)
    requests = options.requests or (2_000 if options.short else 1_000_000)
    seed = secrets.randbits(32) if options.seed is None else options.seed
    sys.stdout.write(f"{requests:,} requests with --seed {seed}\n")
    told = 0

    def tell(done: int) -> None:
        nonlocal told
        if done >= told + 10_000:
            told = done
            sys.stdout.write(f"\r{done:,} of {requests:,}")
            sys.stdout.flush()

    folder = Path(tempfile.mkdtemp(prefix="fuzz-proof-"))
    sys.stdout.write(f"in {folder}\n")  # it stays after a failure
    proof = FuzzProof(folder, seed)
    asyncio.run(proof.run(requests, options.minutes * 60, tell))
    sys.stdout.write(f"\n{proof.summary()}\n")
    shutil.rmtree(folder)
