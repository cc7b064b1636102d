"""Clients of the service's HTTP API for handlers. Importing this loads httpx."""

from collections.abc import AsyncIterator, Generator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import httpx

from receiver.errors import ConfigurationError

_TIMEOUT = httpx.Timeout(60, connect=10)
"""A scrape is answered when it is done: the service's own default for that is 30 s."""


@dataclass(frozen=True, slots=True)
class ServiceClients:
    """One client for async handlers and one for plain functions."""

    for_async: httpx.AsyncClient
    for_plain: httpx.Client


@asynccontextmanager
async def open_clients(base_url: str, api_key: str) -> AsyncIterator[ServiceClients]:
    """Open clients that send paths to `base_url` with the key; they are closed with the block.

    Raises ConfigurationError for an address or a key that no request can be made with.
    """
    base = _read_url(base_url)
    key = _KeyForService(base, _checked(api_key))
    certificates = httpx.create_ssl_context()
    async with httpx.AsyncClient(base_url=base, auth=key, timeout=_TIMEOUT, verify=certificates) as for_async:
        with httpx.Client(base_url=base, auth=key, timeout=_TIMEOUT, verify=certificates) as for_plain:
            yield ServiceClients(for_async, for_plain)


class _KeyForService(httpx.Auth):
    """Adds the key to requests that go to the service, and to no others.

    The service's answers name absolute addresses, and a handler may follow one of another host.
    """

    def __init__(self, service: httpx.URL, key: str) -> None:
        self._service = service
        self._key = key

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """Add the header."""
        if _origin(request.url) == _origin(self._service):
            request.headers["Authorization"] = f"Bearer {self._key}"
        yield request


def _origin(url: httpx.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port


def _read_url(base_url: str) -> httpx.URL:
    try:
        url = httpx.URL(base_url)
    except httpx.InvalidURL as exc:
        raise ConfigurationError(f"RECEIVER_BASE_URL is no address: {exc}") from None
    if url.scheme not in ("http", "https") or not url.host:
        raise ConfigurationError("RECEIVER_BASE_URL must begin with https:// or http:// and a host")
    return url


def _checked(api_key: str) -> str:
    if not api_key.isascii() or not api_key.isprintable() or " " in api_key or not api_key:
        raise ConfigurationError("RECEIVER_API_KEY has characters that no header may have")
    return api_key
