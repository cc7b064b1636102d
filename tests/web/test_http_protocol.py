"""The limits that uvicorn's protocol does not have, on a transport that only takes notes."""

import asyncio
import json
from typing import Any

import pytest
from uvicorn import Config
from uvicorn.server import ServerState

from receiver.signals import delivery_refused
from receiver.web.http_protocol import BoundedProtocol
from tests.doubles import LONG, eventually, soon, turns, watching

HEAD = b"POST /webhooks HTTP/1.1\r\nHost: h\r\n"


class Notes(asyncio.Transport):
    """A transport that writes into a list."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.aborted = asyncio.Event()
        self.closed = False
        self.half_closed = False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Know nothing."""
        return default

    def write(self, data: Any) -> None:
        """Note it."""
        self.written += bytes(data)

    def abort(self) -> None:
        """Note it."""
        self.aborted.set()

    def close(self) -> None:
        """Note it."""
        self.closed = True

    def is_closing(self) -> bool:
        """Tell."""
        return self.closed or self.aborted.is_set()

    def can_write_eof(self) -> bool:
        """Say yes, as TCP does."""
        return True

    def write_eof(self) -> None:
        """Note it."""
        self.half_closed = True

    def pause_reading(self) -> None:
        """Do nothing."""

    def resume_reading(self) -> None:
        """Do nothing."""


