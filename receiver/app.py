"""Assembly: the one place where settings, stores, intake and the worker meet."""

import asyncio
import os
import random
import secrets
import socket
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.types import ASGIApp, Receive, Scope, Send

from receiver.alerting import alerting
from receiver.core.clock import Clock, SystemClock
from receiver.core.log_lines import event_log
from receiver.core.ports.log import DeliveryLog
from receiver.core.ports.queue import WorkQueue
from receiver.core.ports.store import Store
from receiver.core.types import HandlerName, WorkerId
from receiver.core.workers import HandlerLimits, WorkerSign
from receiver.replay.frozen_time import FrozenTime
from receiver.replay.local import LocalRunner, open_local_runner
from receiver.routing import Handler, Router
from receiver.routing.context import AskOnce, Clients
from receiver.settings import Settings, load_settings
from receiver.signals.metrics import SHARED_FOLDER
from receiver.signals.subscribers import flush
from receiver.signals.traces.switch import attempt_traces, delivery_traces, flush_traces
from receiver.stores import open_store
from receiver.web.endpoint import WebhookEndpoint
from receiver.web.health import Liveness, Readiness
from receiver.web.intake import Authenticator, Intake
from receiver.web.metrics import PATH as METRICS_PATH
from receiver.web.metrics import MetricsEndpoint
from receiver.web.paths import EndpointPaths, NotStarted, has_ended, serve_mounts_without_slash, spellings
from receiver.worker import Retention, Worker, WorkerLimits, ask_store, open_processes, open_runner
from receiver.worker.background import running_beside
from receiver.worker.heartbeat import shown_alive
from receiver.worker.indexer import indexing
from receiver.worker.memory_budget import MemoryBudget
from receiver.worker.routing_trial import RoutingTrial
from receiver.worker.routing_watch import RoutingWatch
from receiver.worker.unhandled import Unhandled

if TYPE_CHECKING:  # every request comes with it
    from receiver.requests.webhooks import WebhookConfig

log = event_log(__name__)


