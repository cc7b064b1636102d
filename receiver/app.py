"""Assembly: the one place where settings, stores, intake and the worker meet."""

import asyncio
import logging
import os
import random
import secrets
import socket
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.types import ASGIApp, Receive, Scope, Send

from receiver.core.clock import Clock, SystemClock
from receiver.core.ports.log import DeliveryLog
from receiver.core.ports.queue import WorkQueue
from receiver.core.ports.store import Store
from receiver.core.types import WorkerId
from receiver.replay.frozen_time import FrozenTime
from receiver.replay.local import LocalRunner
from receiver.routing import Handler, Router
from receiver.routing.context import AskOnce
from receiver.routing.policies import RunsIn
from receiver.routing.resources import Resource, needed_by, open_resources
from receiver.settings import Settings, load_settings
from receiver.signals.subscribers import flush
from receiver.stores import open_store
from receiver.web.endpoint import WebhookEndpoint
from receiver.web.health import Liveness, Readiness
from receiver.web.intake import Authenticator, Intake
from receiver.web.metrics import PATH as METRICS_PATH
from receiver.web.metrics import MetricsEndpoint
from receiver.web.replies import not_found, unavailable
from receiver.worker import Processes, Retention, Runner, Worker
from receiver.worker.indexer import keep_indexed

if TYPE_CHECKING:  # every request comes with it
    from receiver.requests.webhooks import WebhookConfig

log = logging.getLogger(__name__)


