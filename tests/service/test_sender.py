"""The sender: its bytes on the wire, and its report of every end of a delivery."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import httpx
import pytest

from receiver.core.clock import VirtualClock
from receiver.errors import ConfigurationError
from receiver.service.sender import Sender, SendResult

ACCEPTED = b'HTTP/1.1 200 OK\r\nContent-Length: 34\r\n\r\n{"status":"accepted","id":"key-1"}'

# Vectors of other programs: the service's own sender test, and `openssl dgst -sha256 -hmac`.
VECTOR_B = (
    '{"success":false,"type":"batch_scrape.page","id":"019f2c10-0000-7000-8000-000000000002",'
    '"webhookId":"0b9c7b1e-54a7-4c6e-8f0b-7d1f5f2f6c22",'
    '"data":[{"metadata":{"sourceURL":"https://example.com/café"}}],"error":"Délai dépassé ⏱",'
    '"metadata":{"équipe":"données"}}'
).encode()
VECTORS = [
    pytest.param(
        "example-secret-1",
        b'{"success":true,"type":"crawl.started","id":"019f2c10-0000-7000-8000-000000000001",'
        b'"webhookId":"6f1d3c52-8a54-4b1e-9d0e-2f6f0a7f9a11","data":[],"metadata":{}}',
        b"sha256=bc7b05c74c91137db419a32ed5b7241ed5cd05877a5e688b056271b763380f0b",
        id="A",
    ),
    pytest.param(
        "clé-secrète-2",
        VECTOR_B,
        b"sha256=aed25d4b82ad98312218f0ff5089825fb5708b7478dd520fa1d813c9ff3a0ac9",
        id="B",
    ),
    pytest.param(
        "secret",
        b'{"success":true,"type":"crawl.page","id":"crawl-123","webhookId":"webhook-123","data":[]}',
        b"sha256=29729c39fd5f57c6f4d50c86dd20256a5d77b7b39d19531c17805163fb830d40",
        id="C",
    ),
]


@dataclass
class Listener:
    """A server of raw bytes: keeps each request as it came on the wire, and gives one answer."""

    url: str
    answer: bytes = ACCEPTED
    requests: list[tuple[list[bytes], bytes]] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).removesuffix(b"\r\n\r\n").split(b"\r\n")
        length = next(int(line.split(b":")[1]) for line in head if line.lower().startswith(b"content-length:"))
        self.requests.append((head, await reader.readexactly(length)))
        writer.write(self.answer)
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


@pytest.fixture
async def listener() -> AsyncIterator[Listener]:
    made = Listener("")
    server = await asyncio.start_server(lambda r, w: made.serve(r, w), "127.0.0.1", 0)
    made.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/webhooks"
    async with server:
        yield made


def raising(error: Exception) -> httpx.MockTransport:
    def answer(request: httpx.Request) -> httpx.Response:
        raise error

    return httpx.MockTransport(answer)


def answering(status: int, **options: Any) -> httpx.MockTransport:
    return httpx.MockTransport(lambda request: httpx.Response(status, **options))


async def sent_through(transport: httpx.AsyncBaseTransport, **options: Any) -> SendResult:
    async with Sender("http://receiver.test/webhooks", transport=transport, **options) as sender:
        return await sender.send(b"{}")


async def loop_runs_dry() -> None:
    """Let everything happen that needs no time to pass."""
    for _ in range(100):
        await asyncio.sleep(0)


@pytest.mark.parametrize(("secret", "body", "signature"), VECTORS)
async def test_the_wire_carries_exact_bytes_and_their_signature(
    listener: Listener, secret: str, body: bytes, signature: bytes
) -> None:
    """The header is that of the service, computed over the bytes that follow it."""
    async with Sender(listener.url, secret=secret) as sender:
        result = await sender.send(body)

    (head, received), *others = listener.requests
    assert not others
    assert received == body
    assert b"X-Firecrawl-Signature: " + signature in head
    assert (result.status, result.answer, result.key, result.ok) == (200, "accepted", "key-1", True)


async def test_headers_come_in_the_services_order(listener: Listener) -> None:
    """First the content type, then the configured header, then the signature under its configured name."""
    async with Sender(listener.url, secret="s", signature_header="X-Other", token=("X-Token", "clé")) as sender:
        await sender.send(b"{}")

    names = [line.partition(b":")[0] for line in listener.requests[0][0]]
    assert [name for name in names if name in (b"Content-Type", b"X-Token", b"X-Other")] == [
        b"Content-Type",
        b"X-Token",
        b"X-Other",
    ]
    assert b"Content-Type: application/json" in listener.requests[0][0]
    assert "X-Token: clé".encode() in listener.requests[0][0]


async def test_nothing_is_signed_without_a_secret(listener: Listener) -> None:
    """A self-hosted service without a secret does the same."""
    async with Sender(listener.url) as sender:
        await sender.send(b"{}")

    assert not any(b"signature" in line.lower() for line in listener.requests[0][0])


async def test_a_duplicate_is_a_success_with_the_receivers_word(listener: Listener) -> None:
    """The service counts any 2xx as delivered."""
    listener.answer = ACCEPTED.replace(b"34", b"35").replace(b"accepted", b"duplicate")

    async with Sender(listener.url) as sender:
        result = await sender.send(b"{}")

    assert (result.answer, result.ok, result.meaning) == ("duplicate", True, "")


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (b"", "ended before an answer came"),
        (b"HTTP/1.1 20", "ended before an answer came"),
        (b"SSH-2.0-OpenSSH_9.2\r\n\r\n", "ended before an answer came"),
    ],
)
async def test_a_broken_connection_is_a_result(listener: Listener, answer: bytes, told: str) -> None:
    """There is no traceback, whatever listens at the address."""
    listener.answer = answer

    async with Sender(listener.url) as sender:
        result = await sender.send(b"{}")

    assert (result.status, result.ok, result.answer) == (None, False, "no answer")
    assert told in result.meaning


async def test_a_refused_connection_says_how_to_start_the_receiver() -> None:
    """This is the most common mistake."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: connections are refused
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/webhooks"
        async with Sender(url) as sender:
            result = await sender.send(b"{}")

    assert (result.status, result.answer) == (None, "no connection")
    assert result.meaning == f"nothing listens at {url}; start it with `receiver serve`"


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
    ("status", "told"),
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
async def test_every_refusal_is_explained(status: int, told: str) -> None:
    """The sentence begins with the status; nothing is sent a second time."""
    result = await sent_through(answering(status, headers={"Location": "http://elsewhere.test/"}))

    assert (result.status, result.ok) == (status, False)
    assert result.meaning.startswith(f"{status}: ")
    assert told in result.meaning


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


