"""The sender: its bytes on the wire, and its report of every end of a delivery."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import httpx
import pytest

from receiver.core.clock import VirtualClock
from receiver.errors import ConfigurationError
from receiver.service.sender import Sender, SendResult
from tests.service.posting import ACCEPTED, Listener, answering, loop_runs_dry, sent_through

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
