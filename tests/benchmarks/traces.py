"""What traces cost: `python -m tests.benchmarks.traces [--json FILE]`.

CPU time of this process for each delivery that intake passes to a store in memory, and for each attempt that a
runner makes. Rounds are interleaved: traces off, and on, with an SDK that queues the spans and then drops them.
Shown are medians, and the ratio to `off` within the same round.
"""

import argparse
import asyncio
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from receiver import Router
from receiver.core.claims import WorkItem
from receiver.core.clock import SystemClock
from receiver.core.deliveries import StoredDelivery
from receiver.core.types import HandlerName, Trigger
from receiver.events import Event
from receiver.signals.traces.spans import AttemptSpans, DeliverySpans
from receiver.stores.memory.state import MemoryState
from receiver.stores.memory.store import MemoryLog
from receiver.web.intake import Authenticator, Intake
from receiver.worker.attempts import Claimed
from receiver.worker.calls.runner import Runner, TracedRunner
from tests.benchmarks.report import say, table, write_json
from tests.doubles import accepted, body_of, delivery

_NAME = HandlerName("benchmark")


class _Dropping(SpanExporter):
    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        return SpanExportResult.SUCCESS


def provider() -> TracerProvider:
    """Return a tracer provider whose spans go nowhere."""
    made = TracerProvider()
    made.add_span_processor(BatchSpanProcessor(_Dropping()))
    return made


async def deliveries(kind: str, count: int) -> float:
    """Return the seconds of CPU time for each delivery."""
    gate = Authenticator(signature_header="x", secrets=(), token_header=None, tokens=())
    log, clock = MemoryLog(MemoryState()), SystemClock()
    traces = None if kind == "off" else DeliverySpans()
    intake = Intake(log, gate, clock, max_body=2**20, max_in_flight=2**30, traces=traces)
    headers = [(b"content-type", b"application/json"), (b"host", b"localhost"), (b"user-agent", b"undici")]
    bodies = [body_of(webhookId=f"w-{number}", data=[{"markdown": "x" * 1800}]) for number in range(count)]
    began = time.process_time()
    for body in bodies:
        await accepted(intake, headers, body)
    used = time.process_time() - began
    intake.close()
    return used / count


async def attempts(kind: str, count: int) -> float:
    """Return the seconds of CPU time for each attempt."""
    router = Router()

    async def nothing(event: Event) -> None: ...

    router.add(nothing, "*", name=_NAME)
    item = WorkItem(1, _NAME, 1, 0, 0, Trigger.DELIVERY, StoredDelivery(1, 0, delivery()))
    claimed = Claimed(item, router[_NAME])
    with ThreadPoolExecutor(1) as pool:
        plain = Runner(SystemClock(), pool)
        runner = plain if kind == "off" else TracedRunner(plain, AttemptSpans())
        began = time.process_time()
        for _ in range(count):
            await runner.run_batch((claimed,))
        return (time.process_time() - began) / count


def measure(work: Callable[[str, int], Awaitable[float]], rounds: int, count: int) -> list[dict[str, Any]]:
    """Return a row for each setting."""
    found: dict[str, list[float]] = {"off": [], "on": []}
    for _ in range(rounds):
        for kind, seconds in found.items():
            trace._TRACER_PROVIDER = provider()  # a program may set only one
            seconds.append(asyncio.run(work(kind, count)))  # type: ignore[arg-type]
    return [
        {
            "traces": kind,
            "cpu_us": statistics.median(seconds) * 1e6,
            "ratio_to_off": statistics.median(one / off for one, off in zip(seconds, found["off"], strict=True)),
        }
        for kind, seconds in found.items()
    ]


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, and print a table for deliveries and one for attempts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--count", type=int, default=2_000)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args(argv)
    sections = {
        "deliveries": measure(deliveries, args.rounds, args.count),
        "attempts": measure(attempts, args.rounds, args.count),
    }
    for title, rows in sections.items():
        table(title, rows)
    say()
    write_json(args.json, sections)
    return 0


if __name__ == "__main__":
    sys.exit(main())
