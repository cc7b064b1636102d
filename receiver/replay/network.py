"""Refusing the network to handlers that are only tried out."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager


class NetworkRefused(RuntimeError):
    """A handler wanted to connect, or to look a name up, in a replay without network.

    It is no OSError: libraries take those for a bad connection, try others, and forget what the first one said.
    """


_refusing = False
_hooked = False

# Raised by the socket module before it does anything (library reference, "Audit events table").
_LOOKUPS = frozenset({"socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr", "socket.getnameinfo"})
_ATTEMPTS = _LOOKUPS | {"socket.connect", "socket.sendto", "socket.sendmsg"}


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
    if not _refusing or event not in _ATTEMPTS:
        return
    target = args[:2] if event in _LOOKUPS else args[1]
    if target is not None:  # a message to nobody goes over a connection that there is
        raise NetworkRefused(f"no network in this replay: {_shown(target)} was refused")


def _shown(target: object) -> str:
    match target:
        case (tuple() as address,) if address:
            return _shown(address)
        case (str(host), int() | str() as port, *_):
            return f"{host}:{port}"
        case (str(name) | bytes(name), *_) | (str(name) | bytes(name)):
            return name if isinstance(name, str) else name.decode("utf-8", "backslashreplace")
        case _:
            return "a connection"