async def test_with_a_concurrency_of_one_deliveries_arrive_in_order() -> None:
    """Each waits for the answer to the one before."""
    received: list[bytes] = []
    reported: list[bytes] = []

    def answer(request: httpx.Request) -> httpx.Response:
        assert reported == received
        received.append(request.content)
        return httpx.Response(200)

    bodies = [b"%d" % number for number in range(20)]
    async with Sender("http://receiver.test/", concurrency=1, transport=httpx.MockTransport(answer)) as sender:
        await sender.send_all(bodies, lambda body, result: reported.append(body))

    assert received == reported == bodies


@dataclass
class Crowd:
    """Counts the requests being answered at one time."""

    now: int = 0
    peak: int = 0

    async def answer(self, request: httpx.Request) -> httpx.Response:
        self.now += 1
        self.peak = max(self.peak, self.now)
        for _ in range(5):
            await asyncio.sleep(0)
        self.now -= 1
        return httpx.Response(200)


async def test_the_number_of_running_deliveries_is_limited() -> None:
    """This holds for single deliveries and for many together."""
    crowd = Crowd()
    async with Sender(
        "http://receiver.test/", concurrency=3, transport=httpx.MockTransport(crowd.answer)
    ) as sender:
        await sender.send_all([b"{}"] * 12, lambda body, result: None)
        together = crowd.peak
        await asyncio.gather(*(sender.send(b"{}") for _ in range(12)))

    assert (together, crowd.peak) == (3, 3)


async def test_bodies_are_made_when_they_are_needed() -> None:
    """A million deliveries take the memory of a few."""
    made = 0

    def bodies() -> Any:
        nonlocal made
        for _ in range(50):
            made += 1
            yield b"{}"

    ahead: list[int] = []
    async with Sender("http://receiver.test/", concurrency=2, transport=answering(200)) as sender:
        await sender.send_all(bodies(), lambda body, result: ahead.append(made - len(ahead)))

    assert len(ahead) == 50
    assert max(ahead) <= 4


