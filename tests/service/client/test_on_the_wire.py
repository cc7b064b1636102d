"""Real connections: every fault is repaired or ends as a ServiceError, and nothing hangs."""

import asyncio
import gzip
import json
import logging
import threading
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from typing import Any

import httpx
import pytest

from receiver.core.retries import RetrySchedule
from receiver.errors import KeyRefused, RateLimited, ServiceUnreachable, UnexpectedAnswer
from receiver.service.client import AsyncClient, Client, RetryPolicy
from receiver.service.client.calls import ServiceCall
from receiver.service.client.jobs import crawl, crawl_status
from receiver.service.client.retrying import DEFAULT_PATIENCE
from tests.doubles import LONG, NOON, soon
from tests.service.client.calling import KEY, Steady, Ticking
from tests.service.client.stub import Connection, serving

DONE = {"success": True, "status": "completed", "data": [{"markdown": "x" * 1000}]}
ONCE = RetryPolicy(RetrySchedule(()))


def done(connection: Connection) -> None:
    connection.answer(200, DONE)


class Both:
    """One of the two clients, on a clock that its own waits move."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.clock = Ticking(NOON)
        self.loop = asyncio.get_running_loop()

    def pass_time(self, duration: timedelta) -> None:
        """Move the clock, from the thread of a server."""
        self._move(lambda: self.clock.advance(duration))

    def set_clock(self, duration: timedelta) -> None:
        """Set the wall clock forward, from the thread of a server."""
        self._move(lambda: self.clock.jump(duration))

    def _move(self, move: Callable[[], None]) -> None:
        moved = threading.Event()

        def move_and_tell() -> None:
            move()
            moved.set()

        if self.kind == "async":
            self.loop.call_soon_threadsafe(move_and_tell)
        else:
            move_and_tell()
        assert moved.wait(LONG)

    async def send(self, address: str, call: ServiceCall[Any], *, patience: RetryPolicy = DEFAULT_PATIENCE) -> Any:
        """Make one call with a new client."""
        return (await self.send_all(address, [call], patience=patience))[0]

    async def send_all(
        self, address: str, calls: Sequence[ServiceCall[Any]], *, patience: RetryPolicy = DEFAULT_PATIENCE
    ) -> list[Any]:
        """Make calls one after the other with a new client."""
        options: dict[str, Any] = {"clock": self.clock, "rng": Steady(), "patience": patience}
        if self.kind == "async":
            async with AsyncClient(KEY, address, **options) as client:
                return [await soon(client.send(call)) for call in calls]
        with Client(KEY, address, **options) as plain:
            return [await soon(asyncio.to_thread(plain.send, call)) for call in calls]

    async def get(self, address: str, path: str) -> Any:
        """Get a path with a new client."""
        if self.kind == "async":
            async with AsyncClient(KEY, address, clock=self.clock) as client:
                return await soon(client.get(path))
        with Client(KEY, address, clock=self.clock) as plain:
            return await soon(asyncio.to_thread(plain.get, path))


@pytest.fixture(params=["async", "plain"])
async def both(request: pytest.FixtureRequest) -> Both:
    """Each of the two clients."""
    return Both(request.param)


async def test_a_redirect_is_not_followed(both: Both) -> None:
    """A redirect could carry the key to another host."""

    def away(connection: Connection) -> None:
        connection.send(307, b"", Location=f"{elsewhere.address}/v2/crawl/1")

    refused = pytest.raises(UnexpectedAnswer, match="a redirect, which is not followed")
    with serving(done) as elsewhere, serving(away) as stub, refused:
        await both.send(stub.address, crawl_status("1"))

    assert elsewhere.connections == []
    assert len(stub.connections) == 1


async def test_a_read_with_broken_json_is_repeated(both: Both) -> None:
    """Reading twice does no harm."""
    with serving(lambda it: it.send(200, b'{"success": true, "da'), done) as stub:
        assert (await both.send(stub.address, crawl_status("1"))).finished

    assert len(stub.connections) == 2


def cut_gzip(connection: Connection) -> None:
    packed = gzip.compress(json.dumps(DONE).encode())
    connection.send(200, packed[: len(packed) // 2], Content_Encoding="gzip")


def false_gzip(connection: Connection) -> None:
    connection.send(200, b"this was never packed", Content_Encoding="gzip")


def cut_body(connection: Connection) -> None:
    connection.send(200, b'{"success": true', promised=5000)


@pytest.mark.parametrize("fault", [cut_gzip, false_gzip, cut_body, Connection.reset])
async def test_a_read_whose_answer_is_cut_short_is_repeated(both: Both, fault: Any) -> None:
    """It is an error if every attempt is cut short."""
    with serving(fault, fault, done) as stub:
        assert (await both.send(stub.address, crawl_status("1"))).finished
    assert len(stub.connections) == 3

    with serving(fault) as stub, pytest.raises((UnexpectedAnswer, ServiceUnreachable)):
        await both.send(stub.address, crawl_status("1"))


async def test_a_compressed_answer_is_decompressed(both: Both) -> None:
    """The client asks for gzip."""
    packed = gzip.compress(json.dumps(DONE).encode())
    with serving(lambda it: it.send(200, packed, Content_Encoding="gzip")) as stub:
        assert len((await both.send(stub.address, crawl_status("1"))).data) == 1

    assert "gzip" in stub.connections[0].headers["accept-encoding"]


GZIP_HEAD = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n"
DRIPS = {
    "headers": (b"HTTP/1.1 200 OK\r\n", b"X-A: b\r\n"),
    "one header": (b"HTTP/1.1 200 OK\r\nX-A: ", b"b"),
    "status line": (b"", b"H"),
    "1xx": (b"", b"HTTP/1.1 103 Early Hints\r\n\r\n"),
    "body": (b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n{", b" "),
    "chunks": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n", b"1\r\n \r\n"),
    "chunk extension": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;", b"x"),
    "trailers": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n", b"X-A: b\r\n"),
    "gzip": (
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n" + gzip.compress(b"{")[:10],
        b"\x00\x00\x00\xff\xff",
    ),
}


@pytest.mark.parametrize("drip", DRIPS)
async def test_no_server_can_stretch_a_call(both: Both, drip: str) -> None:
    """Each single byte comes in time, but the whole answer would never end."""
    closed = threading.Event()
    late = pytest.raises(ServiceUnreachable, match="GET /v2/crawl/1: no whole answer within 60 s")
    with serving(trickling(both, *DRIPS[drip], closed)) as stub, late:
        await both.send(stub.address, crawl_status("1"), patience=ONCE)

    assert await asyncio.to_thread(closed.wait, LONG)


async def test_no_server_can_stretch_a_plain_get(both: Both) -> None:
    """Its answer has a minute in all. The error is that of httpx."""
    closed = threading.Event()
    late = pytest.raises(httpx.ReadTimeout, match="GET /v2/any: no whole answer within 60 s")
    with serving(trickling(both, *DRIPS["body"], closed)) as stub, late:
        await both.get(stub.address, "/v2/any")

    assert await asyncio.to_thread(closed.wait, LONG)


def trickling(both: Both, head: bytes, drop: bytes, closed: threading.Event) -> Callable[[Connection], None]:
    """Return what answers one drop every two seconds, until the client closes the connection."""

    def trickle(connection: Connection) -> None:
        wire = connection.handler.connection
        try:
            wire.sendall(head)
            while True:
                both.pass_time(timedelta(seconds=2))
                wire.sendall(drop)
        except OSError:
            closed.set()
        connection.handler.close_connection = True

    return trickle


async def test_a_deadline_is_that_of_the_call_and_not_of_its_connection(both: Both) -> None:
    """A later call on the same connection has its whole time."""

    def slow(connection: Connection) -> None:
        both.pass_time(timedelta(seconds=50))
        connection.answer(200, DONE)

    with serving(slow) as stub:
        assert len(await both.send_all(stub.address, [crawl_status("1")] * 3)) == 3

    assert len({id(one.handler) for one in stub.connections}) == 1


async def test_the_time_of_a_call_is_the_same_when_somebody_sets_the_clock(both: Both) -> None:
    """The service may have started a job, so the call must not fail. The answer is too long for one read."""
    long = DONE | {"data": [{"markdown": "x" * 500_000}]}

    def set_clock(connection: Connection) -> None:
        both.set_clock(timedelta(minutes=10))
        connection.answer(200, long)

    with serving(set_clock) as stub:
        assert (await both.send(stub.address, crawl_status("1"), patience=ONCE)).finished
        assert (await both.get(stub.address, "/v2/any")).json() == long


@pytest.mark.parametrize("coding", ["gzip, gzip", "GZIP,identity,deflate", "br", "zstd", "x-own"])
async def test_a_compression_that_was_not_asked_for_is_refused(both: Both, coding: str) -> None:
    """Two compressions at once unpack 13 kB to gigabytes. The body is not read at all."""
    bomb = gzip.compress(gzip.compress(b" " * 1_000_000))
    refused = pytest.raises(UnexpectedAnswer, match="its compression is broken, or was not asked for")
    with serving(lambda it: it.send(200, bomb, Content_Encoding=coding)) as stub, refused:
        await both.send(stub.address, crawl_status("1"), patience=ONCE)

    assert stub.connections[0].headers["accept-encoding"] == "gzip, deflate"


async def test_an_endless_answer_is_given_up(both: Both) -> None:
    """Memory stays bounded."""
    call = replace(crawl_status("1"), max_answer_bytes=10_000)
    with serving(lambda it: it.send(200, b" " * 100_000)) as stub, pytest.raises(UnexpectedAnswer, match="longer"):
        await both.send(stub.address, call, patience=ONCE)


async def test_a_call_without_an_answer_ends(both: Both) -> None:
    """The call itself says how long it waits."""
    heard = threading.Event()

    def silent(connection: Connection) -> None:
        heard.wait(LONG)

    call = ServiceCall("GET", "/v2/crawl/1", lambda body: body, answered_within=timedelta(milliseconds=50))
    with serving(silent) as stub:
        try:
            with pytest.raises(ServiceUnreachable, match=r"no whole answer within 0\.05 s"):
                await both.send(stub.address, call)
        finally:
            heard.set()


async def test_a_refused_connection_is_tried_again_first(both: Both) -> None:
    """The request was certainly not sent."""
    with serving(done) as stub:
        pass
    with pytest.raises(ServiceUnreachable, match=r"127\.0\.0\.1 cannot be reached") as caught:
        await both.send(stub.address, crawl_status("1"))

    assert not caught.value.sent
    assert both.clock.now() - NOON == timedelta(seconds=10.5)


async def test_many_calls_get_through_a_rate_limit(both: Both) -> None:
    """Each start is carried out exactly once."""
    refusal = {"success": False, "error": "Rate limit exceeded, retry after 3s"}
    storm = [lambda it: it.answer(429, refusal)] * 3
    with serving(*storm, lambda it: it.answer(200, {"success": True, "id": "1"})) as stub:
        assert (await both.send(stub.address, crawl("https://example.com/"))).id == "1"

    assert len(stub.connections) == 4
    assert both.clock.now() - NOON == timedelta(seconds=9)


async def test_a_rate_limit_that_does_not_end_is_an_error(both: Both) -> None:
    """The error comes after the last attempt."""
    with serving(lambda it: it.answer(429, {"error": "retry after 1s"})) as stub, pytest.raises(RateLimited):
        await both.send(stub.address, crawl_status("1"))

    assert len(stub.connections) == 4


async def test_no_library_logs_the_key(both: Both, caplog: pytest.LogCaptureFixture) -> None:
    """This holds at the most detailed log level."""
    caplog.set_level(logging.DEBUG)
    refused = pytest.raises(KeyRefused)
    with serving(lambda it: it.answer(401, {"error": it.headers["authorization"]})) as stub, refused as caught:
        await both.send(stub.address, crawl("https://example.com/"))

    assert "httpcore" in {record.name.partition(".")[0] for record in caplog.records}
    assert KEY not in caplog.text + "".join(traceback.format_exception(caught.value))


async def test_connections_are_shared_and_their_number_is_limited() -> None:
    """Tasks and threads make many calls over four connections."""
    with serving(done) as stub:
        async with AsyncClient(KEY, stub.address, concurrency=4) as client:
            found = await soon(asyncio.gather(*(client.crawl_status("1") for _ in range(24))))
    assert len(found) == len(stub.connections) == 24
    assert len({id(one.handler) for one in stub.connections}) <= 4

    with (
        serving(done) as stub,
        Client(KEY, stub.address, concurrency=4) as plain,
        ThreadPoolExecutor(12) as threads,
    ):
        found = list(threads.map(lambda _: plain.crawl_status("1"), range(24)))
    assert len(found) == len(stub.connections) == 24
    assert len({id(one.handler) for one in stub.connections}) <= 4
