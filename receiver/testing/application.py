"""The real receiver in a test: the ASGI app on a store of its own, and a worker on the clock of the test."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

from starlette.types import Receive, Scope, Send

from receiver.app import Receiver
from receiver.core.ports.queue import WorkQueue
from receiver.core.ports.reports import Reports
from receiver.core.types import WorkerId
from receiver.core.work import WorkDetail, WorkFilter
from receiver.routing import Handler, Router
from receiver.routing.context import Clients
from receiver.routing.resources import needed_by, require_given
from receiver.settings import Settings
from receiver.settings.model import GivenSettings
from receiver.signals.traces.switch import attempt_traces
from receiver.stores import open_store
from receiver.testing.clock import SteppedClock, turns
from receiver.testing.delivering import require_router
from receiver.testing.work import Work
from receiver.worker.attempts import AttemptRunner, Claimed, Ended
from receiver.worker.calls.runner import NO_RESOURCES, ask_store, open_runner
from receiver.worker.work_in_hand import WorkerLimits
from receiver.worker.worker import Worker, WorkerOptions

SECRET = "example-secret"  # noqa: S105 - signs made-up deliveries


class RunningReceiver:
    """An ASGI app: the receiver as it is deployed, its lifespan entered. Its clock is that of the test."""

    def __init__(
        self, app: Receiver, clock: SteppedClock, reports: Reports, wake_worker: Callable[[], None]
    ) -> None:
        self.settings = app.settings
        self.reports = reports
        self._app = app
        self._clock = clock
        self._wake_worker = wake_worker

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI scope."""
        await self._app(scope, receive, send)
        self._wake_worker()

    async def work_items(self, handler: str = "*", *, type: str = "*") -> list[Work]:  # noqa: A002 - as in filters
        """Return the work items of these handlers and types of events, both globs, the oldest first.

        It first waits for everything that can happen at the present time of the clock.
        """
        self._wake_worker()
        await self._clock.settle()
        wanted = WorkFilter(handler=handler, type=type)
        found = [item.id async for item in self.reports.work_items(wanted)]
        return [_work(await self.reports.work_item(work_id)) for work_id in reversed(found)]


def settings_for_test(folder: Path, **values: Any) -> Settings:
    """Return settings for a test: a store in this folder, one secret, these values, and otherwise the defaults.

    Nothing comes from the environment or from a `.env` file.
    With `store="memory://"` the store is in memory instead, which is faster and leaves no files.
    """
    ours = {"store": f"sqlite:///{folder / 'receiver.db'}", "secrets": (SECRET,)}
    return GivenSettings(**(ours | values))


@asynccontextmanager
async def open_receiver(
    router: Router,
    settings: Settings,
    clock: SteppedClock,
    *,
    resources: Mapping[Any, object] = NO_RESOURCES,
    clients: Clients | None = None,
) -> AsyncIterator[RunningReceiver]:
    """Run a receiver and a worker for as long as the block lasts.

    `resources` replace resources of the router, by type. Functions with `run_in="process"` run in a thread.
    Handlers get these `clients` as `ctx.client` and `ctx.sync_client`. Raises HandlerError for a router that does
    not work as a whole.
    """
    store = open_store(settings.store, in_process=True)
    app = Receiver(settings, store=store, clock=clock)
    async with (
        app.lifespan(),
        store.queue() as queue,
        store.reports() as reports,
        _working(queue, router, clock, settings, resources, clients) as wake_worker,
    ):
        yield RunningReceiver(app, clock, reports, wake_worker)


def _work(detail: WorkDetail) -> Work:
    item = detail.summary
    last = detail.attempts[-1] if detail.attempts else None
    return Work(
        handler=item.handler,
        type=item.type,
        id=item.key,
        state=item.state,
        attempts=item.attempts,
        error=None if last is None else last.error,
        traceback=None if last is None else last.traceback,
    )


class _Watch:
    """Counts what a worker is doing: calls of its store, and handlers that run."""

    def __init__(self, clock: SteppedClock) -> None:
        self.handling: set[asyncio.Task[Any]] = set()
        self._clock = clock
        self._moves = 0
        self._moves_at_rest = 0
        self._calls = 0
        self._answered = asyncio.Event()
        self._woken = asyncio.Event()

    def wake(self) -> None:
        """Make the worker check for new work."""
        self._moves += 1
        self._woken.set()

    async def woken(self) -> None:
        """Return when the worker should check for new work."""
        await self._woken.wait()
        self._woken.clear()

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
        """Return when everything that can be done at this moment is done."""
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
    """A WorkQueue whose calls are watched. It reports a change when the worker should check for new work."""

    def __init__(self, queue: WorkQueue, watch: _Watch) -> None:
        self._queue = queue
        self._watch = watch
        self.most_claimed = queue.most_claimed

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        method = getattr(self._queue, name)
        return lambda *args, **options: self._watch.call(method, *args, **options)

    async def changed(self) -> None:
        await self._watch.woken()


class _WatchedRunner:
    """An AttemptRunner whose attempts are watched."""

    def __init__(self, runner: AttemptRunner, watch: _Watch) -> None:
        self._runner = runner
        self._watch = watch

    async def run_batch(self, batch: Sequence[Claimed]) -> Sequence[Ended]:
        ended: Sequence[Ended] = await self._watch.handle(self._runner.run_batch(batch))
        return ended


@asynccontextmanager
async def _working(
    queue: WorkQueue,
    router: Router,
    clock: SteppedClock,
    settings: Settings,
    given: Mapping[Any, object],
    clients: Clients | None = None,
) -> AsyncIterator[Callable[[], None]]:
    """Run a worker for as long as the block lasts; the clock moves together with it.

    Yields a function that wakes the worker: it does not notice by itself what others store. `given` are
    resources by type, and `clients` those that handlers get. Resources of the router are opened only if handlers
    need them and they are not given.
    """
    require_router(router)
    router = router.changed(Handler.in_this_process)
    for handler in router:
        require_given(handler.name, handler.function, handler.needs, {*given, *router.resources})
    needs = [tuple([one for one in handler.needs if one[1] not in given]) for handler in router]
    watch = _Watch(clock)
    watched_queue = cast("WorkQueue", _WatchedQueue(queue, watch))
    limits = WorkerLimits(
        concurrency=settings.concurrency,
        threads=settings.threads,
        processes=1,
        lease=settings.lease,
        longest_wait=timedelta(hours=1),  # this clock moves only when a test moves it
    )
    async with open_runner(
        clock,
        needed_by(needs, router.resources),
        threads=settings.threads,
        ask_once=ask_store(queue),
        given=given,
        clients=clients,
        traces=attempt_traces(on=settings.traces),
        handlers=[*router],
    ) as runner:
        worker = Worker(
            watched_queue,
            router,
            clock,
            _WatchedRunner(runner, watch),
            WorkerId("test"),
            limits,
            WorkerOptions(rng=random.Random(0)),  # noqa: S311 - spreads retries, protects nothing
        )
        async with _running(worker):
            with clock.moving_with(watch.quiet):
                yield watch.wake


@asynccontextmanager
async def _running(worker: Worker) -> AsyncIterator[None]:
    stop = asyncio.Event()
    running = asyncio.create_task(worker.run(stop, grace=timedelta(0)))
    try:
        yield
    finally:
        stop.set()
        await running
