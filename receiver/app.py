"""Assembles the app that takes deliveries in: settings, a store, intake, and what watches them."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager
from typing import TYPE_CHECKING
from urllib.parse import quote

from starlette.types import ASGIApp, Receive, Scope, Send

from receiver.core.clock import Clock
from receiver.core.ports.log import DeliveryLog
from receiver.runtime.log_lines import event_log
from receiver.settings import Settings, load_settings, log_short_secrets
from receiver.settings.alerting import alerting
from receiver.signals.ending import flush_all
from receiver.signals.metrics import SHARED_FOLDER
from receiver.signals.traces.switch import delivery_traces
from receiver.stores import open_store
from receiver.stores.clocks import open_clock
from receiver.web.health import Liveness, Readiness
from receiver.web.intake import Authenticator, Intake
from receiver.web.metrics import PATH as METRICS_PATH
from receiver.web.metrics import MetricsEndpoint
from receiver.web.paths import EndpointPaths, NotStarted, has_ended, spellings
from receiver.web.reception import WebhookEndpoint

if TYPE_CHECKING:  # they load all requests, and all records of a store
    from receiver.core.ports.store import Store
    from receiver.requests.webhooks import WebhookConfig

log = event_log(__name__)


class Receiver:
    """The receiver as an ASGI app: run it with a server, or mount it in Starlette or FastAPI.

    It takes deliveries in and runs no handlers; `receiver work` does that in a process of its own. A mounted app's
    own lifespan is not run: pass `receiver.lifespan` to the outer app. Until it is entered, every request is
    answered 503 and logged. Raises ConfigurationError for settings that are wrong.
    """

    def __init__(
        self,
        settings: Settings | None = None,
        *,
        store: "Store | None" = None,
        clock: Clock | None = None,
        worker_lives: Callable[[], bool] | None = None,
        log: Callable[[], AbstractAsyncContextManager[DeliveryLog]] | None = None,
    ) -> None:
        """`worker_lives` returns whether the worker beside this app is alive, for `/readyz?worker=1`.

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

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI scope."""
        if scope["type"] != "http":
            from starlette.applications import Starlette  # a command enters the lifespan itself and needs none

            await Starlette(lifespan=self.lifespan)(scope, receive, send)
            return
        await self._paths(scope, receive, send)

    @asynccontextmanager
    async def lifespan(self, app: object = None) -> AsyncIterator[None]:
        """Open the store for as long as the block lasts.

        `app` is the outer app; frameworks pass theirs. If this receiver is mounted in it, the path of the mount
        without a slash is served too, without a redirect.

        Raises ConfigurationError if there is neither a secret nor a token, unless ALLOW_UNSIGNED is set.
        """
        self.settings.require_authentication()
        if routes := getattr(app, "routes", None):
            from receiver.web.mounts import serve_mounts_without_slash  # only under a mount, as above

            serve_mounts_without_slash(routes, self)
        if not self.settings.authenticated:
            log.warning(
                "authentication_not_configured",
                extra={"advice": "every delivery is accepted; set RECEIVER_SECRETS"},
            )
        if app is not None:  # `receiver serve` enters the lifespan without an app, and has logged this before
            log_short_secrets(self.settings)
        async with (
            self._log() as deliveries,
            open_clock(self._store, self._clock) as clock,
            alerting(self.settings, self._store, clock),
        ):
            with ExitStack() as stack:
                self._paths = EndpointPaths(self._open(deliveries, clock, stack))
                try:
                    yield
                finally:
                    self._paths = has_ended
                    self._webhook = None
        await asyncio.to_thread(flush_all)

    def webhook(
        self, *, events: Sequence[str] = (), metadata: Mapping[str, object] | None = None
    ) -> "WebhookConfig":
        """Return the webhook that makes the service send a job's events here, for the requests of a client.

        It is `Settings.webhook`; the app need not be running.
        """
        return self.settings.webhook(events=events, metadata=metadata)

    def direct(self, path: bytes) -> WebhookEndpoint | None:
        """Return the endpoint for its path, which lets our own server bypass ASGI; None for other paths."""
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
