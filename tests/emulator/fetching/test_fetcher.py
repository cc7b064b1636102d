"""Pages over HTTP: what is sent, what comes back, and every way in which a server can fail or cheat."""

import asyncio
import gzip
import socket
import ssl
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from receiver.core.clock import VirtualClock
from receiver.emulator.failures import ScrapeFailed
from receiver.emulator.fetching import exchange
from receiver.emulator.fetching.fetcher import MAX_REDIRECTS, Fetcher, accept_language
from receiver.emulator.fetching.network import NetworkZone, Resolve
from receiver.emulator.options import EmulatorOptions
from receiver.emulator.scrapes import FetchedPage, ScrapePlan
from tests.emulator.fetching.raw_server import RawServer, answer

LIMIT = 100_000


@asynccontextmanager
async def fetching(
    resolve: Resolve | None = None, transport: httpx.AsyncBaseTransport | None = None, **options: Any
) -> AsyncIterator[Fetcher]:
    given = EmulatorOptions(**{"max_page_bytes": LIMIT, **options})
    async with Fetcher(given, VirtualClock(), resolve=resolve, transport=transport) as fetcher:
        yield fetcher


async def fetched(url: str, *, fetcher: dict[str, Any] | None = None, **plan: Any) -> FetchedPage:
    async with fetching(**(fetcher or {})) as one:
        return await one.fetch(ScrapePlan(url=url, **plan))


async def failure(url: str, **options: Any) -> ScrapeFailed:
    with pytest.raises(ScrapeFailed) as caught:
        await fetched(url, **options)
    return caught.value


def resolving(addresses: dict[str, list[str]], asked: list[str] | None = None) -> Resolve:
    async def resolve(host: str, port: int) -> list[str]:
        if asked is not None:
            asked.append(host)
        return addresses.get(host, [])

    return resolve


async def test_a_page_comes_back_with_its_bytes_status_and_type(server: RawServer) -> None:
    server.answers["/a?b=1"] = answer(b"<p>\xe9</p>", "Content-Type: text/html; charset=latin-1")

    page = await fetched(server.url("/a?b=1"))

    assert (page.status, page.content_type, page.body) == (200, "text/html; charset=latin-1", b"<p>\xe9</p>")
    assert (page.source_url, page.url) == (server.url("/a?b=1"), server.url("/a?b=1"))
    assert page.fetched_at == VirtualClock().now()


async def test_an_error_page_is_a_page(server: RawServer) -> None:
    server.answers["/"] = answer(b"broken", status="503 Service Unavailable")

    page = await fetched(server.url())

    assert (page.status, page.body) == (503, b"broken")


async def test_an_error_page_may_be_empty(server: RawServer) -> None:
    assert (await fetched(server.url("/none"))).status == 404


async def test_the_request_says_who_asks_and_in_which_language(server: RawServer) -> None:
    await fetched(server.url("/x"), country="AT", languages=())

    assert server.requests[0].startswith("GET /x HTTP/1.1\r\n")
    assert server.header("host") == f"127.0.0.1:{server.port}"
    assert server.header("accept-language") == "de-AT,de;q=0.9"
    assert server.header("accept-encoding") == "gzip, deflate, br, zstd"
    assert "Mobile" not in (server.header("user-agent") or "")


async def test_a_mobile_device_has_another_user_agent(server: RawServer) -> None:
    await fetched(server.url(), mobile=True)

    assert "Mobile" in (server.header("user-agent") or "")


async def test_headers_of_the_caller_replace_ours_but_not_those_that_frame_the_request(server: RawServer) -> None:
    headers = {
        "user-agent": "mine",
        "X-Own": "1",
        "Host": "other.test",
        "Content-Length": "7",
        "Accept-Encoding": "br",
    }

    await fetched(server.url(), headers=headers)

    assert server.requests[0].lower().count("user-agent") == 1
    assert (server.header("user-agent"), server.header("x-own")) == ("mine", "1")
    assert (server.header("host"), server.header("content-length")) == (f"127.0.0.1:{server.port}", None)
    assert server.header("accept-encoding") == "gzip, deflate, br, zstd"