class Receiver:
    """The receiver as an ASGI app: run it with a server, or mount it in Starlette or FastAPI.

    It takes deliveries in and runs no handlers; `receiver work` does that in a process of its own. Under a mount
    no lifespan of its own is run, so hand `receiver.lifespan` to the outer app. Until it has been entered every
    delivery is answered 503. Raises ConfigurationError when the settings do not fit.
    """

    def __init__(
        self,
        settings: Settings | None = None,
        *,
        store: Store | None = None,
        clock: Clock | None = None,
        worker_lives: Callable[[], bool] | None = None,
    ) -> None:
        """`worker_lives` tells whether the worker that is watched beside this app lives, for `/readyz?worker=1`."""
        self.settings = settings or load_settings()
        self._store = store or open_store(self.settings.store)
        self._clock = clock or SystemClock()
        self._worker_lives = worker_lives
        self._endpoints: dict[str, ASGIApp] = {}
        self._elsewhere: ASGIApp = _not_running
        self._lifespan = Starlette(lifespan=self.lifespan)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI scope."""
        if scope["type"] != "http":
            await self._lifespan(scope, receive, send)
            return
        endpoint = self._endpoints.get(_path_below_mount(scope), self._elsewhere)
        await endpoint(scope, receive, send)

    @asynccontextmanager
    async def lifespan(self, app: object = None) -> AsyncIterator[None]:
        """Open the store for as long as the block lasts. `app` is ignored; frameworks pass theirs.

        Raises ConfigurationError when there is neither a secret nor a token, unless ALLOW_UNSIGNED is set.
        """
        self.settings.require_authentication()
        if not self.settings.authenticated:
            log.warning(
                "authentication_not_configured",
                extra={"advice": "every delivery is accepted; set RECEIVER_SECRETS"},
            )
        async with self._store.log() as deliveries:
            with ExitStack() as stack:
                self._endpoints, self._elsewhere = self._open(deliveries, stack), _nothing_here
                try:
                    yield
                finally:
                    self._endpoints, self._elsewhere = {}, _not_running
        await asyncio.to_thread(flush)

    def webhook(self, *, events: Sequence[str] = (), metadata: Mapping[str, str] | None = None) -> "WebhookConfig":
        """Return what makes the service send a job's events here, for the requests of a client.

        It is `Settings.webhook`; the app need not be running.
        """
        return self.settings.webhook(events=events, metadata=metadata)

    def _open(self, deliveries: DeliveryLog, stack: ExitStack) -> dict[str, ASGIApp]:
        """Return what is served, by path. A dictionary, since nothing here has a parameter in its path."""
        settings = self.settings
        gate = Authenticator(
            signature_header=settings.signature_header,
            secrets=settings.plain_secrets(),
            token_header=settings.token_header,
            tokens=settings.plain_tokens(),
            other_secrets=settings.plain_other_secrets(),
        )
        intake = Intake(
            deliveries, gate, self._clock, max_body=settings.max_body, max_in_flight=settings.max_in_flight
        )
        stack.callback(intake.close)
        endpoints: dict[str, ASGIApp] = {
            "/healthz": Liveness(),
            "/readyz": Readiness(intake, deadline=settings.ack_deadline, worker_lives=self._worker_lives),
        }
        stopwatch = None
        if settings.metrics:
            from receiver.signals.metrics.intake import IntakeMetrics  # takes long to load, and few have it on

            metrics = stack.enter_context(IntakeMetrics(intake))
            endpoints[METRICS_PATH] = MetricsEndpoint(metrics.exposition, token=settings.plain_metrics_token())
            stopwatch = metrics.stopwatch
        endpoint = WebhookEndpoint(
            intake, read_timeout=settings.read_timeout, ack_deadline=settings.ack_deadline, stopwatch=stopwatch
        )
        # A redirect to the other spelling would lose the delivery: the sender follows it as a GET.
        return {**endpoints, settings.path: endpoint, settings.path.rstrip("/") + "/": endpoint}


def _path_below_mount(scope: Scope) -> str:
    """Return the path as seen from where the app is mounted (ASGI specification, HTTP scope, `root_path`)."""
    path: str = scope["path"]
    root: str = scope.get("root_path", "")
    # A proxy may have cut its own prefix off; then the path has only the mounts (Starlette's Mount.matches).
    for mount in (root, root.removeprefix(scope.get("app_root_path", ""))):
        if path.startswith(f"{mount}/"):
            return path[len(mount) :]
    return path


async def _nothing_here(scope: Scope, receive: Receive, send: Send) -> None:
    for message in not_found():
        await send(message)


async def _not_running(scope: Scope, receive: Receive, send: Send) -> None:
    detail = "the receiver's lifespan has not begun: pass lifespan=receiver.lifespan to the outer app"
    for message in unavailable(detail):
        await send(message)


def new_worker_id() -> WorkerId:
    """Return a name for a worker that no other has or will have."""
    return WorkerId(f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}")


async def run_worker(
    settings: Settings,
    router: Router,
    stop: asyncio.Event,
    *,
    worker: WorkerId,
    takes_over: Sequence[WorkerId] = (),
    store: Store | None = None,
    clock: Clock | None = None,
) -> int:
    """Run handlers on what is in the store until `stop` is set.

    `takes_over` names workers that are known to be dead; their work is claimed without waiting for their leases.
    Returns how many handlers could not be ended within the grace time and still run in their threads. Raises
    HandlerError for a router that does not work as a whole, and for a resource that cannot be made.
    """
    router.check()
    clock = clock or SystemClock()
    store = store or open_store(settings.store)
    threads = ThreadPoolExecutor(settings.threads, thread_name_prefix="handler")
    retention = Retention(store.maintenance, clock, bodies=settings.retention_bodies, keys=settings.retention_keys)
    async with (
        store.queue() as queue,
        _worker_metrics(settings, router, store, clock),
        _indexing(settings, store, clock),
        _beside(retention.run()),
        _backfilling(settings, store, queue, clock),
    ):
        for dead in takes_over:
            await queue.expire_leases_of(dead, now=clock.now())
        async with _open_runner(settings, router.resources, clock, threads, _asking(queue)) as runner:
            dispatcher = Worker(
                queue,
                router,
                clock,
                runner,
                worker=worker,
                places={
                    RunsIn.LOOP: settings.concurrency,
                    RunsIn.THREAD: settings.threads,
                    RunsIn.PROCESS: settings.processes,
                },
                lease=settings.lease,
                rng=random.Random(),  # noqa: S311 - spreads retries, protects nothing
            )
            left_behind = await dispatcher.run(stop, grace=settings.grace)
    await asyncio.to_thread(flush)
    threads.shutdown(wait=False, cancel_futures=True)
    return left_behind


@asynccontextmanager
async def _worker_metrics(settings: Settings, router: Router, store: Store, clock: Clock) -> AsyncIterator[None]:
    """Serve the worker's metrics for as long as the block lasts, if they are switched on."""
    if not settings.metrics:
        yield
        return
    from receiver.signals.metrics.work import BacklogReader, WorkMetrics
    from receiver.web.metrics_server import serve_metrics  # as above

    with WorkMetrics([handler.name for handler in router], BacklogReader(store.reports, clock)) as metrics:
        endpoint = MetricsEndpoint(metrics.exposition, token=settings.plain_metrics_token())
        async with serve_metrics(endpoint, settings.metrics_host, settings.metrics_port):
            yield


