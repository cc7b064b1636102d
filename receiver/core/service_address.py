"""The address of the service, as the settings and the clients take it."""

import ipaddress
import re
from urllib.parse import urlsplit

from receiver.core.host_names import LONGEST_LABEL, fits_dns

_IPV4 = re.compile(r"[0-9]+(\.[0-9]+){3}")


def require_service_address(url: str) -> str:
    """Return an address that a client can call, or raise ValueError. Its text does not quote the address."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        if _IPV4.fullmatch(host):
            ipaddress.ip_address(host)
    except ValueError:
        raise ValueError("the address is not a valid URL") from None
    if not url.lower().startswith(("http://", "https://")) or not host:
        raise ValueError("the address must begin with https:// or http:// and a host")
    if not url.isprintable() or any(character.isspace() for character in url):
        raise ValueError("the address must not contain spaces or control characters")
    if parts.username or parts.password:
        raise ValueError("the address must not contain a user or password: the API key logs in")
    if parts.query or parts.fragment:
        raise ValueError("the address must end before ? and #: operations add their own path")
    if not _has_port(url):
        raise ValueError("the address must have a port from 1 to 65535")
    if not fits_dns(host):
        raise ValueError(f"the address must have 1 to {LONGEST_LABEL} characters between two dots")
    return url


def _has_port(url: str) -> bool:
    try:
        return urlsplit(url).port != 0
    except ValueError:
        return False
