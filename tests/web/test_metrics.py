"""Who may read the metrics, and who may not."""

from typing import Any

import pytest

from receiver.core.addresses import is_loopback
from receiver.web.metrics import MetricsEndpoint
from tests.doubles import Answer, ask

TOKEN = "a-token-of-the-scraper"
LOCAL = [(b"host", b"127.0.0.1:8000")]
TEXT = b"# TYPE receiver_x gauge\nreceiver_x 1.0\n"


async def read() -> bytes:
    return TEXT


async def asked(
    *,
    token: str | None = None,
    headers: list[tuple[bytes, bytes]] = LOCAL,
    method: str = "GET",
    reads: Any = read,
    **scope: Any,
) -> Answer:
    """Ask for the metrics, with parts of the ASGI scope changed."""
    endpoint = MetricsEndpoint(reads, token=token)

    async def app(original: Any, receive: Any, send: Any) -> None:
        await endpoint({**original, **scope}, receive, send)

    return await ask(app, method, "/metrics", headers=headers)


def check_refused(answer: Answer) -> None:
    """401 in the form of every error, with the scheme that is asked for (RFC 6750, section 3)."""
    assert answer.status == 401
    assert answer.content["error"] == "unauthenticated"
    assert answer.content["detail"]
    assert answer.headers[b"www-authenticate"] == b"Bearer"
    assert TOKEN.encode() not in answer.body
    assert b"receiver_x" not in answer.body


async def test_a_program_on_this_machine_reads_them() -> None:
    """As Prometheus does: in its text format, which names its version."""
    answer = await asked()

    assert (answer.status, answer.body) == (200, TEXT)
    assert answer.headers[b"content-type"] == b"text/plain; version=0.0.4; charset=utf-8"
    assert int(answer.headers[b"content-length"]) == len(TEXT)


@pytest.mark.parametrize("host", [b"localhost", b"localhost:8000", b"127.0.0.1", b"127.1.2.3:1", b"[::1]:8000"])
@pytest.mark.parametrize("client", ["127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1"])
async def test_this_machine_has_many_names(host: bytes, client: str) -> None:
    """Each of them is good."""
    answer = await asked(headers=[(b"host", host)], client=(client, 50000))

    assert answer.status == 200


@pytest.mark.parametrize(
    "client", [("192.168.1.7", 50000), ("8.8.8.8", 50000), ("2001:db8::1", 50000), ("testclient", 50000), None]
)
async def test_nobody_else_reads_them_without_a_token(client: tuple[str, int] | None) -> None:
    """Nor somebody whose address is not known."""
    check_refused(await asked(client=client))


@pytest.mark.parametrize(
    "header",
    [
        (b"x-forwarded-for", b"127.0.0.1"),
        (b"x-forwarded-for", b""),
        (b"forwarded", b"for=127.0.0.1"),
        (b"x-real-ip", b"127.0.0.1"),
        (b"x-forwarded-proto", b"https"),
        (b"x-forwarded-host", b"localhost"),
        (b"via", b"1.1 caddy"),
    ],
)
async def test_what_a_proxy_has_passed_on_is_not_local(header: tuple[bytes, bytes]) -> None:
    """The proxy is on this machine, its client may be anywhere, whatever the header says."""
    check_refused(await asked(headers=[*LOCAL, header]))


@pytest.mark.parametrize("host", [b"hooks.example.com", b"", b"receiver", b"0.0.0.0", b"localhost.example.com:80"])
async def test_a_request_for_another_host_is_not_local(host: bytes) -> None:
    """A proxy keeps the Host, or puts its own name for us there; a browser may have been led here by DNS."""
    check_refused(await asked(headers=[(b"host", host)]))


async def test_a_request_without_a_host_is_not_local() -> None:
    """No program of today sends one."""
    check_refused(await asked(headers=[]))


async def test_http_1_0_is_not_local() -> None:
    """It is how nginx spoke to what is behind it until 1.29.7, with our own address as Host."""
    check_refused(await asked(http_version="1.0"))


@pytest.mark.parametrize("value", [f"Bearer {TOKEN}", f"bearer {TOKEN}", f"Bearer  {TOKEN} "])
async def test_the_token_opens_from_anywhere(value: str) -> None:
    """Through any proxy."""
    headers = [(b"host", b"hooks.example.com"), (b"x-forwarded-for", b"8.8.8.8")]

    answer = await asked(token=TOKEN, headers=[*headers, (b"authorization", value.encode())], client=("8.8.8.8", 1))

    assert answer.status == 200


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"Bearer",
        b"Bearer ",
        b"Bearer x",
        TOKEN.encode(),
        f"Basic {TOKEN}".encode(),
        f"Bearer {TOKEN}x".encode(),
        f"Bearer {TOKEN[:-1]}".encode(),
        f"Bearer {TOKEN.upper()}".encode(),
        b"Bearer \xff\xfe",
    ],
)
async def test_with_a_token_set_nothing_else_opens(value: bytes) -> None:
    """Not even on this machine."""
    check_refused(await asked(token=TOKEN, headers=[*LOCAL, (b"authorization", value)]))


async def test_with_a_token_set_this_machine_has_to_send_it_too() -> None:
    """Behind a proxy, everybody is this machine."""
    check_refused(await asked(token=TOKEN))


async def test_they_are_only_read() -> None:
    """HEAD is a way of reading; the server leaves the body out."""
    assert (await asked(method="HEAD")).status == 200
    for method in ("POST", "PUT", "DELETE", "OPTIONS"):
        answer = await asked(method=method)
        assert (answer.status, answer.headers[b"allow"]) == (405, b"GET")


async def test_a_fault_while_reading_is_503_and_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """And tells the scraper nothing of it."""

    async def fail() -> bytes:
        raise ValueError(TOKEN)

    answer = await asked(reads=fail)

    assert answer.status == 503
    assert TOKEN.encode() not in answer.body
    assert [record.getMessage() for record in caplog.records] == ["metrics_failed"]


@pytest.mark.parametrize(
    ("host", "local"),
    [
        ("localhost", True),
        ("127.0.0.1", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("0.0.0.0", False),
        ("::", False),
        ("::ffff:8.8.8.8", False),
        ("10.0.0.1", False),
        ("example.com", False),
        ("", False),
        ("127.1", False),
    ],
)
def test_loopback_addresses_are_known(host: str, local: bool) -> None:
    """Names other than localhost are looked up by nobody here."""
    assert is_loopback(host) is local