class Receiver:
    """The receiver as an ASGI app: run it with a server, or mount it in Starlette or FastAPI.

    It takes deliveries in and runs no handlers; `receiver work` does that in a process of its own. Under a mount
    no lifespan of its own is run, so hand `receiver.lifespan` to the outer app. Until it has been entered every
    request is answered 503, and the log says so. Raises ConfigurationError when the settings do not fit.
    """

    def __init__(
        self,
        settings: Settings | None = None,
        *,
        store: Store | None = None,
        clock: Clock | None = None,
        worker_lives: Callable[[], bool] | None = None,
        log: Callable[[], AbstractAsyncContextManager[DeliveryLog]] | None = None,
    ) -> None:
        """`worker_lives` tells whether the worker that is watched beside this app lives, for `/readyz?worker=1`.

        `log` opens the store for appending in place of the store's own `log`.
        """
        self.settings = settings or load_settings()
        self._store = store or open_store(self.settings.store)
        self._log = log or self._store.log
        self._clock = clock
        self._worker_lives = worker_lives
        self._paths: ASGIApp = NotStarted()
        self._webhook: WebhookEndpoint | None = None
        self._webhook_paths = {quote(path).encode() for path in spellings(self.settings.path)}
        self._lifespan = Starlette(lifespan=self.lifespan)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI scope."""
        if scope["type"] != "http":
            await self._lifespan(scope, receive, send)
            return
        await self._paths(scope, receive, send)

    @asynccontextmanager
    async def lifespan(self, app: object = None) -> AsyncIterator[None]:
        """Open the store for as long as the block lasts.

        `app` is the outer app; frameworks pass theirs. Where this receiver is mounted in it, the path of the mount
        without a slash is served too, and not redirected.

        Raises ConfigurationError when there is neither a secret nor a token, unless ALLOW_UNSIGNED is set.
        """
        self.settings.require_authentication()
        serve_mounts_without_slash(getattr(app, "routes", []), self)
        if not self.settings.authenticated:
            log.warning(
                "authentication_not_configured",
                extra={"advice": "every delivery is accepted; set RECEIVER_SECRETS"},
            )
        async with (
            self._log() as deliveries,
            _open_clock(self._store, self._clock) as clock,
            alerting(self.settings, self._store, clock),
        ):
            with ExitStack() as stack:
                self._paths = EndpointPaths(self._open(deliveries, clock, stack))
                try:
                    yield
                finally:
                    self._paths = has_ended
                    self._webhook = None
        await asyncio.to_thread(_flush)

    def webhook(
        self, *, events: Sequence[str] = (), metadata: Mapping[str, object] | None = None
    ) -> "WebhookConfig":
        """Return the webhook that makes the service send a job's events here, for the requests of a client.

        It is `Settings.webhook`; the app need not be running.
        """
        return self.settings.webhook(events=events, metadata=metadata)

    def direct(self, path: bytes) -> WebhookEndpoint | None:
        """Return the endpoint of the webhook for its path, so that a server of ours can pass ASGI by."""
        return self._webhook if path in self._webhook_paths else None

    def _open(self, deliveries: DeliveryLog, clock: Clock, stack: ExitStack) -> dict[str, ASGIApp]:
        """Return the endpoints by path."""
        settings = self.settings
        gate = Authenticator(
            signature_header=settings.signature_header,
            secrets=settings.plain_secrets(),
            token_header=settings.token_header,
            tokens=settings.plain_tokens(),
            other_secrets=settings.plain_other_secrets(),
        )
        intake = Intake(
            deliveries,
            gate,
            clock,
            max_body=settings.max_body,
            max_in_flight=settings.max_in_flight,
            traces=delivery_traces(on=settings.traces),
        )
        stack.callback(intake.close)
        endpoints: dict[str, ASGIApp] = {
            "/healthz": Liveness(),
            "/readyz": Readiness(intake, deadline=settings.ack_deadline, worker_lives=self._worker_lives),
        }
        stopwatch = None
        if settings.metrics:
            from receiver.signals.metrics.intake import IntakeMetrics  # takes long to load, and few have it on

            shared = SHARED_FOLDER in os.environ
            metrics = stack.enter_context(IntakeMetrics(intake, shared=shared))
            if shared:
                stack.callback(asyncio.create_task(metrics.keep_copied(clock)).cancel)
            endpoints[METRICS_PATH] = MetricsEndpoint(metrics.exposition, token=settings.plain_metrics_token())
            stopwatch = metrics.stopwatch
        endpoint = WebhookEndpoint(
            intake, read_timeout=settings.read_timeout, ack_deadline=settings.ack_deadline, stopwatch=stopwatch
        )
        self._webhook = endpoint
        return {**endpoints, **dict.fromkeys(spellings(settings.path), endpoint)}


def _flush() -> None:
    """Wait a short time until subscribers have handled all records, and all spans are exported."""
    flush()
    flush_traces()


def _open_clock(store: Store, clock: Clock | None) -> AbstractAsyncContextManager[Clock]:
    """Open the clock that was given, or the one that all processes which share the store have."""
    return store.clock(SystemClock()) if clock is None else nullcontext(clock)


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
    careful: bool = False,
    watch: RoutingWatch | None = None,
    store: Store | None = None,
    clock: Clock | None = None,
    stubs: bool = False,
    started: Callable[[HandlerName], None] | None = None,
) -> int:
    """Run handlers on the deliveries in the store until `stop` is set.

    `takes_over` names workers that are known to be dead; their work is claimed without waiting for their leases.
    With `careful`, or after a worker that died, `where` and `lane` are tried in another process at first. `watch`
    ends the process if they block it later. With `stubs` the log has a handler ready to paste for each type of
    event that no handler wants. `started` is called with the name of each handler that is about to be called.

    Returns how many handlers could not be ended within the grace time and still run in their threads. Raises
    HandlerError for a router that does not work as a whole, and for a resource that cannot be made.
    """
    router.check()
    store = store or open_store(settings.store)
    async with (
        store.queue() as queue,
        _open_clock(store, clock) as clock,
        _worker_metrics(settings, router, store, clock),
        indexing(store.search, clock) if settings.search else nullcontext(),
        running_beside(_retention(settings, store, clock).run()),
        _backfilling(settings, store, queue, clock),
        alerting(settings, store, clock, keys=queue),
    ):
        for dead in takes_over:
            await queue.expire_leases_of(dead, now=clock.steady())
            await queue.sign_off(dead)
        async with (
            shown_alive(queue, clock, _sign(worker, clock, settings, router)),
            _open_worker(
                settings,
                router,
                queue,
                clock,
                worker,
                careful=careful or bool(takes_over),
                watch=watch,
                stubs=stubs,
                started=started,
            ) as opened,
        ):
            left_behind = await opened.run(stop, grace=settings.grace)
    await asyncio.to_thread(_flush)
    return left_behind


def _sign(worker: WorkerId, clock: Clock, settings: Settings, router: Router) -> WorkerSign:
    """Return how this worker shows itself."""
    from importlib.metadata import PackageNotFoundError, version  # takes long to load, and only workers need it

    try:
        installed = version("crawl-receiver")
    except PackageNotFoundError:
        installed = "unknown"  # a copy of the package that nobody installed
    limits = {
        one.name: HandlerLimits(
            None if one.batch is not None else one.concurrency,  # that of batches is not the number of items
            None if one.rate is None else one.rate.interval,
        )
        for one in router
        if one.concurrency is not None or one.rate is not None
    }
    return WorkerSign(
        worker, socket.gethostname(), os.getpid(), installed, clock.now(), settings.concurrency, limits
    )


@asynccontextmanager
async def _open_worker(
    settings: Settings,
    router: Router,
    queue: WorkQueue,
    clock: Clock,
    worker: WorkerId,
    *,
    careful: bool,
    stubs: bool,
    watch: RoutingWatch | None,
    started: Callable[[HandlerName], None] | None,
) -> AsyncIterator[Worker]:
    """Open everything that a worker's handlers need; it is closed with the block."""
    limits = WorkerLimits(
        concurrency=settings.concurrency,
        threads=settings.threads,
        processes=settings.processes,
        lease=settings.lease,
    )
    memory = MemoryBudget()
    async with (
        open_processes(
            clock, settings.processes, log_level=settings.log_level, json_logs=settings.json_logs
        ) as processes,
        open_processes(clock, 1, log_level=settings.log_level, json_logs=settings.json_logs) as trial_processes,
        _open_clients(settings) as clients,
        open_runner(
            clock,
            router.resources,
            threads=settings.threads,
            ask_once=ask_store(queue),
            processes=processes,
            clients=clients,
            memory=memory,
            traces=attempt_traces(on=settings.traces),
            handlers=[*router],
        ) as runner,
    ):
        trial = RoutingTrial(trial_processes, clock, router, handlers=settings.handlers, folder=Path.cwd())
        rng = random.Random()  # noqa: S311 - spreads retries, protects nothing
        yield Worker(
            queue,
            router,
            clock,
            runner,
            worker=worker,
            limits=limits,
            rng=rng,
            memory=memory,
            trial=trial if careful else None,
            unhandled=Unhandled(stubs=stubs),
            started=started,
            watch=watch,
            store=settings.other_store(),
        )


