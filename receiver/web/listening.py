"""The socket that a server listens on. It is bound before the server is loaded, to report a taken port at once."""

import errno
import socket

from receiver.errors import ConfigurationError


def bind(host: str, port: int, *, host_by: str = "--host", port_by: str = "--port") -> socket.socket:
    """Return a bound socket.

    Raises ConfigurationError if the address is not available. Its advice names `host_by` and `port_by`, with which
    the user chooses another one.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (OSError, UnicodeError) as exc:  # UnicodeError is for names that the DNS cannot have
        why = exc.strerror if isinstance(exc, OSError) else "the name is not valid"
        raise ConfigurationError(f"cannot find the address {host}: {why}") from None
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(1)  # two programs may bind the same address, but only one may listen
    except OSError as exc:
        listener.close()
        raise ConfigurationError(_explain_bind_error(exc, host, port, host_by, port_by)) from None
    return listener


def _explain_bind_error(error: OSError, host: str, port: int, host_by: str, port_by: str) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} on {host} is taken by another program; choose another with {port_by}"
    if error.errno == errno.EACCES:
        return f"port {port} needs rights that this user does not have; choose one above 1023 with {port_by}"
    if error.errno == errno.EADDRNOTAVAIL:
        return f"{host} is not an address of this machine; choose another with {host_by}"
    return f"cannot listen on {host}, port {port}: {error.strerror}"


def address(listener: socket.socket) -> str:
    """Return the base of the URL of a socket that listens."""
    host, port = listener.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"