class Connection:
    """A protocol with its transport, and an app that answers with the length of the body."""

    def __init__(self, read_seconds: float = LONG, *, server: ServerState | None = None, most: int = 100) -> None:
        config = Config(self._app, interface="asgi3", lifespan="off", ws="none", log_config=None, access_log=False)
        self.protocol = BoundedProtocol(config, server or ServerState(), {})
        self.protocol.most_connections = most
        self.protocol.read_seconds = read_seconds
        self.requests: list[tuple[list[tuple[bytes, bytes]], bytes]] = []
        self.transport = Notes()
        self.protocol.connection_made(self.transport)

    async def _app(self, scope: Any, receive: Any, send: Any) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body += message.get("body", b"")
            more = message.get("more_body", False)
        self.requests.append((scope["headers"], body))
        size = b"%d" % len(body)
        headers = [(b"content-length", b"%d" % len(size))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": size})

    async def feed(self, *pieces: bytes) -> None:
        """Let these bytes arrive, one piece after the other."""
        for piece in pieces:
            if not self.transport.aborted.is_set():
                self.protocol.data_received(piece)
                await turns(5)

    def end(self) -> None:
        """Close the connection."""
        self.protocol.connection_lost(None)


def answers(connection: Connection) -> int:
    """Return how many requests have been answered."""
    return connection.transport.written.count(b"HTTP/1.1 200 OK")


async def test_whole_requests_are_answered_on_one_connection() -> None:
    """One after the other, and in pieces."""
    connection = Connection()
    await connection.feed(HEAD + b"Content-Length: 3\r\n\r\nabc")
    await connection.feed(HEAD, b"Content-Length: 3\r\n", b"\r\n", b"a", b"bc")
    await connection.feed(HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\na\r\n", b"2\r\nbc\r\n0\r\n\r\n")
    await eventually(lambda: answers(connection) == 3)

    assert not connection.transport.is_closing()
    connection.end()


async def test_long_bodies_are_no_long_headers() -> None:
    """A body may have any length here, its own limit is the endpoint's."""
    connection = Connection()
    await connection.feed(HEAD + b"Content-Length: 1000000\r\n\r\n", *[b"x" * 50_000] * 20)
    await eventually(lambda: answers(connection) == 1)

    assert not connection.transport.is_closing()
    connection.end()


async def test_many_requests_do_not_add_up() -> None:
    """The limit is on bytes in a row."""
    connection = Connection()
    for _ in range(30):
        await connection.feed(HEAD + b"X-Long: " + b"x" * 8_000 + b"\r\nContent-Length: 0\r\n\r\n")
    await eventually(lambda: answers(connection) == 30)

    assert not connection.transport.is_closing()
    connection.end()


@pytest.mark.parametrize(
    "pieces",
    [
        [HEAD] + [b"X-Many: %s\r\n" % (b"x" * 1_000)] * 70,
        [HEAD + b"X-Long: "] + [b"x" * 1_000] * 70,
        [HEAD + b"Transfer-Encoding: chunked\r\n\r\n1;"] + [b"x" * 1_000] * 70,
        [HEAD + b"Transfer-Encoding: chunked\r\n\r\n0\r\n"] + [b"X-Trailer: %s\r\n" % (b"x" * 1_000)] * 70,
        [b"POST /"] + [b"x" * 1_000] * 70,
    ],
    ids=["many headers", "long header", "chunk extension", "trailers", "long path"],
)
async def test_headers_without_an_end_close_the_connection(pieces: list[bytes]) -> None:
    """Before they fill the memory."""
    connection = Connection()
    await connection.feed(*pieces)

    assert connection.transport.is_closing() or b"400 Bad Request" in connection.transport.written
    connection.end()


@pytest.mark.parametrize(
    "pieces",
    [
        [b"P"],
        [HEAD],
        [HEAD + b"Content-Length: 3\r\n\r\n"],
        [HEAD + b"Content-Length: 3\r\n\r\n", b"ab"],
        [HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\na\r\n"],
        [HEAD + b"Content-Length: 0\r\n\r\n", HEAD],
    ],
    ids=["one byte", "half a header", "no body", "half a body", "half the chunks", "half a second request"],
)
async def test_a_request_that_does_not_arrive_closes_the_connection(pieces: list[bytes]) -> None:
    """A little after the endpoint's own time-out. Each piece may come in time, the request does not."""
    connection = Connection(read_seconds=-1)  # with the margin that is now
    await connection.feed(*pieces)

    await soon(connection.transport.aborted.wait())
    connection.end()


async def test_an_idle_connection_is_left_to_the_servers_own_limit() -> None:
    """Between two requests there is nothing to wait for."""
    connection = Connection(read_seconds=-1)
    await connection.feed(HEAD + b"Content-Length: 0\r\n\r\n")
    await eventually(lambda: answers(connection) == 1)
    await turns(200)

    assert not connection.transport.aborted.is_set()
    connection.end()


async def test_a_lost_connection_forgets_its_timer() -> None:
    """Nothing is aborted that is gone."""
    connection = Connection()
    await connection.feed(HEAD)
    assert connection.protocol._timer is not None
    connection.end()

    assert connection.protocol._timer is None


async def test_a_request_too_many_is_asked_to_come_again() -> None:
    """In our words, with the time after which to do that; a server's own words have none."""
    connection = Connection(most=0)
    await connection.feed(HEAD + b"Content-Length: 3\r\n\r\nabc")
    await eventually(lambda: connection.transport.closed)
    head, _, body = connection.transport.written.partition(b"\r\n\r\n")

    assert head.startswith(b"HTTP/1.1 503 ")
    assert b"\r\nretry-after: " in head
    assert b"\r\nconnection: close" in head
    assert json.loads(body)["error"] == "unavailable"
    assert connection.requests == []
    connection.end()


@pytest.mark.parametrize(("method", "told"), [(b"POST", [(503, "connections")]), (b"GET", [])])
async def test_a_delivery_too_many_is_told(method: bytes, told: list[tuple[int, str]]) -> None:
    """To whoever watches refusals; what only looks in is no delivery."""
    connection = Connection(most=0)
    with watching(delivery_refused) as records:
        await connection.feed(HEAD.replace(b"POST", method) + b"Content-Length: 0\r\n\r\n")
        await eventually(lambda: connection.transport.closed)

    assert [(record.status, record.reason) for record in records] == told
    connection.end()


async def test_requests_are_taken_again_when_there_is_room() -> None:
    """As many as the limit says, this one among them."""
    connection = Connection(most=1)
    await connection.feed(HEAD + b"Content-Length: 0\r\n\r\n")
    await eventually(lambda: answers(connection) == 1)

    assert not connection.transport.is_closing()
    connection.end()


async def test_the_connection_that_is_idle_for_the_longest_makes_room() -> None:
    """Whether it has said something once or never; one that is being answered or sends its request stays."""
    server = ServerState()
    half, silent, *served = (Connection(server=server, most=4) for _ in range(4))
    await half.feed(HEAD)
    for connection in served:
        await connection.feed(HEAD + b"Content-Length: 0\r\n\r\n")
    await served[0].feed(HEAD + b"Content-Length: 0\r\n\r\n")

    order = [silent, served[1], served[0]]
    for number, closed in enumerate(order, start=1):
        later = Connection(server=server, most=4)
        assert [one.transport.closed for one in order] == [True] * number + [False] * (3 - number)
        await later.feed(HEAD)  # it is busy from now on
        closed.end()

    assert not half.transport.is_closing()


async def test_a_connection_too_many_is_not_closed_before_it_has_spoken() -> None:
    """Where no other is idle it is answered 503."""
    server = ServerState()
    busy = Connection(server=server, most=1)
    await busy.feed(HEAD)
    late = Connection(server=server, most=1)
    assert not late.transport.is_closing()

    await late.feed(HEAD + b"Content-Length: 0\r\n\r\n")
    assert late.transport.written.startswith(b"HTTP/1.1 503 ")


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"POST / HTTP/1.1\r\n", b"400"),
        (b"POST / HTTP/1.1\r\nHost: a\r\nHost: b\r\n", b"400"),
        (b"POST / HTTP/1.1\r\nHost: a\r\nhost: a\r\n", b"400"),
        (b"POST / HTTP/1.0\r\nHost: a\r\nHost: b\r\n", b"400"),
        (b"POST / HTTP/1.1\r\nHost:\r\n", b"200"),
        (b"POST / HTTP/1.0\r\n", b"200"),
    ],
)
async def test_a_request_has_one_host(head: bytes, status: bytes) -> None:
    """RFC 9112, section 3.2: none or two are answered 400; HTTP/1.0 needs none."""
    connection = Connection()
    await connection.feed(head + b"Content-Length: 3\r\n\r\nabc")

    assert connection.transport.written.startswith(b"HTTP/1.1 " + status)
    assert bool(connection.requests) == (status == b"200")
    connection.end()


