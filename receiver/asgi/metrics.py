"""`/metrics`: who may read it, and a server for it that no handler can stop."""

import asyncio
import hmac
import logging
import socket
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta

from starlette.types import ASGIApp, Receive, Scope, Send

from receiver.addresses import is_loopback
from receiver.asgi.replies import Reply, exposition, method_not_allowed, not_found, unauthenticated, unavailable
from receiver.asgi.server import Server, bind, make_server
from receiver.errors import ConfigurationError

log = logging.getLogger(__name__)

PATH = "/metrics"
_MOST_CONNECTIONS = 20
_SECOND = timedelta(seconds=1)
_READ_TIMEOUT = timedelta(seconds=4)
_FORWARDED = frozenset(
    {
        b"forwarded",  # RFC 7239
        b"via",  # RFC 9110, section 7.6.3
        b"x-forwarded-for",
        b"x-forwarded-host",
        b"x-forwarded-proto",
        b"x-forwarded-server",
        b"x-real-ip",
    }
)


class MetricsEndpoint:
    """An ASGI app that answers whoever sends the token; without one set, only programs on this machine.

    A proxy on this machine makes every client look like such a program. So whatever shows that a request was
    passed on refuses it: a header that proxies add, another Host than this machine's, HTTP/1.0. A proxy that is
    told to hide all that cannot be told apart, so behind any proxy a token has to be set.
    """

    def __init__(self, read: Callable[[], Awaitable[bytes]], *, token: str | None) -> None:
        self._read = read
        self._token = None if token is None else token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        for message in await self._answer(scope):
            await send(message)

    async def _answer(self, scope: Scope) -> Reply:
        if scope["method"] not in ("GET", "HEAD"):
            return method_not_allowed("GET")
        headers = dict(scope["headers"])
        if self._token is None and not _is_local(scope, headers):
            return unauthenticated("only this machine may read the metrics, until RECEIVER_METRICS_TOKEN is set")
        if self._token is not None and not _carries(self._token, headers):
            return unauthenticated("send the token as `Authorization: Bearer ...`")
        try:
            return exposition(await self._read())
        except Exception:
            log.exception("metrics_failed")
            return unavailable("the metrics could not be read; the log says why")


@asynccontextmanager
async def serve_apart(endpoint: MetricsEndpoint, host: str, port: int) -> AsyncIterator[None]:
    """Serve the metrics for the length of the block, from a thread and an event loop of their own.

    Handlers may block the caller's event loop, and then it is best to be seen. A port that cannot be had is told
    in the log, and the block runs without.
    """
    try:
        listener = bind(host, port)
    except ConfigurationError as exc:
        reason = str(exc).partition(";")[0]
        advice = "nobody can read this worker's metrics; choose another RECEIVER_METRICS_PORT, or 0 for a free one"
        log.warning("metrics_not_served", extra={"reason": reason, "advice": advice})
        yield
        return
    server = make_server(
        _only(endpoint), read_timeout=_READ_TIMEOUT, shutdown=_SECOND, most_connections=_MOST_CONNECTIONS
    )
    # A daemon, and not waited for without end: what reads the store in it may hang, and the worker has to stop.
    thread = threading.Thread(target=_run, args=(server, listener), name="metrics", daemon=True)
    thread.start()
    host, port = listener.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    log.info("serving_metrics", extra={"url": f"http://{shown}:{port}{PATH}"})
    try:
        yield
    finally:
        server.should_exit = True
        await asyncio.to_thread(thread.join, _SECOND.total_seconds())


def _run(server: Server, listener: socket.socket) -> None:
    try:
        asyncio.run(server.serve([listener]))
    except Exception:
        log.exception("metrics_not_served")


def _only(endpoint: MetricsEndpoint) -> ASGIApp:
    """Return an app that serves nothing else."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == PATH:
            await endpoint(scope, receive, send)
            return
        for message in not_found(f"only {PATH} is served here"):
            await send(message)

    return app


def _carries(token: bytes, headers: Mapping[bytes, bytes]) -> bool:
    scheme, _, sent = headers.get(b"authorization", b"").partition(b" ")
    return scheme.lower() == b"bearer" and hmac.compare_digest(sent.strip(), token)


def _is_local(scope: Scope, headers: Mapping[bytes, bytes]) -> bool:
    client = scope.get("client")
    return (
        client is not None
        and is_loopback(client[0])
        # nginx before 1.29.7 speaks 1.0 to what is behind it, unless told otherwise (proxy_http_version).
        and scope["http_version"] != "1.0"
        and not _FORWARDED & headers.keys()
        and is_loopback(_host(headers.get(b"host", b"").decode("latin-1")))
    )


def _host(header: str) -> str:
    """Return a Host header without its port."""
    if header.startswith("["):
        return header[1:].partition("]")[0]
    return header.partition(":")[0]
