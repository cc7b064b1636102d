"""Refuses the network to handlers in a replay."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager


class NetworkRefused(RuntimeError):
    """A handler tried to connect, or to look up a name, in a replay without network.

    It is not an OSError: libraries take those for a bad connection, try other addresses, and lose this message.
    """


_refusing = False
_hooked = False

# The socket module raises these events before it does anything (library reference, "Audit events table").
_LOOKUPS = frozenset({"socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr", "socket.getnameinfo"})
_ATTEMPTS = _LOOKUPS | {"socket.connect", "socket.sendto", "socket.sendmsg"}


@contextmanager
def no_network() -> Iterator[None]:
    """Make every outgoing connection and every lookup of a name fail with NetworkRefused while the block lasts.

    This works for all threads of this process and for everything that uses Python's sockets. It does not work for
    C libraries with their own connections, such as database drivers, nor for other processes.
    """
    global _refusing, _hooked
    if not _hooked:
        sys.addaudithook(_audit)  # it cannot be removed
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
    if target is not None:  # a message without an address uses an existing connection
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
