"""The console as an ASGI app: its parts, its routes, and what it answers when something is wrong."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from importlib.resources import as_file, files

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send

from receiver.core.clock import Clock
from receiver.core.ports.store import Store
from receiver.errors import (
    NoSearchIndex,
    StoreError,
    StoreRefused,
    UnknownAction,
    UnknownDelivery,
    UnknownJob,
    UnknownRequest,
    UnknownWork,
)
from receiver.web.console.actions import ActionRuns, TooManyActions
from receiver.web.console.filters import EXAMINED, WrongFilter
from receiver.web.console.gate import Gate, Sessions
from receiver.web.console.job_results import JobComparisons
from receiver.web.console.pages.actions import ActionPages
from receiver.web.console.pages.deliveries import DeliveryPages, RunAgainPages
from receiver.web.console.pages.findings import DriftPage, MonitorPages
from receiver.web.console.pages.handlers import HandlerPages
from receiver.web.console.pages.help import GuidePages, SettingsPage
from receiver.web.console.pages.jobs import JobListPages, JobResultPages
from receiver.web.console.pages.overview import ChangeStream, OverviewPage
from receiver.web.console.pages.quarantine import QuarantinePages
from receiver.web.console.pages.sign_in import SignInPages
from receiver.web.console.pages.simulator import SimulatorPage
from receiver.web.console.pages.work_items import DeadLetterPage, WorkItemPages
from receiver.web.console.parts import ConsoleOptions, ConsolePages, ConsoleParts
from receiver.web.console.rendering import PageRenderer
from receiver.web.console.reports import BackgroundReport, SlowWork, count_drift, read_activity, read_checks
from receiver.web.console.store import StoreAccess, StoreChanges

_UNKNOWN = (UnknownAction, UnknownDelivery, UnknownJob, UnknownRequest, UnknownWork)
_SUBJECTS: tuple[type[ConsolePages], ...] = (
    *(OverviewPage, DeliveryPages, RunAgainPages, DeadLetterPage, WorkItemPages, JobResultPages, JobListPages),
    *(MonitorPages, HandlerPages, QuarantinePages, DriftPage, SimulatorPage, SettingsPage, GuidePages),
    *(ActionPages, ChangeStream, SignInPages),
)


class ConsoleApp:
    """The console for one store. Under a mount, hand `lifespan` to the outer app."""

    def __init__(self, store: Store, clock: Clock, options: ConsoleOptions, *, examined: int = EXAMINED) -> None:
        sessions = Sessions(options.password)
        access = StoreAccess(store)
        self._counting = StoreAccess(store, most=2)  # of its own: pages do not wait for what is counted
        self._watching = StoreAccess(store, most=1)  # each connection knows for itself what has changed
        slow = SlowWork()
        self.parts = ConsoleParts(
            access,
            PageRenderer(clock, version=options.version),
            clock,
            sessions,
            ActionRuns(access, clock),
            options,
            StoreChanges(self._watching, clock),
            slow,
            BackgroundReport(self._counting, lambda reports: reports.handlers(count_done=False)),
            BackgroundReport(self._counting, lambda reports: read_activity(reports, clock.now())),
            BackgroundReport(self._counting, lambda reports: read_checks(reports, slow)),
            BackgroundReport(self._counting, lambda reports: count_drift(reports, slow)),
            JobComparisons(options.results, access, clock),
            examined,
        )
        with as_file(files("receiver.web.console") / "static") as folder:
            static = StaticFiles(directory=folder)
        routes: list[BaseRoute] = [route for subject in _SUBJECTS for route in subject(self.parts).routes()]
        routes.append(Mount("/static", static))
        inner = Starlette(
            routes=routes,
            lifespan=self.lifespan,
            exception_handlers={
                HTTPException: self._http_error,
                **dict.fromkeys((StoreError, StoreRefused), self._shown("The store cannot be used now: {}", 503)),
                **dict.fromkeys((WrongFilter, NoSearchIndex), self._shown("{}", 400)),
                **dict.fromkeys(_UNKNOWN, self._shown("{}", 404)),
                TooManyActions: self._shown("{}", 503),
                Exception: self._shown("The console has a fault. Its log has the details.", 500),
            },
        )
        inner.router.redirect_slashes = False
        self._app: ASGIApp = Gate(
            inner, sessions=sessions, clock=clock, names=options.names, read_only=options.read_only
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI scope."""
        await self._app(scope, receive, send)

    @asynccontextmanager
    async def lifespan(self, app: object = None) -> AsyncIterator[None]:
        """End what runs, and close the store, at the end of the block. `app` is the outer app."""
        try:
            yield
        finally:
            self.parts.changes.end()
            parts = self.parts
            for one in (parts.runs, parts.comparisons, parts.handlers, parts.activity, parts.checks, parts.drift):
                await one.aclose()
            for access in (self._counting, self._watching, parts.access):
                await access.aclose()

    async def _http_error(self, request: Request, exc: Exception) -> Response:
        status = exc.status_code if isinstance(exc, HTTPException) else 500
        if status == 404 or (status == 405 and request.method == "GET"):  # an action has that path, and no page
            return self._error(request, "There is no such page.", 404)
        return self._error(request, str(getattr(exc, "detail", exc)), status)

    def _shown(self, text: str, status: int) -> Callable[[Request, Exception], Awaitable[Response]]:
        """Return a handler of exceptions that shows this text, with that of the exception in it."""

        async def show(request: Request, exc: Exception) -> Response:
            return self._error(request, text.format(exc), status)

        return show

    def _error(self, request: Request, text: str, status: int) -> Response:
        return self.parts.pages.page(request, "error.html", {"text": text, "status": status}, status=status)
