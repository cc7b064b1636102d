"""A worker serves its metrics from a thread with its own event loop, which no handler can block."""

import asyncio
import socket
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

from starlette.types import ASGIApp, Receive, Scope, Send

from receiver.errors import ConfigurationError
from receiver.runtime.log_lines import event_log
from receiver.web.listening import address, bind
from receiver.web.metrics import PATH, MetricsEndpoint
from receiver.web.replies import not_found, send_reply
from receiver.web.server import Server, make_server

log = event_log(__name__)

MAX_CONNECTIONS = 20
_JOIN_SECONDS = 0.5
_READ_TIMEOUT = timedelta(seconds=4)


@asynccontextmanager
async def serve_metrics(endpoint: MetricsEndpoint, host: str, port: int) -> AsyncIterator[None]:
    """Serve the metrics at this address while the block runs.

    If the port is not available, this logs a warning and runs the block without the metrics.
    """
    try:
        listener = bind(host, port)
    except ConfigurationError as exc:
        reason = str(exc).partition(";")[0]
        advice = "this worker's metrics cannot be read; choose another RECEIVER_METRICS_PORT, or 0 for a free one"
        log.warning("metrics_not_served", extra={"reason": reason, "advice": advice})
        yield
        return
    server = make_server(
        _only_metrics(endpoint),
        read_timeout=_READ_TIMEOUT,
        shutdown=timedelta(seconds=1),
        most_connections=MAX_CONNECTIONS,
    )
    # A daemon thread with a limited join: a read of the store may hang, and the worker must still stop.
    thread = threading.Thread(target=_run, args=(server, listener), name="metrics", daemon=True)
    thread.start()
    log.info("serving_metrics", extra={"url": address(listener) + PATH})
    try:
        yield
    finally:
        server.should_exit = True
        await asyncio.to_thread(thread.join, _JOIN_SECONDS)
        if not thread.is_alive():
            listener.close()  # a server that exits before its start does not close it


def _run(server: Server, listener: socket.socket) -> None:
    try:
        asyncio.run(server.serve([listener]))
    except Exception:
        log.exception("metrics_not_served")


def _only_metrics(endpoint: MetricsEndpoint) -> ASGIApp:
    """Return an app that serves only this endpoint."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == PATH:
            await endpoint(scope, receive, send)
            return
        await send_reply(not_found(f"only {PATH} is served here"), send)

    return app
