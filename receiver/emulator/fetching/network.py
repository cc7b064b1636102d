"""Connections to addresses that were checked: what a name resolves to is what is connected to."""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

import httpcore

from receiver.emulator.failures import ScrapeFailed
from receiver.emulator.fetching.refusals import HostNotAllowed, no_such_host
from receiver.emulator.fetching.zones import NetworkZone, is_address, is_local_name, zone_of

Resolve = Callable[[str, int], Awaitable[list[str]]]
"""Returns the addresses of a host name in the order in which they are tried; none if nobody knows it."""

_LOOPBACK = ["127.0.0.1", "::1"]
_NEVER = "Nothing is ever fetched from such an address."
_CONNECT_SECONDS = 3.0
"""For each address but the last, so that one that is silent leaves time for the others."""
_SWITCHES = {
    NetworkZone.INTERNET: "Start the emulator with --allow-internet, or give it a copy of the site with --site.",
    NetworkZone.PRIVATE: "Its address is in a private network: start the emulator with --allow-private.",
}


class SystemResolver:
    """Asks the resolver of the machine, in threads of its own: a slow answer hinders nobody else."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(max_workers=8, thread_name_prefix="emulator-dns")

    async def __call__(self, host: str, port: int) -> list[str]:
        """Return the addresses of a host name; none if nobody knows it."""
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
    """Opens connections to addresses in the given zones only. It raises ScrapeFailed for any other host."""

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
        """Connect to the first address of the host that answers. Only checked addresses are tried."""
        addresses = await self._checked(host.strip("[]").removesuffix(".").lower(), port)
        for address in addresses[:-1]:
            try:
                async with asyncio.timeout(_CONNECT_SECONDS):
                    return await self._sockets.connect_tcp(address, port, timeout, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout, TimeoutError):
                continue
        return await self._sockets.connect_tcp(addresses[-1], port, timeout, local_address, socket_options)

    async def zone_of_host(self, host: str, port: int) -> NetworkZone:
        """Return where a host is; for one with several addresses, the most public of them.

        The internet is said to have what nobody knows, or may ask for.
        """
        try:
            found = await self._addresses(host.removesuffix(".").lower(), port)
        except ScrapeFailed:
            return NetworkZone.INTERNET
        zones = [zone for address in found if (zone := zone_of(address)) is not None]
        return min(zones, default=NetworkZone.INTERNET)

    async def sleep(self, seconds: float) -> None:
        """Wait between two tries to connect."""
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
        raise self._refusal(host, [NetworkZone.INTERNET])  # and no server on the internet hears of the name

    def _refusal(self, host: str, zones: Iterable[NetworkZone | None]) -> Exception:
        return HostNotAllowed(host, next((_SWITCHES[zone] for zone in zones if zone in _SWITCHES), _NEVER))