@pytest.mark.parametrize(
    "headers", [{"X-A": "1\r\nX-B: 2"}, {"X-A": "\N{SNOWMAN}"}, {"X A": "1"}, {"": "1"}, {"ü": "1"}]
)
async def test_a_header_that_http_cannot_carry_is_refused_without_its_value(
    server: RawServer, headers: dict[str, str]
) -> None:
    failed = await failure(server.url(), headers=headers)

    assert failed.code == "SCRAPE_ALL_ENGINES_FAILED"
    assert "X-B" not in str(failed)
    assert server.requests == []


@pytest.mark.parametrize(
    ("coding", "packed"),
    [
        ("gzip", gzip.compress(b"page", mtime=0)),
        ("x-gzip", gzip.compress(b"pa", mtime=0) + gzip.compress(b"ge", mtime=0)),
        ("GZIP", gzip.compress(b"page", mtime=0) + b"\0\0\0"),
        ("deflate", zlib.compress(b"page")),
        ("deflate", zlib.compress(b"page")[2:-4]),
        ("identity", b"page"),
    ],
)
async def test_content_codings_are_undone(server: RawServer, coding: str, packed: bytes) -> None:
    server.answers["/"] = answer(packed, f"Content-Encoding: {coding}")

    assert (await fetched(server.url())).body == b"page"


@pytest.mark.parametrize(
    ("coding", "packed"),
    [
        ("gzip", b"no gzip"),
        ("gzip", gzip.compress(b"page" * 100, mtime=0)[:-12]),
        ("br", b"page"),
        ("gzip, gzip", gzip.compress(gzip.compress(b"page", mtime=0), mtime=0)),
    ],
)
async def test_a_broken_or_unknown_coding_is_an_error_of_the_page(
    server: RawServer, coding: str, packed: bytes
) -> None:
    server.answers["/"] = answer(packed, f"Content-Encoding: {coding}")

    failed = await failure(server.url())

    assert (failed.code, "ERR_CONTENT_DECODING_FAILED" in str(failed)) == ("SCRAPE_SITE_ERROR", True)


async def test_a_gzip_bomb_is_no_larger_than_the_limit(server: RawServer) -> None:
    server.answers["/"] = answer(gzip.compress(bytes(50_000_000)), "Content-Encoding: gzip")

    assert "ERR_FILE_TOO_BIG" in str(await failure(server.url()))


async def test_a_page_may_be_as_large_as_the_limit_and_no_larger(server: RawServer) -> None:
    server.answers["/fits"] = answer(bytes(LIMIT))
    server.answers["/over"] = answer(bytes(LIMIT + 1))

    assert len((await fetched(server.url("/fits"))).body) == LIMIT
    assert "ERR_FILE_TOO_BIG" in str(await failure(server.url("/over")))


