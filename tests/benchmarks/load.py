"""The load program: `python -m tests.benchmarks.load`, a process of its own that prints what it saw as JSON.

Raw HTTP/1.1 with keep-alive on asyncio's protocols, on uvloop where that is installed; every connection sends its
next request when the answer to the last has come. Requests are made before the clock starts. `sender_cpu` tells
whether this program was the bottleneck: near 1.0 it was.
"""

import argparse
import asyncio
import gc
import itertools
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, cast

from tests.benchmarks.payloads import Pages, Signed, request_head

_PREPARED_PER_SECOND = 12_000
"""Requests made beforehand. A faster server gets the rest made while the clock runs."""
_LAST_ANSWERS_SECONDS = 60
_END_OF_HEAD = b"\r\n\r\n"
_LENGTH = b"content-length:"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a load program saw. `acked` counts every 2xx, of the warm-up too; the other figures leave that out."""

    requests_per_second: float
    p50_ms: float
    p99_ms: float
    max_ms: float
    measured: int
    acked: int
    refused: dict[str, int]
    sender_cpu: float


class Load:
    """One run: what is sent, what came back, and when."""

    def __init__(
        self, requests: Iterator[Sequence[bytes]], *, connections: int, warmup: float, seconds: float
    ) -> None:
        self.requests = requests
        self.latencies: list[float] = []
        self.statuses: Counter[str] = Counter()
        self.begin = time.perf_counter() + warmup
        self.end = self.begin + seconds
        self.busy = connections  # from the start: one may be done before the last is made
        self.idle = asyncio.Event()

    def note(self, status: str, sent_at: float) -> bool:
        """Count an answer; return whether to send another request."""
        now = time.perf_counter()
        self.statuses[status] += 1
        if now > self.end:
            return False
        if sent_at >= self.begin:
            self.latencies.append(now - sent_at)
        return True

    def leave(self) -> None:
        """One connection fewer."""
        self.busy -= 1
        if not self.busy:
            self.idle.set()


class Sender(asyncio.Protocol):
    """One connection."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._received = b""
        self._done = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is none by class
        self._send()

    def data_received(self, data: bytes) -> None:
        received = self._received + data if self._received else data
        if not _complete(received):
            self._received = received
            return
        self._received = b""
        if self._load.note(received[9:12].decode(), self._sent_at):
            self._send()
        else:
            self._leave()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._done:
            self._load.statuses["lost"] += 1
            self._leave()

    def _send(self) -> None:
        request = next(self._load.requests)
        self._sent_at = time.perf_counter()
        self._transport.writelines(request)

    def _leave(self) -> None:
        self._done = True
        self._transport.close()
        self._load.leave()


def _complete(answer: bytes) -> bool:
    """Tell whether an answer with a length has come in whole; all our servers give one."""
    end = answer.find(_END_OF_HEAD)
    if end < 0:
        return False
    head = answer[:end].lower()
    begin = head.index(_LENGTH) + len(_LENGTH)
    stop = head.find(b"\r", begin)
    length = int(head[begin : stop if stop >= 0 else end])
    return len(answer) >= end + len(_END_OF_HEAD) + length


def signed_requests(pages: Pages) -> Iterator[tuple[bytes, bytes, bytes]]:
    """Return whole requests without end, each in three parts of which the long one is shared."""

    def whole(one: Signed) -> tuple[bytes, bytes, bytes]:
        return request_head(pages.size, one.signature), pages.head, one.tail

    return map(whole, pages)


async def send(port: int, *, size: int, connections: int, warmup: float, seconds: float) -> Outcome:
    """Load a server on this machine and return what came back."""
    endless = signed_requests(Pages(size))
    prepared = list(itertools.islice(endless, int((warmup + seconds) * _PREPARED_PER_SECOND)))
    gc.freeze()
    load = Load(itertools.chain(prepared, endless), connections=connections, warmup=warmup, seconds=seconds)
    loop = asyncio.get_running_loop()
    cpu = time.process_time()
    for _ in range(connections):
        await loop.create_connection(lambda: Sender(load), "127.0.0.1", port)
    async with asyncio.timeout(warmup + seconds + _LAST_ANSWERS_SECONDS):
        await load.idle.wait()
    return _outcome(load, seconds, cpu_seconds=time.process_time() - cpu, wall_seconds=warmup + seconds)


def _outcome(load: Load, seconds: float, *, cpu_seconds: float, wall_seconds: float) -> Outcome:
    acked = sum(count for status, count in load.statuses.items() if status.startswith("2"))
    times = sorted(load.latencies) or [float("nan")]
    return Outcome(
        requests_per_second=len(load.latencies) / seconds,
        p50_ms=times[len(times) // 2] * 1000,
        p99_ms=times[len(times) * 99 // 100] * 1000,
        max_ms=times[-1] * 1000,
        measured=len(load.latencies),
        acked=acked,
        refused={status: count for status, count in load.statuses.items() if not status.startswith("2")},
        sender_cpu=cpu_seconds / wall_seconds,
    )


def run(main: Coroutine[Any, Any, Outcome]) -> Outcome:
    """Run on the fastest event loop there is."""
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(main)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one load and print its outcome."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.load", description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--size", type=int, required=True)
    parser.add_argument("--connections", type=int, required=True)
    parser.add_argument("--warmup", type=float, default=0.5)
    parser.add_argument("--seconds", type=float, default=3.0)
    args = parser.parse_args(arguments)
    outcome = run(
        send(args.port, size=args.size, connections=args.connections, warmup=args.warmup, seconds=args.seconds)
    )
    sys.stdout.write(json.dumps(asdict(outcome)) + "\n")


if __name__ == "__main__":
    main()
