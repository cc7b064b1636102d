"""A worker on the clock of a test, which tells when it has nothing left to do now."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any, cast

from receiver.core.ports.queue import WorkQueue
from receiver.core.types import WorkerId
from receiver.routing import Handler, Router
from receiver.routing.policies import RunsIn
from receiver.routing.resources import needed_by, open_resources, require_given
from receiver.settings import Settings
from receiver.testing.clock import SteppedClock, turns
from receiver.worker import Runner, Worker
from receiver.worker.runner import Claimed, Ended


class _Watch:
    """What a worker has under way: calls of its store, and handlers that run."""

    def __init__(self, clock: SteppedClock) -> None:
        self.handling: set[asyncio.Task[Any]] = set()
        self._clock = clock
        self._moves = 0
        self._moves_at_rest = 0
        self._calls = 0
        self._answered = asyncio.Event()
        self._told = asyncio.Event()

    def tell(self) -> None:
        """Have the worker look for work."""
        self._moves += 1
        self._told.set()

    async def told(self) -> None:
        """Return when the worker is to look for work."""
        await self._told.wait()
        self._told.clear()

    async def call(self, method: Callable[..., Awaitable[Any]], *args: Any, **options: Any) -> Any:
        """Call the store."""
        self._moves += 1
        self._calls += 1
        try:
            return await method(*args, **options)
        finally:
            self._calls -= 1
            self._answered.set()

    async def handle(self, run: Awaitable[Any]) -> Any:
        """Run a handler."""
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - coroutines run in tasks
        self.handling.add(task)
        try:
            return await run
        finally:
            self._moves += 1
            self.handling.discard(task)

    async def quiet(self) -> None:
        """Return when all is done that can be done now."""
        while True:
            while self._calls:
                self._answered.clear()
                await self._answered.wait()
            await self._clock.all_ended(lambda: self.handling)
            if self._moves == self._moves_at_rest:
                return
            self._moves_at_rest = self._moves
            await turns()


class _WatchedQueue:
    """A WorkQueue whose calls are watched. It says that it has changed when the worker is to look for work."""

    def __init__(self, queue: WorkQueue, watch: _Watch) -> None:
        self._queue = queue
        self._watch = watch

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        method = getattr(self._queue, name)
        return lambda *args, **options: self._watch.call(method, *args, **options)

    async def changed(self) -> None:
        await self._watch.told()


class _WatchedRunner(Runner):
    """A Runner whose attempts are watched."""

    def __init__(self, watch: _Watch, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._watch = watch

    async def run(self, claimed: Claimed) -> Ended:
        ended: Ended = await self._watch.handle(super().run(claimed))
        return ended

    async def run_batch(self, batch: Sequence[Claimed]) -> Sequence[Ended]:
        ended: Sequence[Ended] = await self._watch.handle(super().run_batch(batch))
        return ended


@asynccontextmanager
async def working(
    queue: WorkQueue, router: Router, clock: SteppedClock, settings: Settings, given: Mapping[Any, object]
) -> AsyncIterator[Callable[[], None]]:
    """Run a worker for as long as the block lasts; the clock takes it along.

    Yields what tells it to look for work: it does not notice by itself what others store. `given` are resources by
    type; those of the router that handlers want beside them are made.
    """
    router = router.changed(_in_this_process)
    watch = _Watch(clock)
    stop = asyncio.Event()
    async with _open_runner(queue, router, clock, settings, given, watch) as runner:
        dispatcher = Worker(
            cast("WorkQueue", _WatchedQueue(queue, watch)),
            router,
            clock,
            runner,
            worker=WorkerId("test"),
            places={RunsIn.LOOP: settings.concurrency, RunsIn.THREAD: settings.threads, RunsIn.PROCESS: 1},
            lease=settings.lease,
            rng=random.Random(0),  # noqa: S311 - spreads retries, protects nothing
        )
        running = asyncio.create_task(dispatcher.run(stop, grace=timedelta(0)))
        try:
            with clock.taking_along(watch.quiet):
                yield watch.tell
        finally:
            stop.set()
            await running


@asynccontextmanager
async def _open_runner(
    queue: WorkQueue,
    router: Router,
    clock: SteppedClock,
    settings: Settings,
    given: Mapping[Any, object],
    watch: _Watch,
) -> AsyncIterator[Runner]:
    for handler in router:
        require_given(handler.name, handler.needs, {*given, *router.resources})
    needs = [tuple([one for one in handler.needs if one[1] not in given]) for handler in router]
    threads = ThreadPoolExecutor(settings.threads, thread_name_prefix="handler")
    try:
        async with open_resources(needed_by(needs, router.resources)) as made:
            yield _WatchedRunner(
                watch,
                clock,
                threads,
                resources={**made, **given},
                ask_once=lambda handler, key, now: queue.once(handler, key, now=now),
            )
    finally:
        threads.shutdown(wait=False, cancel_futures=True)


def _in_this_process(handler: Handler) -> Handler:
    return replace(handler, runs_in=RunsIn.THREAD) if handler.runs_in is RunsIn.PROCESS else handler
