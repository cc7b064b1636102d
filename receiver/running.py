"""Assembles what runs handlers: a worker, and a replay in this process."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from pathlib import Path

from receiver.core.activity import HandlerLimits, WorkerSign
from receiver.core.clock import Clock, running_beside
from receiver.core.ports.queue import WorkQueue
from receiver.core.ports.store import Store
from receiver.core.types import HandlerName, WorkerId
from receiver.replay.frozen_time import FrozenTime
from receiver.replay.local import LocalRunner, open_local_runner
from receiver.routing import Handler, Router
from receiver.routing.context import AskOnce, Clients
from receiver.settings import Settings
from receiver.settings.alerting import alerting
from receiver.signals.ending import flush_all
from receiver.signals.traces.switch import attempt_traces
from receiver.stores import open_clock, open_store
from receiver.web.metrics import MetricsEndpoint
from receiver.worker.calls.pools import open_processes
from receiver.worker.calls.runner import ask_store, open_runner
from receiver.worker.events import MemoryBudget, Unhandled
from receiver.worker.trial import RoutingTrial, RoutingWatch
from receiver.worker.upkeep.retention import Retention, indexing
from receiver.worker.upkeep.supervisor import shown_alive
from receiver.worker.work_in_hand import WorkerLimits
from receiver.worker.worker import Worker, WorkerOptions


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
    With `careful`, or after a worker that died, `where` and `lane` are first tried in another process. `watch` ends
    the process if they block it later. With `stubs` the log gets a handler ready to paste for each type of event
    that no handler wants. `started` is called with the name of each handler that is about to be called.

    Returns how many handlers could not be ended within the grace time and still run in their threads. Raises
    HandlerError for a router that does not work as a whole, and for a resource that cannot be made.
    """
    router.check()
    store = store or open_store(settings.store)
    async with (
        store.queue() as queue,
        open_clock(store, clock) as clock,
        _worker_metrics(settings, router, store, clock),
        indexing(store.search, clock) if settings.search else nullcontext(),
        running_beside(
            Retention(
                store.maintenance, clock, bodies=settings.retention_bodies, keys=settings.retention_keys
            ).run()
        ),
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
            if takes_over:
                opened.note_death()
            left_behind = await opened.run(stop, grace=settings.grace)
    await asyncio.to_thread(flush_all)
    return left_behind


def _sign(worker: WorkerId, clock: Clock, settings: Settings, router: Router) -> WorkerSign:
    from importlib.metadata import PackageNotFoundError, version  # takes long to load, and only workers need it

    try:
        installed = version("crawl-receiver")
    except PackageNotFoundError:
        installed = "unknown"  # a copy of the package that was not installed
    limits = {
        one.name: HandlerLimits(
            None if one.batch is not None else one.concurrency,  # with batches it does not count items
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
        options = WorkerOptions(
            memory=memory,
            trial=trial if careful else None,
            watch=watch,
            unhandled=Unhandled(stubs=stubs),
            started=started,
            store=settings.other_store(),
        )
        yield Worker(queue, router, clock, runner, worker, limits, options)


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
    from receiver.service.client.clients import open_clients  # loads httpx

    return open_clients(settings.base_url, settings.api_key.get_secret_value())
