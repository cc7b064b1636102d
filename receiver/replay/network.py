"""Refusing the network to handlers that are only tried out."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager


class NetworkRefused(ConnectionError):
    """A handler wanted to connect, or to look a name up, in a replay without network."""


_refusing = False
_hooked = False

# Raised by the socket module before it does anything (library reference, "Audit events table").
_ATTEMPTS = frozenset(
    {"socket.connect", "socket.sendto", "socket.sendmsg", "socket.getaddrinfo", "socket.gethostbyname"}
)


@contextmanager
def no_network() -> Iterator[None]:
    """Let every outgoing connection and every lookup of a name fail with NetworkRefused while the block lasts.

    That holds for all threads of this process and for whatever uses Python's sockets. What a C library connects
    by itself, as database drivers do, and other processes are not seen.
    """
    global _refusing, _hooked
    if not _hooked:
        sys.addaudithook(_audit)  # it cannot be taken out again
        _hooked = True
    _refusing = True
    try:
        yield
    finally:
        _refusing = False


def _audit(event: str, args: tuple[object, ...]) -> None:
    if _refusing and event in _ATTEMPTS:
        raise NetworkRefused(f"no network in this replay: {_target(event, args)} was refused")


def _target(event: str, args: tuple[object, ...]) -> str:
    place = args[0] if event in ("socket.getaddrinfo", "socket.gethostbyname") else args[1]
    match place:
        case (str(host), int(port), *_):
            return f"{host}:{port}"
        case str() | bytes():
            return place if isinstance(place, str) else place.decode("utf-8", "backslashreplace")
        case _:
            return "a connection"
