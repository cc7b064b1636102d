"""Addresses: that of the service, how long names of hosts may be, and which hosts are local or private."""

import ipaddress
import re
from urllib.parse import urlsplit

_POSTGRES = re.compile(r"postgres(ql)?(\+\w+)?")
_SCHEMA = re.compile(r"(?:^|&)(schema=\w+)(?:&|$)")


def is_postgres(url: str) -> bool:
    """Return whether an address is one of PostgreSQL. SQLAlchemy's name a driver too, as in `postgresql+psycopg://`."""
    return _POSTGRES.fullmatch(url.partition(":")[0]) is not None


def is_loopback(host: str) -> bool:
    """Return whether a host, given by name or address, is the loopback interface."""
    if host == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback


def is_private(host: str) -> bool:
    """Return whether a host is a private address or a name that no public DNS has: outsiders cannot reach it."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return "." not in host or host.endswith((".local", ".internal", ".localhost"))
    return address.is_private


def shown_address(url: str) -> str:
    """Return the address of a store without user, password and options, safe for logs and errors."""
    scheme, separator, rest = url.partition("://")
    if scheme == "sqlite" or ("@" not in url and not separator):
        return url
    if not separator:
        return "***"
    place, _, options = rest.partition("?")
    if "@" in options:  # as after an unescaped "?" in a password
        return f"{scheme}://***"
    schema = _SCHEMA.search(options)
    return f"{scheme}://{place.rpartition('@')[2]}" + (f"?{schema[1]}" if schema else "")


_LONGEST_NAME = 253
"""RFC 1035, section 2.3.4: 255 octets, of which a name as text has two fewer."""
LONGEST_LABEL = 63


def fits_dns(host: str) -> bool:
    """Return whether the lengths of a host name and of its labels are within the limits of RFC 1035, section 2.3.4.

    The labels, the parts between the dots, may be in any script; then the length of the A-label counts (RFC 5890,
    section 2.3.2.1), which is `xn--` and the Punycode of the label. An address (IPv4, IPv6) fits.
    """
    labels = host.removesuffix(".").split(".")
    return len(host) <= _LONGEST_NAME and all(_label_fits(label) for label in labels)


def _label_fits(label: str) -> bool:
    if label.isascii() or len(label) > LONGEST_LABEL:  # Punycode is slow for a long text, and never shorter
        return 1 <= len(label) <= LONGEST_LABEL
    return len("xn--") + len(label.encode("punycode")) <= LONGEST_LABEL


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