@asynccontextmanager
async def open_replay(
    settings: Settings,
    router: Router,
    handlers: Sequence[Handler],
    *,
    ask_once: AskOnce,
    clock: Clock,
    frozen: FrozenTime | None = None,
) -> AsyncIterator[LocalRunner]:
    """Open what these handlers of the router need to run in this process, as `open_local_runner` does."""
    async with (
        _open_clients(settings) as clients,
        open_local_runner(
            router,
            handlers,
            ask_once=ask_once,
            clock=clock,
            clients=clients,
            frozen=frozen,
            traces=attempt_traces(on=settings.traces),
        ) as runner,
    ):
        yield runner


def _retention(settings: Settings, store: Store, clock: Clock) -> Retention:
    return Retention(store.maintenance, clock, bodies=settings.retention_bodies, keys=settings.retention_keys)


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
async def _backfilling(settings: Settings, store: Store, queue: WorkQueue, clock: Clock) -> AsyncIterator[None]:
    """Import events that no webhook brought, for as long as the block lasts, if that is switched on."""
    if not settings.backfill:
        yield
        return
    from receiver.replay.backfill.watching import Backfilling  # loads httpx
    from receiver.service.client import AsyncClient

    async with (
        AsyncClient(settings.plain_api_key(), settings.base_url, clock=clock) as client,
        running_beside(Backfilling(store, queue, client, clock).run()),
    ):
        yield


def _open_clients(settings: Settings) -> AbstractAsyncContextManager[Clients | None]:
    """Open clients of the service for handlers, if there is a key."""
    if settings.api_key is None:
        return nullcontext()
    from receiver.service.client.shared import open_clients  # loads httpx

    return open_clients(settings.base_url, settings.api_key.get_secret_value())
