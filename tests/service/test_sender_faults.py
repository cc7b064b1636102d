"""The sender: its report of refusals, broken connections and unusable addresses."""

import asyncio
import socket
from collections.abc import AsyncIterator
from datetime import timedelta

import httpx
import pytest

from receiver.core.clock import VirtualClock
from receiver.errors import ConfigurationError
from receiver.service.sender import Sender
from tests.service.posting import Listener, answering, loop_runs_dry, raising, sent_through


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (b"", "ended before an answer came"),
        (b"HTTP/1.1 20", "ended before an answer came"),
        (b"SSH-2.0-OpenSSH_9.2\r\n\r\n", "ended before an answer came"),
    ],
)
async def test_a_broken_connection_is_a_result(listener: Listener, answer: bytes, expected: str) -> None:
    """There is no traceback, whatever listens at the address."""
    listener.answer = answer

    async with Sender(listener.url) as sender:
        result = await sender.send(b"{}")

    assert (result.status, result.ok, result.answer) == (None, False, "no answer")
    assert expected in result.meaning


async def test_a_refused_connection_says_how_to_start_the_receiver() -> None:
    """This is the most common mistake."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: connections are refused
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/webhooks"
        async with Sender(url) as sender:
            result = await sender.send(b"{}")

    assert (result.status, result.answer) == (None, "no connection")
    assert result.meaning == f"nothing listens at {url}; start it with `receiver dev` or `receiver serve`"


async def test_an_answer_that_does_not_come_in_time_is_a_result() -> None:
    """The sender waits exactly as long as the service: ten seconds."""
    clock = VirtualClock()

    async def hang(request: httpx.Request) -> httpx.Response:
        await asyncio.Event().wait()
        raise AssertionError("unreachable")

    sending = asyncio.create_task(sent_through(httpx.MockTransport(hang), clock=clock))
    await loop_runs_dry()
    clock.advance(timedelta(seconds=9.999))
    await loop_runs_dry()
    assert not sending.done()
    clock.advance(timedelta(seconds=0.001))
    result = await sending

    assert (result.status, result.answer, result.seconds) == (None, "no answer", 10)
    assert "did not answer within 10 s" in result.meaning


async def test_a_status_counts_when_the_rest_of_the_answer_never_comes() -> None:
    """The sender does not wait longer for the rest than for the status."""
    clock = VirtualClock()

    async def stuck() -> AsyncIterator[bytes]:
        yield b'{"status":'
        await asyncio.Event().wait()

    sending = asyncio.create_task(sent_through(answering(200, content=stuck()), clock=clock))
    await loop_runs_dry()
    clock.advance(timedelta(seconds=10))
    result = await sending

    assert (result.status, result.ok, result.seconds) == (200, True, 0)


@pytest.mark.parametrize(
    ("error", "answer"),
    [
        (httpx.ConnectError("x"), "no connection"),
        (httpx.ConnectTimeout("x"), "no connection"),
        (httpx.ProxyError("x"), "no connection"),
        (httpx.ReadTimeout("x"), "no answer"),
        (httpx.WriteError("x"), "no answer"),
        (httpx.RemoteProtocolError("x"), "no answer"),
        (httpx.UnsupportedProtocol("x"), "no answer"),
    ],
)
async def test_every_failure_of_the_connection_is_a_result(error: Exception, answer: str) -> None:
    """Each has a short reason for counting and a sentence with the address for people."""
    result = await sent_through(raising(error))

    assert (result.status, result.answer) == (None, answer)
    assert "http://receiver.test/webhooks" in result.meaning


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (302, "a redirect, which the service does not follow"),
        (400, "quarantine"),
        (401, "the receiver has another secret"),
        (404, "no endpoint at this path"),
        (405, "not that of the endpoint"),
        (408, "read time-out"),
        (413, "longer than"),
        (503, "cannot store now"),
        (418, "I'm a teapot"),
    ],
)
async def test_every_refusal_is_explained(status: int, expected: str) -> None:
    """The sentence begins with the status; nothing is sent a second time."""
    result = await sent_through(answering(status, headers={"Location": "http://elsewhere.test/"}))

    assert (result.status, result.ok) == (status, False)
    assert result.meaning.startswith(f"{status}: ")
    assert expected in result.meaning


async def test_a_refusal_is_named_by_the_receivers_own_code() -> None:
    """The code is `error` in the answer."""
    result = await sent_through(answering(401, json={"error": "unauthenticated", "detail": "..."}))

    assert result.answer == "unauthenticated"


@pytest.mark.parametrize("content", [b"", b"plain", b"[]", b'{"status":5,"id":null}', b"\xff\xfe"])
async def test_any_2xx_is_a_success(content: bytes) -> None:
    """The body of the answer does not matter."""
    result = await sent_through(answering(202, content=content))

    assert (result.status, result.ok, result.answer, result.key) == (202, True, "Accepted", None)


async def test_a_status_counts_when_the_rest_of_the_answer_fails() -> None:
    """The service stops its clock at the status too."""

    async def broken() -> AsyncIterator[bytes]:
        yield b'{"status":'
        raise httpx.ReadError("x")

    result = await sent_through(answering(200, content=broken()))

    assert (result.status, result.ok, result.answer) == (200, True, "OK")


async def test_an_endless_answer_is_not_read_to_its_end() -> None:
    """The status is known, and the rest is not needed."""

    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield b"x" * 65_536

    result = await sent_through(answering(200, content=endless()))

    assert result.ok


@pytest.mark.parametrize(
    "url",
    [
        "",
        "localhost:8000",
        "127.0.0.1:8000/webhooks",
        "ftp://example.com/",
        "http://",
        "http://host:99999/",
        "http://[::1",
        "http://a\nb/",
        "http://\udcff/",
    ],
)
def test_an_unusable_address_is_refused_at_once(url: str) -> None:
    """The error shows how an address is written."""
    with pytest.raises(ConfigurationError, match="http://HOST:PORT/PATH"):
        Sender(url)


@pytest.mark.parametrize("token", ["line\r\nX-Other: 1", "nul\0", " outside ", "tab\t"])
def test_a_token_that_does_not_fit_into_a_header_is_refused(token: str) -> None:
    """The error does not quote it; the HTTP library's own error would."""
    with pytest.raises(ConfigurationError) as caught:
        Sender("http://receiver.test/", token=("X-Token", token))

    assert token not in str(caught.value)
    assert "X-Token" in str(caught.value)


async def test_no_secret_is_in_a_repr_or_a_result() -> None:
    """This holds for the secret, the token, and a password in the URL."""
    sender = Sender(
        "http://user:hidden1@receiver.test/webhooks?key=hidden2",
        secret="hidden3",
        token=("X-Token", "hidden4"),
        transport=raising(httpx.ConnectError("hidden5")),
    )
    async with sender:
        result = await sender.send(b"{}")

    assert "hidden" not in repr(sender) + str(sender.address) + repr(result)
    assert sender.address == "http://receiver.test/webhooks"
