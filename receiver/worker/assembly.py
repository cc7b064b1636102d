"""Opens the parts that workers and local replays share: runners and processes."""

import sys
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any

from receiver.core.clock import Clock
from receiver.core.ports.queue import OnceKeys
from receiver.routing import Handler
from receiver.routing.context import AskOnce, Clients
from receiver.routing.resources import Resource, open_resources
from receiver.signals.traces.contracts import AttemptTraces
from receiver.worker.attempts import AttemptRunner
from receiver.worker.calls.processes import Processes
from receiver.worker.calls.runner import NO_RESOURCES, Runner, TracedRunner
from receiver.worker.calls.threads import HandlerThreads
from receiver.worker.memory_budget import MemoryBudget


@asynccontextmanager
async def open_runner(
    clock: Clock,
    resources: Mapping[Any, Resource],
    *,
    threads: int,
    ask_once: AskOnce,
    given: Mapping[Any, object] = NO_RESOURCES,
    processes: Processes | None = None,
    clients: Clients | None = None,
    told_now: Callable[[], datetime] | None = None,
    memory: MemoryBudget | None = None,
    traces: AttemptTraces | None = None,
    handlers: Collection[Handler] = (),
) -> AsyncIterator[AttemptRunner]:
    """Open a runner with its own threads and these resources, which are closed with the block.

    `given` are resources that exist already, by type. `traces` makes a span for each call. `handlers` are those
    that `ctx.later` finds. Raises HandlerError for a resource that cannot be made.
    """
    pool = HandlerThreads(threads)
    try:
        async with open_resources(resources) as made:
            runner = Runner(
                clock,
                pool,
                processes=processes,
                resources={**made, **given},
                ask_once=ask_once,
                clients=clients,
                told_now=told_now,
                memory=memory,
                handlers=handlers,
            )
            yield runner if traces is None else TracedRunner(runner, traces)
    finally:
        pool.stop()


@asynccontextmanager
async def open_processes(clock: Clock, size: int, *, log_level: str, json_logs: bool) -> AsyncIterator[Processes]:
    """Open a pool of processes for functions. They end with the block, and write their logs as this one does."""
    log_format = "json" if json_logs else "text"
    command: Sequence[str] = (sys.executable, "-P", "-m", "receiver.worker.calls.child", log_level, log_format)
    processes = Processes(clock, command, size=size)
    try:
        yield processes
    finally:
        await processes.aclose()


def ask_store(queue: OnceKeys) -> AskOnce:
    """Return the answer to `ctx.once` that the store gives."""
    return lambda handler, key, now: queue.once(handler, key, now=now)
