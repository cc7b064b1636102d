"""The HTTP server: uvicorn with our limits, on a socket that was bound before anything else was touched."""

import errno
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta

import uvicorn
from starlette.types import ASGIApp

from receiver.errors import ConfigurationError
from receiver.web.http_protocol import BoundedProtocol

MAX_CONNECTIONS = 2_000
_KEPT_DESCRIPTORS = 100


class Server(uvicorn.Server):
    """A uvicorn server that leaves signals to its caller, who sets `should_exit`."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield


def bind(host: str, port: int) -> socket.socket:
    """Return a bound socket. Raises ConfigurationError, saying what to do, if the address cannot be had."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (OSError, UnicodeError) as exc:  # the second for names that cannot be in the DNS
        why = exc.strerror if isinstance(exc, OSError) else "no such name is possible"
        raise ConfigurationError(f"cannot find the address {host}: {why}") from None
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(1)  # two programs may bind one address, only one may listen
    except OSError as exc:
        listener.close()
        raise ConfigurationError(_why_not(exc, host, port)) from None
    return listener


def _why_not(error: OSError, host: str, port: int) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} on {host} is taken by another program; choose another with --port"
    if error.errno == errno.EACCES:
        return f"port {port} needs rights this user does not have; choose one above 1023 with --port"
    if error.errno == errno.EADDRNOTAVAIL:
        return f"{host} is no address of this machine; choose another with --host"
    return f"cannot listen on {host}, port {port}: {error.strerror}"


def make_server(
    app: ASGIApp, *, read_timeout: timedelta, shutdown: timedelta, most_connections: int | None = None
) -> Server:
    """Return a server for the app that answers its last requests within `shutdown` when told to exit.

    Without `most_connections` it takes as many as this process may have open files.
    """
    limits = {
        "read_seconds": read_timeout.total_seconds(),
        "most_connections": most_connections or _connection_limit(),
    }
    protocol = type("Protocol", (BoundedProtocol,), limits)
    return Server(
        uvicorn.Config(
            app,
            http=protocol,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=max(1, round(shutdown.total_seconds())),
        )
    )


def _connection_limit() -> int:
    """Raise the limit on open files as far as allowed, and stay below it: past it no connection is accepted."""
    import resource  # not on Windows, where only this server cannot run

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_CONNECTIONS + _KEPT_DESCRIPTORS
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(ValueError, OSError):  # macOS refuses more than OPEN_MAX
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
        return max(_KEPT_DESCRIPTORS, soft - _KEPT_DESCRIPTORS)
    return MAX_CONNECTIONS
