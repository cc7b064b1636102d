"""Which networks addresses belong to, and which of them may be reached."""

from enum import IntEnum
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address

from receiver.emulator.options import EmulatorOptions

Address = IPv4Address | IPv6Address

_NAT64 = IPv6Network("64:ff9b::/96")
"""RFC 6052: the last 32 bits are an IPv4 address."""
_LOCAL_ENDINGS = (".localhost", ".local", ".internal", ".test", ".home.arpa", ".lan")
"""Names that no public server knows: RFC 6761, RFC 6762, RFC 8375, and what home networks use."""


class NetworkZone(IntEnum):
    """How far an address is from this machine. Lower is more public."""

    INTERNET = 0
    PRIVATE = 1
    """A private network of IPv4, or the unique local addresses of IPv6."""
    LOOPBACK = 2


ALL_ZONES = frozenset(NetworkZone)


def zone_of(address: str) -> NetworkZone | None:
    """Return the zone of an address; None for those that nothing is fetched from.

    These are link-local ones, where clouds keep the secrets of a machine, multicast, reserved and unspecified ones.
    """
    try:
        parsed = _inner(ip_address(address.partition("%")[0]))
    except ValueError:
        return None
    if parsed.is_loopback:
        return NetworkZone.LOOPBACK
    if parsed.is_link_local or parsed.is_multicast or parsed.is_unspecified or parsed.is_reserved:
        return None
    return NetworkZone.INTERNET if parsed.is_global else NetworkZone.PRIVATE


def _inner(address: Address) -> Address:
    """Return the IPv4 address that an IPv6 address only wraps."""
    if isinstance(address, IPv4Address):
        return address
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    if address.teredo is not None:
        return address.teredo[1]
    return address.ipv4_mapped or address.sixtofour or address


def allowed_zones(options: EmulatorOptions) -> frozenset[NetworkZone]:
    """Return the zones that the options allow: loopback always."""
    zones = {NetworkZone.LOOPBACK}
    if options.allow_private:
        zones.add(NetworkZone.PRIVATE)
    if options.allow_internet:
        zones.add(NetworkZone.INTERNET)
    return frozenset(zones)


def is_address(host: str) -> bool:
    """Tell whether a host is given by its address."""
    try:
        ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True


def is_local_name(host: str) -> bool:
    """Tell whether only this machine or its network can know the name of a host."""
    return "." not in host or host.endswith(_LOCAL_ENDINGS)
