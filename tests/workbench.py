"""A worker on a store in memory, with a clock that is moved by hand."""

import asyncio
import random
from collections.abc import AsyncIterator
from concurrent.futures import Executor
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import timedelta

from receiver.core.clock import VirtualClock
from receiver.core.deliveries import Delivery
from receiver.core.types import WorkerId, WorkState
from receiver.core.work import WorkFilter
from receiver.errors import ReceiverError
from receiver.routing import Router
from receiver.routing.resources import open_resources
from receiver.worker.calls.runner import Runner
from receiver.worker.work_in_hand import MAX_BYTES, WorkerLimits
from receiver.worker.worker import Worker, WorkerOptions
from tests.doubles import NOON, Inline, OpenStore, appended, pass_time, soon, turns

SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)


class Workbench:
    """A store, a clock and a router, and as many workers on them as a test wants."""

    def __init__(self, router: Router, stack: AsyncExitStack) -> None:
        self.store = OpenStore()
        self.clock = VirtualClock(NOON)
        self.router = router
        self._stack = stack
        self._stop = asyncio.Event()

    def stop(self) -> None:
        """Tell the workers that run to stop."""
        self._stop.set()
        self._stop = asyncio.Event()

    async def start(
        self, worker: str = "me", *, threads: Executor | None = None, max_bytes: int = MAX_BYTES
    ) -> "asyncio.Task[int]":
        """Start a worker and return its task; it is stopped at the end of the test."""
        runner = Runner(
            self.clock,
            threads or Inline(),
            resources=await self._stack.enter_async_context(open_resources(self.router.resources)),
            ask_once=lambda handler, key, now: self.store.once(handler, key, now=now),
            handlers=[*self.router],
        )
        dispatcher = Worker(
            self.store,
            self.router,
            self.clock,
            runner,
            WorkerId(worker),
            WorkerLimits(concurrency=32, threads=8, processes=2, lease=MINUTE, max_bytes=max_bytes),
            WorkerOptions(rng=random.Random(1)),
        )
        stop = self._stop
        running = asyncio.create_task(dispatcher.run(stop, grace=SECOND))

        async def end() -> None:
            stop.set()
            await turns()
            self.clock.advance(5 * SECOND)
            with suppress(ReceiverError):  # a test that wants it has seen it
                await soon(running)

        self._stack.push_async_callback(end)
        await turns()
        return running

    async def add(self, *deliveries: Delivery) -> None:
        """Store deliveries and let everything happen that follows from it."""
        await asyncio.gather(*[appended(self.store, one) for one in deliveries])
        await self.after(timedelta(0))

    async def after(self, duration: timedelta) -> None:
        """Let this much time pass, second by second."""
        end = self.clock.now() + duration
        await turns()
        while self.clock.now() < end:
            await pass_time(self.clock, min(SECOND, end - self.clock.now()))

    async def states(self, handler: str = "*") -> list[WorkState]:
        """Return the states of a handler's work items, the oldest first."""
        found = [one.state async for one in self.store.work_items(WorkFilter(handler=handler))]
        return found[::-1]


@asynccontextmanager
async def bench(router: Router, *, started: bool = True) -> AsyncIterator[Workbench]:
    """Give a bench for the router; unless a test starts its workers itself, one runs."""
    async with AsyncExitStack() as stack:
        made = Workbench(router, stack)
        if started:
            await made.start()
        yield made
