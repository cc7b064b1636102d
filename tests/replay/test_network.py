"""Tests that replays without network refuse new connections, and only those."""

import asyncio
import socket
import urllib.request
from collections.abc import Callable

import httpx
import pytest

from receiver.replay.network import NetworkRefused, no_network


def _udp() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.sendto(b"x", ("127.0.0.1", 9))


def _unix() -> None:
    with socket.socket(socket.AF_UNIX) as one:
        one.connect("/run/nobody")


def _abstract() -> None:
    with socket.socket(socket.AF_UNIX) as one:
        one.connect(b"\0nobody")


def _numeric() -> None:
    with socket.socket() as one:
        one.connect_ex(("127.0.0.1", 9))


def _six() -> None:
    with socket.socket(socket.AF_INET6) as one:
        one.connect(("::1", 9, 0, 0))


@pytest.mark.parametrize(
    ("connect", "told"),
    [
        (lambda: urllib.request.urlopen("http://example.com/x"), "example.com:80"),
        (lambda: httpx.get("https://example.com/x", trust_env=False), "example.com:443"),
        (lambda: socket.create_connection(("example.com", 5432)), "example.com:5432"),
        (lambda: socket.getaddrinfo("example.com", None), "example.com"),
        (lambda: socket.gethostbyname("example.com"), "example.com"),
        (lambda: socket.gethostbyaddr("192.0.2.1"), "192.0.2.1"),
        (lambda: socket.getnameinfo(("192.0.2.1", 80), 0), "192.0.2.1:80"),
        (_numeric, "127.0.0.1:9"),
        (_six, "::1:9"),
        (_udp, "127.0.0.1:9"),
        (_unix, "/run/nobody"),
        (_abstract, "\0nobody"),
    ],
)
def test_connections_and_lookups_are_refused(connect: Callable[[], object], told: str) -> None:
    """The error has the address, and libraries do not take it for a failed connection."""
    with no_network(), pytest.raises(NetworkRefused) as raised:
        connect()

    assert str(raised.value) == f"no network in this replay: {told} was refused"
    assert not isinstance(raised.value, OSError)


async def test_async_connections_are_refused() -> None:
    """This holds for names, for addresses and for HTTP clients."""
    with no_network():
        for host in ("example.com", "127.0.0.1"):
            with pytest.raises(NetworkRefused, match=host):
                await asyncio.open_connection(host, 80)
        async with httpx.AsyncClient(trust_env=False) as client:
            with pytest.raises(NetworkRefused, match=r"example\.com"):
                await client.get("https://example.com/")


def test_existing_connections_still_work() -> None:
    """The two ends of a socket pair can send in every way."""
    with no_network():
        one, other = socket.socketpair()
        with one, other:
            one.send(b"a")
            one.sendmsg([b"b"])

            assert other.recv(2) == b"ab"


def test_the_network_is_back_after_the_block() -> None:
    """This holds after an error too, and the next block refuses connections again."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        for _ in range(2):
            with pytest.raises(NetworkRefused), no_network():
                socket.create_connection(listening.getsockname())
            socket.create_connection(listening.getsockname()).close()