async def test_an_answer_before_the_end_of_the_body_can_be_read() -> None:
    """The connection is closed for writing at once, and wholly when the client has closed it or is too slow.

    Until then the rest of the body is thrown away; else the client would get a reset and no answer.
    """
    connection = Connection(most=0)
    await connection.feed(HEAD + b"Content-Length: 1000000\r\n\r\n", *[b"x" * 1_000] * 100)

    assert connection.transport.written.startswith(b"HTTP/1.1 503 ")
    assert connection.transport.half_closed
    assert not connection.transport.is_closing()
    connection.end()


async def test_a_body_that_finds_no_memory_is_answered_503(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bytes are gathered outside of any app."""

    def no_memory(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(BoundedProtocol, "on_body", no_memory)
    connection = Connection()
    await connection.feed(HEAD + b"Content-Length: 1000\r\n\r\n", b"x" * 500)

    assert connection.transport.written.startswith(b"HTTP/1.1 503 ")
    assert b"\r\nretry-after: " in connection.transport.written
    assert connection.transport.half_closed
    connection.end()


async def test_an_answer_after_the_whole_body_closes_at_once() -> None:
    """Nothing is on its way any more."""
    connection = Connection(most=0)
    await connection.feed(HEAD + b"Content-Length: 3\r\n\r\nabc")

    assert connection.transport.closed
    connection.end()


OFFER = (
    HEAD + b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA\r\n"
)


@pytest.mark.parametrize(
    "rest",
    [
        [b"Content-Length: 3\r\n\r\nabc"],
        [b"Content-Length: 3\r\n\r\n", b"ab", b"c"],
        [b"Content", b"-Length: 3\r\n\r", b"\nabc"],
        [b"Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n", b"2\r\nbc\r\n0\r\n\r\n"],
    ],
    ids=["at once", "body later", "headers in pieces", "chunks"],
)
async def test_an_offer_of_another_protocol_costs_no_body(rest: list[bytes]) -> None:
    """The app sees the whole request, and the connection goes on."""
    connection = Connection()
    await connection.feed(OFFER + rest[0], *rest[1:])
    await connection.feed(HEAD + b"Content-Length: 2\r\n\r\nab")
    await eventually(lambda: answers(connection) == 2)

    (headers, body), (_, second_body) = connection.requests
    assert (body, second_body) == (b"abc", b"ab")
    assert headers[:4] == [
        (b"host", b"h"),
        (b"connection", b"Upgrade, HTTP2-Settings"),
        (b"upgrade", b"h2c"),
        (b"http2-settings", b"AAMAAABkAAQCAAAAAAIAAAAA"),
    ]
    assert not connection.transport.is_closing()
    connection.end()


async def test_an_offer_of_another_protocol_may_be_the_last_request() -> None:
    """The connection ends after its answer."""
    connection = Connection()
    await connection.feed(OFFER.replace(b"Upgrade,", b"close, Upgrade,") + b"Content-Length: 3\r\n\r\n", b"abc")
    await eventually(lambda: connection.transport.closed)

    assert [body for _, body in connection.requests] == [b"abc"]
    connection.end()


async def test_offers_of_another_protocol_may_come_one_after_the_other() -> None:
    """In one piece, too."""
    connection = Connection()
    await connection.feed((OFFER + b"Content-Length: 3\r\n\r\nabc") * 5)
    await eventually(lambda: answers(connection) == 5)

    assert not connection.transport.is_closing()
    connection.end()


async def test_offers_of_another_protocol_are_limited_as_all_requests_are() -> None:
    """Also when thousands come in one piece."""
    connection = Connection()
    await connection.feed((OFFER + b"Content-Length: 0\r\n\r\n") * 2_000)

    assert connection.transport.aborted.is_set()
    assert len(connection.requests) < 20
    connection.end()


@pytest.mark.parametrize("offer", [b"", b"Connection: Upgrade\r\nUpgrade: h2c\r\n"])
async def test_a_tunnel_is_refused(offer: bytes) -> None:
    """CONNECT is for proxies."""
    connection = Connection()
    await connection.feed(b"CONNECT h:443 HTTP/1.1\r\nHost: h\r\n" + offer + b"\r\nabc")

    assert connection.transport.written.startswith(b"HTTP/1.1 400 ")
    connection.end()
