"""The real receiver in a test: the ASGI app on a store of its own, and a worker beside it."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from starlette.types import Receive, Scope, Send

from receiver.app import Receiver
from receiver.core.ports.reports import Reports
from receiver.core.work import WorkDetail, WorkFilter
from receiver.routing import Router
from receiver.routing.context import Clients
from receiver.settings import Settings
from receiver.settings.loading import GivenSettings
from receiver.stores import open_store
from receiver.testing.clock import SteppedClock
from receiver.testing.work import Work
from receiver.testing.working import working
from receiver.worker.calls.runner import NO_RESOURCES

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

        Before that, everything happens that can happen at the present time of the clock.
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
        working(queue, router, clock, settings, resources, clients) as wake_worker,
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
