"""Addresses that only programs on this machine, or in this network, can reach."""

import ipaddress


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