async def test_an_endless_stream_ends_at_the_size_limit(server: RawServer) -> None:
    async def endless(path: str, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            writer.write(bytes(10_000))
            await writer.drain()

    server.answers["/"] = endless

    assert "ERR_FILE_TOO_BIG" in str(await failure(server.url()))


@pytest.mark.parametrize("start", [b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\n\r\n<p>"])
async def test_a_server_that_stops_answering_is_a_time_out(server: RawServer, start: bytes) -> None:
    async def silent(path: str, writer: asyncio.StreamWriter) -> None:
        writer.write(start)
        await asyncio.Event().wait()

    server.answers["/"] = silent

    assert (await failure(server.url(), timeout=50)).code == "SCRAPE_TIMEOUT"


async def test_drops_of_an_answer_end_at_the_deadline(server: RawServer) -> None:
    async def dripping(path: str, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            writer.write(b".")
            await writer.drain()
            await asyncio.sleep(0)

    server.answers["/"] = dripping

    failed = await failure(server.url(), timeout=100, fetcher={"max_page_bytes": 1 << 40})

    assert failed.code == "SCRAPE_TIMEOUT"


@pytest.mark.parametrize(
    ("sent", "name"),
    [
        (b"", "ERR_EMPTY_RESPONSE"),
        (b"SSH-2.0-OpenSSH_9\r\n\r\n", "ERR_INVALID_HTTP_RESPONSE"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", "ERR_CONTENT_LENGTH_MISMATCH"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"a" * 500_000, "ERR_INVALID_HTTP_RESPONSE"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "ERR_INVALID_HTTP_RESPONSE"),
    ],
)
async def test_what_is_no_answer_is_an_error_of_the_site(server: RawServer, sent: bytes, name: str) -> None:
    async def send(path: str, writer: asyncio.StreamWriter) -> None:
        writer.write(sent)
        await writer.drain()

    server.answers["/"] = send

    failed = await failure(server.url())

    assert failed.code == "SCRAPE_SITE_ERROR"
    assert name in str(failed)


async def test_a_reset_connection_is_an_error_of_the_site(server: RawServer) -> None:
    async def reset(path: str, writer: asyncio.StreamWriter) -> None:
        sock = writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")

    server.answers["/"] = reset

    assert "ERR_CONNECTION_RESET" in str(await failure(server.url()))


async def test_a_refused_connection_is_an_error_of_the_site() -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        failed = await failure(f"http://127.0.0.1:{held.getsockname()[1]}/")

    assert (failed.code, "ERR_CONNECTION_REFUSED" in str(failed)) == ("SCRAPE_SITE_ERROR", True)


async def test_a_server_without_tls_is_a_tls_error() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(answer(b"plain", status="400 Bad Request"))
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    failed = await failure(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/")
    server.close()

    assert failed.code == "SCRAPE_SSL_ERROR"


async def test_a_kept_connection_is_used_again(server: RawServer) -> None:
    server.answers["/"] = answer(b"page")
    async with fetching() as fetcher:
        for _ in range(3):
            await fetcher.fetch(ScrapePlan(url=server.url()))

    assert (server.connections, len(server.requests)) == (1, 3)


async def test_a_connection_that_the_server_closed_meanwhile_is_opened_again(server: RawServer) -> None:
    closing = asyncio.Event()

    async def once(path: str, writer: asyncio.StreamWriter) -> None:
        closing.set()

    server.answers["/"] = answer(b"page")
    async with fetching() as fetcher:
        await fetcher.fetch(ScrapePlan(url=server.url()))
        server.answers["/gone"] = once
        failed = None
        try:
            await fetcher.fetch(ScrapePlan(url=server.url("/gone")))
        except ScrapeFailed as exc:
            failed = exc

    assert failed is not None
    assert "ERR_EMPTY_RESPONSE" in str(failed)
    assert (server.connections, len(server.requests)) == (2, 3)  # and the second try ends it


# Redirects


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_redirects_are_followed(server: RawServer, status: int) -> None:
    server.answers["/a/b"] = answer(b"", "Location: ../c?d=1", status=f"{status} Elsewhere")
    server.answers["/c?d=1"] = answer(b"page")

    page = await fetched(server.url("/a/b"))

    assert (page.source_url, page.url, page.body) == (server.url("/a/b"), server.url("/c?d=1"), b"page")


async def test_a_redirect_without_a_place_is_a_page(server: RawServer) -> None:
    server.answers["/"] = answer(b"where?", status="302 Found")

    assert (await fetched(server.url())).body == b"where?"


async def test_a_redirect_loop_ends(server: RawServer) -> None:
    server.answers["/"] = answer(b"", "Location: /", status="302 Found")

    failed = await failure(server.url())

    assert (failed.code, "ERR_TOO_MANY_REDIRECTS" in str(failed)) == ("SCRAPE_SITE_ERROR", True)
    assert len(server.requests) == MAX_REDIRECTS + 1


@pytest.mark.parametrize(
    "place", ["file:///etc/passwd", "ftp://x.test/", "javascript:1", "http://[", "data:,x", "//:1"]
)
async def test_a_redirect_to_what_is_no_web_page_fails(server: RawServer, place: str) -> None:
    server.answers["/"] = answer(b"", f"Location: {place}", status="302 Found")

    assert "ERR_INVALID_REDIRECT" in str(await failure(server.url()))


async def test_the_body_of_a_redirect_is_not_read(server: RawServer) -> None:
    async def endless(path: str, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 302 Found\r\nLocation: /page\r\n\r\n")
        while True:
            writer.write(bytes(10_000))
            await writer.drain()

    server.answers |= {"/": endless, "/page": answer(b"page")}

    assert (await fetched(server.url())).body == b"page"


async def test_a_site_sees_the_cookies_of_its_redirect_again(server: RawServer) -> None:
    async def login(path: str, writer: asyncio.StreamWriter) -> None:
        writer.write(answer(b"", "Set-Cookie: seen=1; Path=/", "Location: /page", status="302 Found"))

    server.answers |= {"/": login, "/page": answer(b"page")}

    await fetched(server.url(), headers={"Cookie": "own=2"})

    assert server.header("cookie") == "own=2; seen=1"


async def test_another_origin_sees_no_secrets_of_the_caller(server: RawServer) -> None:
    server.answers["/"] = answer(b"", f"Location: {server.url('/x', 'localhost')}", status="302 Found")
    server.answers["/same"] = answer(b"", "Location: /x", status="302 Found")
    headers = {"Authorization": "Bearer s3cret", "Cookie": "s3cret=1", "X-Plain": "1"}

    await fetched(server.url(), headers=headers)
    assert (server.header("authorization"), server.header("cookie"), server.header("x-plain")) == (None, None, "1")

    await fetched(server.url("/same"), headers=headers)
    assert server.header("authorization") == "Bearer s3cret"


async def test_credentials_in_a_url_are_neither_sent_nor_shown(server: RawServer) -> None:
    server.answers["/"] = answer(b"page")
    server.answers["/r"] = answer(b"", f"Location: http://u:s3cret@127.0.0.1:{server.port}/", status="302 Found")
    with_secret = server.url().replace("http://", "http://user:s3cret@")

    pages = [await fetched(with_secret), await fetched(server.url("/r"))]
    failed = await failure(with_secret.replace(str(server.port), "1"))

    assert not any("s3cret" in str(one) for one in (*pages, failed, *server.requests))


@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "http://", "http://[::1", "https://x:99999/", "", "gopher://a/"]
)
async def test_what_is_no_url_of_the_web_is_refused(url: str) -> None:
    assert "ERR_INVALID_URL" in str(await failure(url))


# Networks


async def test_localhost_is_reached_at_either_address(server: RawServer) -> None:
    server.answers["/"] = answer(b"page")

    assert (await fetched(server.url("/", "localhost"))).body == b"page"
    assert (await fetched(server.url("/", "app.localhost."))).body == b"page"


@pytest.mark.parametrize("host", ["example.org", "93.184.216.34", "[2606:2800:220:1::1]"])
async def test_the_internet_is_off_and_no_name_server_hears_of_it(host: str) -> None:
    asked: list[str] = []

    failed = await failure(f"http://{host}/", fetcher={"resolve": resolving({}, asked)})

    assert failed.code == "SCRAPE_SITE_ERROR"
    assert "--allow-internet" in str(failed)
    assert asked == []


@pytest.mark.parametrize(
    "address",
    [
        "10.0.0.1",
        "192.168.1.1",
        "172.16.0.1",
        "100.64.0.1",
        "fd00::1",
        "::ffff:10.0.0.1",
        "64:ff9b::a00:1",
        "2002:a00:1::",
    ],
)
async def test_private_networks_need_a_switch_even_with_the_internet(address: str) -> None:
    resolve = resolving({"inside.example.org": [address]})

    failed = await failure("http://inside.example.org/", fetcher={"resolve": resolve, "allow_internet": True})

    assert "--allow-private" in str(failed)


@pytest.mark.parametrize("address", ["169.254.169.254", "fe80::1", "0.0.0.0", "::", "224.0.0.1", "255.255.255.255"])
async def test_some_addresses_are_never_fetched_from(address: str) -> None:
    options = {"resolve": resolving({"x.example.org": [address]}), "allow_internet": True, "allow_private": True}

    failed = await failure("http://x.example.org/", fetcher=options)

    assert "ERR_BLOCKED_BY_CLIENT" in str(failed)


@pytest.mark.parametrize("host", ["nowhere.test", "x.invalid", "intranet"])
async def test_a_host_that_nobody_knows_is_a_dns_error(host: str) -> None:
    failed = await failure(f"http://{host}/", fetcher={"resolve": resolving({})})

    assert (failed.code, failed.status) == ("SCRAPE_DNS_RESOLUTION_ERROR", 200)


async def test_the_checked_address_is_the_one_connected_to(server: RawServer) -> None:
    """A name server that changes its mind between check and connection is asked only once."""
    server.answers["/"] = answer(b"page")
    asked: list[str] = []

    page = await fetched(
        server.url("/", "app.test"), fetcher={"resolve": resolving({"app.test": ["127.0.0.1"]}, asked)}
    )

    assert (page.body, asked) == (b"page", ["app.test"])
    assert server.header("host") == f"app.test:{server.port}"


async def test_of_several_addresses_only_allowed_ones_are_tried(server: RawServer) -> None:
    server.answers["/"] = answer(b"page")
    resolve = resolving({"app.test": ["10.255.255.1", "::1", "127.0.0.1"]})

    assert (await fetched(server.url("/", "app.test"), fetcher={"resolve": resolve})).body == b"page"


async def test_the_internet_cannot_redirect_to_this_machine(
    server: RawServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page is said to come from the internet; its redirect leads to a name that resolves to this machine."""
    monkeypatch.setattr(exchange, "_zone_of_peer", lambda response: NetworkZone.INTERNET)
    server.answers["/"] = answer(b"", f"Location: {server.url('/secret', 'rebound.test')}", status="302 Found")
    server.answers["/secret"] = answer(b"secret")
    resolve = resolving({"rebound.test": ["127.0.0.1"]})

    failed = await failure(server.url(), fetcher={"resolve": resolve, "allow_internet": True})

    assert "ERR_BLOCKED_BY_CLIENT" in str(failed)
    assert [one.split()[1] for one in server.requests] == ["/"]


async def test_a_slow_name_server_ends_at_the_deadline() -> None:
    async def never(host: str, port: int) -> list[str]:
        await asyncio.Event().wait()
        return []

    assert (await failure("http://app.test/", timeout=50, fetcher={"resolve": never})).code == "SCRAPE_TIMEOUT"


# A transport in place of the network


class PackedPage(httpx.AsyncByteStream):
    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield gzip.compress(b"page")


async def test_a_transport_takes_the_place_of_the_network() -> None:
    def respond(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/":
            return httpx.Response(302, headers={"Location": "/page"})
        return httpx.Response(200, headers={"Content-Encoding": "gzip"}, stream=PackedPage())

    page = await fetched("https://anywhere.example.org/", fetcher={"transport": httpx.MockTransport(respond)})

    assert (page.url, page.body) == ("https://anywhere.example.org/page", b"page")


async def test_what_a_transport_does_not_reach_is_an_error_of_the_site() -> None:
    def refuse(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("nobody is there")

    failed = await failure("https://a.test/", fetcher={"transport": httpx.MockTransport(refuse)})

    assert failed.code == "SCRAPE_SITE_ERROR"


# TLS


@pytest.fixture
async def tls_port(tmp_path: Path) -> AsyncIterator[int]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(Path(__file__).with_name("self_signed.pem"))
    served = RawServer(answers={"/": answer(b"page")})
    server = await asyncio.start_server(served.serve, "127.0.0.1", 0, ssl=context)
    yield server.sockets[0].getsockname()[1]
    server.close()


async def test_a_bad_certificate_is_a_tls_error(tls_port: int) -> None:
    failed = await failure(f"https://127.0.0.1:{tls_port}/")

    assert (failed.code, failed.status) == ("SCRAPE_SSL_ERROR", 500)
    assert "CERTIFICATE_VERIFY_FAILED" in str(failed)


async def test_a_bad_certificate_passes_if_it_is_not_checked(tls_port: int) -> None:
    assert (await fetched(f"https://127.0.0.1:{tls_port}/", skip_tls_verification=True)).body == b"page"


@pytest.mark.parametrize(
    ("country", "languages", "header"),
    [
        ("US", (), "en-US,en;q=0.9"),
        ("at", (), "de-AT,de;q=0.9"),
        ("AQ", (), ""),
        ("US", ("fr-CA", "fr", "*"), "fr-CA,fr;q=0.9,*;q=0.8"),
        ("US", ("no language", "de\r\nX: 1", "it"), "it"),
        ("US", tuple("abcdefghijkl"), "a,b;q=0.9,c;q=0.8,d;q=0.7,e;q=0.6,f;q=0.5,g;q=0.4,h;q=0.3,i;q=0.2,j;q=0.1"),
    ],
)
def test_languages_come_before_that_of_the_country(country: str, languages: tuple[str, ...], header: str) -> None:
    assert accept_language(country, languages) == header