@asynccontextmanager
async def open_replay(
    settings: Settings,
    router: Router,
    handlers: Sequence[Handler],
    *,
    ask_once: AskOnce,
    frozen: FrozenTime | None = None,
) -> AsyncIterator[LocalRunner]:
    """Make what these handlers of the router need to run here and now; it is closed with the block.

    With `frozen` they are told the arrival of each delivery as the time. Raises HandlerError like `run_worker`.
    """
    router.check()
    threads = ThreadPoolExecutor(1, thread_name_prefix="handler")
    resources = needed_by([handler.needs for handler in handlers], router.resources)
    now = None if frozen is None else frozen.now
    async with _open_runner(settings, resources, SystemClock(), threads, ask_once, told_now=now) as runner:
        yield LocalRunner(handlers, runner, arrived=None if frozen is None else frozen.move_to)
    threads.shutdown(wait=False, cancel_futures=True)


def _asking(queue: WorkQueue) -> AskOnce:
    return lambda handler, key, now: queue.once(handler, key, now=now)


@asynccontextmanager
async def _indexing(settings: Settings, store: Store, clock: Clock) -> AsyncIterator[None]:
    """Fill the index of words for as long as the block lasts, if it is switched on."""
    if not settings.search:
        yield
        return
    async with store.search() as index, _beside(keep_indexed(index, clock)):
        yield


@asynccontextmanager
async def _backfilling(settings: Settings, store: Store, queue: WorkQueue, clock: Clock) -> AsyncIterator[None]:
    """Ask the service for what no webhook brought for as long as the block lasts, if that is switched on."""
    if not settings.backfill:
        yield
        return
    from receiver.replay.backfill.watching import Backfilling  # loads httpx
    from receiver.service.client import AsyncClient

    async with (
        AsyncClient(settings.plain_api_key(), settings.base_url, clock=clock) as client,
        _beside(Backfilling(store, queue, client, clock).run()),
    ):
        yield


@asynccontextmanager
async def _beside(running: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Let something run for as long as the block lasts."""
    task = asyncio.create_task(running)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


@asynccontextmanager
async def _open_runner(
    settings: Settings,
    resources: Mapping[Any, Resource],
    clock: Clock,
    threads: Executor,
    ask_once: AskOnce,
    *,
    told_now: Callable[[], datetime] | None = None,
) -> AsyncIterator[Runner]:
    """Make what the handlers of a worker share; it is closed with the block."""
    command = (sys.executable, "-P", "-m", "receiver.worker.child", settings.log_level)
    async with AsyncExitStack() as stack:
        processes = Processes(clock, (*command, "json" if settings.json_logs else "text"), size=settings.processes)
        stack.push_async_callback(processes.aclose)
        clients = None
        if settings.api_key is not None:
            from receiver.service.client.shared import open_clients  # loads httpx, which is rarely needed

            key = settings.api_key.get_secret_value()
            clients = await stack.enter_async_context(open_clients(settings.base_url, key))
        yield Runner(
            clock,
            threads,
            processes=processes,
            resources=await stack.enter_async_context(open_resources(resources)),
            ask_once=ask_once,
            clients=clients,
            told_now=told_now,
        )
