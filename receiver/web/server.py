"""The HTTP server: uvicorn with our limits, on a socket that is already bound."""

import asyncio
import errno
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from typing_extensions import override

from receiver.runtime.log_lines import event_log
from receiver.web.protocol import Connections, HttpProtocol
from receiver.web.reception import WebhookEndpoint

log = event_log(__name__)

MAX_CONNECTIONS, MIN_CONNECTIONS = 2_000, 20
_KEPT_DESCRIPTORS = 150
"""Descriptors for the store, the log, and connections above the limit until they are closed."""
_BACKLOG = 2_048
_ACCEPTED_AT_ONCE = 16
"""Connections accepted in one turn of the event loop. asyncio uses the same number for the queue."""
_EPISODE_SECONDS = 60.0
KEEP_ALIVE_SECONDS = 75
"""How long a connection without a request is open. A client that sends its next request just when the server closes
has to send it again. So this is longer than clients and proxies wait: a load balancer of AWS 60 seconds by default,
and its target has to wait longer (User Guide for Application Load Balancers, "Connection idle timeout")."""
_NO_DESCRIPTOR = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}


class AcceptFailures:
    """An exception handler of an event loop. It logs one line per minute while connections cannot be accepted.

    asyncio itself tries again each second and logs a traceback for each attempt.
    """

    def __init__(self) -> None:
        self._last: float | None = None

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Handle an error that asyncio reports."""
        error = context.get("exception")
        if not (isinstance(error, OSError) and error.errno in _NO_DESCRIPTOR and "accept" in context["message"]):
            loop.default_exception_handler(context)
            return
        last, self._last = self._last, loop.time()
        if last is None or self._last - last > _EPISODE_SECONDS:
            advice = "connections wait until others are closed; see the limit on open files"
            log.error("connections_not_accepted", extra={"reason": error.strerror, "advice": advice})


class Server(uvicorn.Server):
    """A uvicorn server that keeps idle connections, and leaves signals to its caller, who sets `should_exit`."""

    def __init__(self, config: uvicorn.Config) -> None:
        config.timeout_keep_alive = KEEP_ALIVE_SECONDS
        super().__init__(config)
        self.listening = asyncio.Event()
        """Set when requests are answered."""

    @override
    async def startup(self, sockets: Sequence[socket.socket] | None = None) -> None:
        """Listen with a long queue, but accept few connections at a time."""
        asyncio.get_running_loop().set_exception_handler(AcceptFailures())
        await super().startup(list(sockets or ()))
        for listener in sockets or ():
            listener.listen(_BACKLOG)
        self.listening.set()

    @contextmanager
    @override
    def capture_signals(self) -> Iterator[None]:
        yield


def make_server(
    app: ASGIApp,
    *,
    read_timeout: timedelta,
    shutdown: timedelta,
    processes: int = 1,
    most_connections: int | None = None,
    direct: Callable[[bytes], WebhookEndpoint | None] = lambda path: None,
    proxy_headers: bool = False,
) -> Server:
    """Return a server for the app that answers its last requests within `shutdown` after it is asked to exit.

    A POST to a path for which `direct` returns an endpoint goes there and not through ASGI. Without
    `most_connections` the limit follows the number of files that this process may open, and the number of
    `processes` that share the socket. With `proxy_headers` a proxy on this machine says where requests come from.
    """
    part = max(MIN_CONNECTIONS, MAX_CONNECTIONS // processes)
    connections = Connections(
        read_seconds=read_timeout.total_seconds(),
        idle_seconds=KEEP_ALIVE_SECONDS,
        most=most_connections or _connection_limit(part),
        direct=direct,
    )
    return Server(
        uvicorn.Config(
            app,
            interface="asgi3",
            http=type("ServerProtocol", (HttpProtocol,), {"shared": connections}),
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=proxy_headers,
            backlog=_ACCEPTED_AT_ONCE,
            timeout_graceful_shutdown=max(1, round(shutdown.total_seconds())),
        )
    )


def _connection_limit(most: int) -> int:
    """Raise the limit on open files as far as allowed, and return the connections for which it is enough."""
    import resource  # Windows does not have it; there only this server cannot run

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return most
    wanted = most + _KEPT_DESCRIPTORS
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    if soft < wanted:
        with suppress(ValueError, OSError):  # macOS refuses more than OPEN_MAX
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
    return min(most, max(MIN_CONNECTIONS, soft - _KEPT_DESCRIPTORS))
