"""Who can be reached, and who can reach us: addresses of this machine alone."""

import ipaddress


def is_loopback(host: str) -> bool:
    """Tell whether a host, by name or address, is this machine as only its own programs see it."""
    if host == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback
