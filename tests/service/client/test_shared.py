"""Clients of the service for handlers: they send the key to the service and nowhere else."""

import logging
import traceback

import httpx
import pytest

from receiver.errors import ConfigurationError
from receiver.service.client import AsyncClient, Client
from receiver.service.client.clients import ServiceClients, open_clients
from receiver.settings import Settings

KEY = "fc-0123456789abcdef"
BASE = "https://api.example.com"


def sent(client: Client | AsyncClient, url: str) -> httpx.Request:
    """Return the request as the client would send it."""
    assert client.http.auth is not None
    return next(client.http.auth.sync_auth_flow(client.http.build_request("GET", url)))


def both(clients: ServiceClients) -> list[Client | AsyncClient]:
    return [clients.for_async, clients.for_plain]


@pytest.mark.parametrize(
    ("base", "path", "url"),
    [
        (BASE, "/v2/crawl/1", f"{BASE}/v2/crawl/1"),
        (BASE + "/", "v2/crawl/1", f"{BASE}/v2/crawl/1"),
        ("http://127.0.0.1:8001/prefix", "/v1/scrape", "http://127.0.0.1:8001/prefix/v1/scrape"),
        (BASE, f"{BASE}:443/v2/crawl/1?skip=1", f"{BASE}/v2/crawl/1?skip=1"),
    ],
)
async def test_a_path_goes_to_the_service_with_the_key(base: str, path: str, url: str) -> None:
    """An absolute address of the service gets the key too."""
    async with open_clients(base, KEY) as clients:
        for client in both(clients):
            request = sent(client, path)
            assert str(request.url) == url
            assert request.headers["Authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize(
    "url",
    [
        "https://elsewhere.example.com/v2",
        "http://api.example.com/v2",
        f"{BASE}:8443/v2",
        "https://api.example.com.evil/",
    ],
)
async def test_the_key_goes_to_no_other_host(url: str) -> None:
    """The service's answers contain absolute addresses, also of other hosts."""
    async with open_clients(BASE, KEY) as clients:
        for client in both(clients):
            assert "Authorization" not in sent(client, url).headers


async def test_both_clients_are_closed_at_the_end_of_the_block() -> None:
    """No connection stays open."""
    async with open_clients(BASE, KEY) as clients:
        pass

    assert all(client.http.is_closed for client in both(clients))


async def test_the_key_is_in_no_repr_and_no_log(caplog: pytest.LogCaptureFixture) -> None:
    """The clients and their container hide it."""
    caplog.set_level(logging.DEBUG)
    async with open_clients(BASE, KEY) as clients:
        shown = (
            repr(clients)
            + str(clients.for_async)
            + "".join(repr(vars(client.http)) + repr(client.http.auth) for client in both(clients))
        )
        shown += repr(sent(clients.for_plain, "/v2").headers)
        with pytest.raises(httpx.ConnectError):
            await clients.for_async.get("http://127.0.0.1:1/v2")

    assert KEY not in shown + caplog.text


@pytest.mark.parametrize(
    "base",
    [
        "api.example.com",
        "ftp://api.example.com",
        "",
        "https://",
        "http://[::1",
        "http://host:port",
        "http://host:0",
        "http://host:65536",
        f"http://{'a' * 64}.example.com",
        "http://a..example.com",
        "https://api.example.com/?key=s3cret",
        "https://api.example.com/#s3cret",
        "https://user:s3cret@api.example.com",
        "https://s3cret@api.example.com",
        "http://user:s3cret",
        "http://999.1.1.1",
        "http://host/a b",
        "http://host/\x7f",
        " http://host",
    ],
)
async def test_an_invalid_address_is_refused(base: str) -> None:
    """By the settings and by a client, in the same words, which quote no password."""
    with pytest.raises(ConfigurationError, match="RECEIVER_BASE_URL") as caught:
        async with open_clients(base, KEY):
            pass
    with pytest.raises(ConfigurationError) as of_settings:
        Settings(_env_file=None, base_url=base)

    assert str(of_settings.value) == str(caught.value)
    assert "s3cret" not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(
    "base",
    [
        "https://api.firecrawl.dev",
        "HTTP://h:1/v1",
        "http://[::1]:8000",
        "https://bücher.example",
        "http://127.0.0.1",
    ],
)
async def test_an_address_of_a_service_is_taken(base: str) -> None:
    """Also one with a path, in other letters, and without a name."""
    async with open_clients(Settings(_env_file=None, base_url=base).base_url, KEY):
        pass


@pytest.mark.parametrize("key", ["", "two words", "line\nline", "clé"])
async def test_a_key_that_does_not_fit_into_a_header_is_refused(key: str) -> None:
    """Otherwise the error of every request would quote it."""
    with pytest.raises(ConfigurationError, match="RECEIVER_API_KEY has characters") as caught:
        async with open_clients(BASE, key):
            pass
    assert not key or key not in str(caught.value)
