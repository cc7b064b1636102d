"""The networks of addresses, and connections to those that may be reached.

A name is resolved once: only the addresses that were checked are connected to.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from enum import IntEnum
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address

import httpcore

from receiver.emulator.failures import ScrapeFailed
from receiver.emulator.fetching.refusals import HostNotAllowed, no_such_host
from receiver.emulator.options import EmulatorOptions

Address = IPv4Address | IPv6Address

_NAT64 = IPv6Network("64:ff9b::/96")
"""RFC 6052: the last 32 bits are an IPv4 address."""
_LOCAL_ENDINGS = (".localhost", ".local", ".internal", ".test", ".home.arpa", ".lan")
"""Names without a public server: RFC 6761, RFC 6762, RFC 8375, and those of home networks."""


class NetworkZone(IntEnum):
    """The distance of an address from this machine, the most public first."""

    INTERNET = 0
    PRIVATE = 1
    """Private networks of IPv4, and the unique local addresses of IPv6."""
    LOOPBACK = 2


def zone_of(address: str) -> NetworkZone | None:
    """Return the zone of an address; None for one from which nothing is ever fetched.

    These are multicast, reserved and unspecified ones, and link-local ones, where clouds keep a machine's secrets.
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
    """Return the IPv4 address in an IPv6 address that wraps one."""
    if isinstance(address, IPv4Address):
        return address
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    if address.teredo is not None:
        return address.teredo[1]
    return address.ipv4_mapped or address.sixtofour or address


def allowed_zones(options: EmulatorOptions) -> frozenset[NetworkZone]:
    """Return the zones that the options allow, with loopback."""
    zones = {NetworkZone.LOOPBACK}
    if options.allow_private:
        zones.add(NetworkZone.PRIVATE)
    if options.allow_internet:
        zones.add(NetworkZone.INTERNET)
    return frozenset(zones)


def is_address(host: str) -> bool:
    """Return whether a host is an address."""
    try:
        ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True


def is_local_name(host: str) -> bool:
    """Return whether a host name is one of this machine or its network only."""
    return "." not in host or host.endswith(_LOCAL_ENDINGS)


Resolve = Callable[[str, int], Awaitable[list[str]]]
"""Returns the addresses of a host name in the order of trying; none for an unknown name."""

_LOOPBACK = ["127.0.0.1", "::1"]
_NEVER = "Nothing is ever fetched from such an address."
_CONNECT_SECONDS = 3.0
"""For each address but the last: a silent one must leave time for the others."""
_SWITCHES = {
    NetworkZone.INTERNET: "Start the emulator with --allow-internet, or give it a copy of the site with --site.",
    NetworkZone.PRIVATE: "Its address is in a private network: start the emulator with --allow-private.",
}


class SystemResolver:
    """Asks the resolver of the machine in threads of its own, where slow answers delay no other work."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(max_workers=8, thread_name_prefix="emulator-dns")

    async def __call__(self, host: str, port: int) -> list[str]:
        """Return the addresses of a host name; none for an unknown name."""
        loop = asyncio.get_running_loop()
        try:
            found = await loop.run_in_executor(self._threads, self._look_up, host, port)
        except (OSError, UnicodeError):
            return []
        return list(dict.fromkeys(str(place[4][0]) for place in found))

    def close(self) -> None:
        """Start no more look-ups."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    @staticmethod
    def _look_up(host: str, port: int) -> list[tuple[int, int, int, str, tuple[str | int, ...]]]:
        return [(*one[:4], tuple(one[4])) for one in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]


class CheckedNetwork(httpcore.AsyncNetworkBackend):
    """Opens connections to addresses in the given zones only. Raises ScrapeFailed for any other host."""

    def __init__(self, resolve: Resolve, zones: frozenset[NetworkZone]) -> None:
        self._resolve = resolve
        self._zones = zones
        self._sockets = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Connect to the first checked address of the host that answers."""
        addresses = await self._checked(host.strip("[]").removesuffix(".").lower(), port)
        for address in addresses[:-1]:
            try:
                async with asyncio.timeout(_CONNECT_SECONDS):
                    return await self._sockets.connect_tcp(address, port, timeout, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout, TimeoutError):
                continue
        return await self._sockets.connect_tcp(addresses[-1], port, timeout, local_address, socket_options)

    async def zone_of_host(self, host: str, port: int) -> NetworkZone:
        """Return the zone of a host: the most public one of its addresses, and the internet if it has none."""
        try:
            found = await self._addresses(host.removesuffix(".").lower(), port)
        except ScrapeFailed:
            return NetworkZone.INTERNET
        zones = [zone for address in found if (zone := zone_of(address)) is not None]
        return min(zones, default=NetworkZone.INTERNET)

    async def sleep(self, seconds: float) -> None:
        """Wait between two attempts to connect."""
        await asyncio.sleep(seconds)

    async def _checked(self, host: str, port: int) -> list[str]:
        found = await self._addresses(host, port)
        if not found:
            raise no_such_host(host)
        zones = {address: zone_of(address) for address in found}
        checked = [address for address in found if zones[address] in self._zones]
        if not checked:
            raise self._refusal(host, zones.values())
        return checked

    async def _addresses(self, host: str, port: int) -> list[str]:
        if host == "localhost" or host.endswith(".localhost"):
            return _LOOPBACK  # RFC 6761, section 6.3
        if host == "invalid" or host.endswith(".invalid"):
            return []  # RFC 6761, section 6.4
        if is_address(host):
            return [host]
        if NetworkZone.INTERNET in self._zones or is_local_name(host):
            return await self._resolve(host, port)
        raise self._refusal(host, [NetworkZone.INTERNET])  # without asking a server on the internet

    def _refusal(self, host: str, zones: Iterable[NetworkZone | None]) -> Exception:
        return HostNotAllowed(host, next((_SWITCHES[zone] for zone in zones if zone in _SWITCHES), _NEVER))
