"""Addresses: which hosts only programs on this machine or in this network reach, and how an address is shown."""

import ipaddress
import re

_POSTGRES = re.compile(r"postgres(ql)?(\+\w+)?")
_SCHEMA = re.compile(r"(?:^|&)(schema=\w+)(?:&|$)")


def is_postgres(url: str) -> bool:
    """Tell whether an address is one of PostgreSQL. SQLAlchemy's name a driver too, as in `postgresql+psycopg://`."""
    return _POSTGRES.fullmatch(url.partition(":")[0]) is not None


def is_loopback(host: str) -> bool:
    """Tell whether a host, given by name or address, is the loopback interface."""
    if host == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback


def is_private(host: str) -> bool:
    """Tell whether a host is a private address or a name that no public DNS has, so that no outsider reaches it."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return "." not in host or host.endswith((".local", ".internal", ".localhost"))
    return address.is_private


def shown_address(url: str) -> str:
    """Return the address of a store without user, password and options, so that logs and errors may have it."""
    scheme, separator, rest = url.partition("://")
    if scheme == "sqlite" or ("@" not in url and not separator):
        return url
    if not separator:
        return "***"
    place, _, options = rest.partition("?")
    if "@" in options:  # an unescaped "?" in a password looks so
        return f"{scheme}://***"
    schema = _SCHEMA.search(options)
    return f"{scheme}://{place.rpartition('@')[2]}" + (f"?{schema[1]}" if schema else "")
