"""Who calls: a program, or a page in a browser."""

from urllib.parse import urlsplit

from starlette.requests import HTTPConnection

from receiver.core.addresses import is_loopback


def is_foreign_page(request: HTTPConnection) -> bool:
    """Tell whether a page of another host than this machine calls, by way of a browser on this machine.

    The emulator fetches what that page could not read itself: the other programs on this machine.
    """
    origin = request.headers.get("origin")
    return origin is not None and not _is_local(origin)


def _is_local(origin: str) -> bool:
    try:
        host = urlsplit(origin).hostname or ""
    except ValueError:
        return False
    return is_loopback(host) or host.endswith(".localhost")