async def test_a_rate_spaces_deliveries_evenly() -> None:
    """At two per second the first starts at once, and one more each half second, whatever the answers do."""
    clock = VirtualClock()
    start = clock.now()
    times: list[timedelta] = []

    def answer(request: httpx.Request) -> httpx.Response:
        times.append(clock.now() - start)
        return httpx.Response(200)

    async with Sender("http://receiver.test/", clock=clock, transport=httpx.MockTransport(answer)) as sender:
        sending = asyncio.create_task(sender.send_all([b"{}"] * 3, lambda body, result: None, rate=2))
        for _ in range(4):
            await loop_runs_dry()
            clock.advance(timedelta(seconds=0.25))
        await loop_runs_dry()
        await sending

    assert [time.total_seconds() for time in times] == [0, 0.5, 1]


async def test_seconds_are_those_of_the_clock() -> None:
    """They count from the start of the delivery to the status of its answer."""
    clock = VirtualClock()

    def answer(request: httpx.Request) -> httpx.Response:
        clock.advance(timedelta(seconds=3))
        return httpx.Response(200)

    result = await sent_through(httpx.MockTransport(answer), clock=clock)

    assert result.seconds == 3


@pytest.mark.parametrize("error", [BrokenPipeError(), ConfigurationError("wrong path")])
@pytest.mark.parametrize("where", ["bodies", "report"])
async def test_an_exception_of_the_caller_is_raised_unchanged(error: Exception, where: str) -> None:
    """It is not wrapped in a group: a closed pipe stays a closed pipe."""

    def fail(*_: object) -> None:
        raise error

    def bodies() -> Any:
        yield b"{}"
        if where == "bodies":
            fail()

    report: Callable[[bytes, SendResult], None] = fail if where == "report" else lambda body, result: None
    async with Sender("http://receiver.test/", transport=answering(200)) as sender:
        with pytest.raises(type(error)) as caught:
            await sender.send_all(bodies(), report)

    assert caught.value is error


async def test_the_signature_may_be_that_of_other_bytes(listener: Listener) -> None:
    """A part of a body can be sent with the signature of the whole."""
    async with Sender(listener.url, secret="s") as sender:
        await sender.send(b'{"ty', signed=b'{"type":"crawl.page"}')

    [(head, received)] = listener.requests
    assert received == b'{"ty'
    assert b"Content-Length: 4" in head
    # printf '{"type":"crawl.page"}' | openssl dgst -sha256 -hmac s
    assert b"X-Firecrawl-Signature: sha256=de865d14be36650be115e685b29e67a0d41f38cf6083b8d910b564481b0f0b3b" in head


async def test_a_slow_upload_takes_the_given_time_and_arrives_whole(listener: Listener) -> None:
    """It is sent in pieces, with its length announced and the signature of the whole."""
    clock, body = VirtualClock(), b'{"type":"crawl.page"}'
    async with Sender(listener.url, secret="s", clock=clock, timeout=timedelta(days=1)) as sender:
        sending = asyncio.create_task(sender.send(body, over=timedelta(seconds=8)))
        while not sending.done():
            await loop_runs_dry()
            clock.advance(timedelta(seconds=0.1))
        result = await sending

    [(head, received)] = listener.requests
    assert (received, result.ok) == (body, True)
    assert result.seconds >= 8
    assert b"Content-Length: 21" in head
    assert not any(line.lower().startswith(b"transfer-encoding") for line in head)


async def test_an_upload_longer_than_the_time_out_is_given_up() -> None:
    """The time-out covers the whole delivery."""
    clock = VirtualClock()
    uploading = asyncio.create_task(_uploaded(clock))
    while not uploading.done():
        await loop_runs_dry()
        clock.advance(timedelta(seconds=1))

    assert (await uploading).answer == "no answer"
    assert (await uploading).seconds == 10


async def _uploaded(clock: VirtualClock) -> SendResult:
    async with Sender("http://receiver.test/", transport=answering(200), clock=clock) as sender:
        return await sender.send(b"{}" * 20, over=timedelta(seconds=30))
