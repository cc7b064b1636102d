"""Tests of who may read the metrics."""

from typing import Any

import pytest

from receiver.core.addresses import is_loopback
from receiver.web.metrics import MetricsEndpoint
from tests.doubles import Answer, ask, event_of

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
    """Check for a 401 in our form of errors that names the required scheme (RFC 6750, section 3)."""
    assert answer.status == 401
    assert answer.content["error"] == "unauthenticated"
    assert answer.content["detail"]
    assert answer.headers[b"www-authenticate"] == b"Bearer"
    assert TOKEN.encode() not in answer.body
    assert b"receiver_x" not in answer.body


async def test_a_program_on_this_machine_may_read_metrics() -> None:
    """The answer has the text format of Prometheus with its version."""
    answer = await asked()

    assert (answer.status, answer.body) == (200, TEXT)
    assert answer.headers[b"content-type"] == b"text/plain; version=0.0.4; charset=utf-8"
    assert int(answer.headers[b"content-length"]) == len(TEXT)


@pytest.mark.parametrize("host", [b"localhost", b"localhost:8000", b"127.0.0.1", b"127.1.2.3:1", b"[::1]:8000"])
@pytest.mark.parametrize("client", ["127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1"])
async def test_every_local_name_of_this_machine_is_accepted(host: bytes, client: str) -> None:
    """These are names and addresses of the loopback interface."""
    answer = await asked(headers=[(b"host", host)], client=(client, 50000))

    assert answer.status == 200


@pytest.mark.parametrize(
    "client", [("192.168.1.7", 50000), ("8.8.8.8", 50000), ("2001:db8::1", 50000), ("testclient", 50000), None]
)
async def test_other_machines_may_not_read_metrics_without_a_token(client: tuple[str, int] | None) -> None:
    """A client without a known address may not either."""
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
async def test_a_request_through_a_proxy_is_not_local(header: tuple[bytes, bytes]) -> None:
    """The proxy is on this machine, but its client may be anywhere. The header's value makes no difference."""
    check_refused(await asked(headers=[*LOCAL, header]))


@pytest.mark.parametrize("host", [b"hooks.example.com", b"", b"receiver", b"0.0.0.0", b"localhost.example.com:80"])
async def test_a_request_for_another_host_is_not_local(host: bytes) -> None:
    """A proxy keeps the Host or replaces it; and DNS may have led a browser here."""
    check_refused(await asked(headers=[(b"host", host)]))


async def test_a_request_without_a_host_is_not_local() -> None:
    """Current programs always send a Host."""
    check_refused(await asked(headers=[]))


async def test_http_1_0_is_not_local() -> None:
    """nginx before 1.29.7 sends HTTP/1.0 to its upstream, with our own address as Host."""
    check_refused(await asked(http_version="1.0"))


@pytest.mark.parametrize("value", [f"Bearer {TOKEN}", f"bearer {TOKEN}", f"Bearer  {TOKEN} "])
async def test_the_token_is_accepted_from_any_machine(value: str) -> None:
    """A proxy makes no difference."""
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
async def test_only_the_right_token_is_accepted(value: bytes) -> None:
    """A wrong token is refused even on this machine."""
    check_refused(await asked(token=TOKEN, headers=[*LOCAL, (b"authorization", value)]))


async def test_this_machine_must_send_the_token_too() -> None:
    """Behind a proxy all requests come from this machine."""
    check_refused(await asked(token=TOKEN))


async def test_metrics_can_only_be_read() -> None:
    """HEAD is allowed too; the server removes the body."""
    assert (await asked(method="HEAD")).status == 200
    for method in ("POST", "PUT", "DELETE", "OPTIONS"):
        answer = await asked(method=method)
        assert (answer.status, answer.headers[b"allow"]) == (405, b"GET")


async def test_an_error_while_reading_is_answered_503_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    """The answer does not contain the error."""

    async def fail() -> bytes:
        raise ValueError(TOKEN)

    answer = await asked(reads=fail)

    assert answer.status == 503
    assert TOKEN.encode() not in answer.body
    assert [event_of(record) for record in caplog.records] == ["metrics_failed"]


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
    """No name except localhost is looked up."""
    assert is_loopback(host) is local
