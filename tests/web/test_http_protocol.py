"""Tests of the protocol and its limits, with a transport that records calls."""

import asyncio
import json
import re
from typing import Any

import pytest
from starlette.types import ASGIApp
from uvicorn import Config
from uvicorn.server import ServerState

from receiver.signals import delivery_refused
from receiver.web.protocol import MAX_HEADERS, MAX_UNFRAMED_BYTES, Connections, HttpProtocol
from tests.doubles import LONG, event_of, eventually, soon, turns, watching
from tests.web.transports import Notes

HEAD = b"POST /webhooks HTTP/1.1\r\nHost: h\r\n"


class Site:
    """A server, as far as its connections share it."""

    def __init__(self, *, read_seconds: float = LONG, most: int = 100) -> None:
        self.state = ServerState()
        shared = Connections(read_seconds=read_seconds, most=most)
        self.protocol = type("SiteProtocol", (HttpProtocol,), {"shared": shared})


class Connection:
    """A protocol with its transport, and an app that answers with the length of the body."""

    def __init__(self, site: Site | None = None, *, app: ASGIApp | None = None) -> None:
        site = site or Site()
        config = Config(app or self._app, interface="asgi3", ws="none", log_config=None)
        config.load()
        self.protocol = site.protocol(config=config, server_state=site.state, app_state={})
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
        """Pass these pieces to the protocol one after the other."""
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


async def test_one_connection_can_carry_many_requests() -> None:
    """They arrive one after the other, also in pieces."""
    connection = Connection()
    await connection.feed(HEAD + b"Content-Length: 3\r\n\r\nabc")
    await connection.feed(HEAD, b"Content-Length: 3\r\n", b"\r\n", b"a", b"bc")
    await connection.feed(HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\na\r\n", b"2\r\nbc\r\n0\r\n\r\n")
    await eventually(lambda: answers(connection) == 3)

    assert not connection.transport.is_closing()
    connection.end()


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        (b"a: 1\r\n" * (MAX_HEADERS - 2), 200),
        (b"a: 1\r\n" * (MAX_HEADERS - 1), 431),
        (b"a: " + b"1" * (MAX_UNFRAMED_BYTES - 100) + b"\r\n", 200),
        (b"a: " + b"1" * MAX_UNFRAMED_BYTES + b"\r\n", 431),
    ],
)
async def test_a_head_that_is_too_large_is_answered(headers: bytes, status: int) -> None:
    """The answer says what a request may have, and what had arrived is forgotten."""
    connection = Connection()
    await connection.feed(HEAD + headers + b"Content-Length: 0\r\n\r\n")
    await eventually(lambda: b"\r\n\r\n" in connection.transport.written)

    assert connection.transport.written.startswith(b"HTTP/1.1 %d " % status)
    assert connection.transport.is_closing() == (status == 431)
    assert connection.protocol.headers == []
    connection.end()


async def test_the_limit_on_headers_does_not_apply_to_bodies() -> None:
    """The endpoint has its own limit on bodies."""
    connection = Connection()
    await connection.feed(HEAD + b"Content-Length: 1000000\r\n\r\n", *[b"x" * 50_000] * 20)
    await eventually(lambda: answers(connection) == 1)

    assert not connection.transport.is_closing()
    connection.end()


async def test_the_headers_of_many_requests_are_not_added() -> None:
    """The limit applies to header bytes in a row."""
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
        [HEAD + b"a:\r\n" * 50] + [b"a:\r\n"] * 60,
    ],
    ids=["long headers", "long header", "chunk extension", "trailers", "long path", "many headers"],
)
async def test_endless_headers_close_the_connection(pieces: list[bytes]) -> None:
    """The connection is closed before the headers fill the memory."""
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
async def test_an_incomplete_request_closes_the_connection(pieces: list[bytes]) -> None:
    """This happens shortly after the endpoint's own time-out. A slow piece does not restart the time."""
    connection = Connection(Site(read_seconds=-1))  # with the margin that is now
    await connection.feed(*pieces)

    await soon(connection.transport.aborted.wait())
    connection.end()


async def test_an_idle_connection_has_only_the_server_s_own_time_limit() -> None:
    """No request is incomplete between two requests."""
    connection = Connection(Site(read_seconds=-1))
    await connection.feed(HEAD + b"Content-Length: 0\r\n\r\n")
    await eventually(lambda: answers(connection) == 1)
    await turns(200)

    assert not connection.transport.aborted.is_set()
    connection.end()


async def test_a_lost_connection_stops_its_timer() -> None:
    """The timer must not abort a closed connection."""
    connection = Connection()
    await connection.feed(HEAD)
    assert connection.protocol._timer is not None
    connection.end()

    assert connection.protocol._timer is None


async def test_a_request_above_the_limit_is_answered_503() -> None:
    """The answer is our own, with Retry-After; uvicorn's own answer does not have it."""
    connection = Connection(Site(most=0))
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
async def test_a_delivery_above_the_limit_is_reported(method: bytes, told: list[tuple[int, str]]) -> None:
    """Subscribers are notified of refused deliveries. A GET is not a delivery."""
    connection = Connection(Site(most=0))
    with watching(delivery_refused) as records:
        await connection.feed(HEAD.replace(b"POST", method) + b"Content-Length: 0\r\n\r\n")
        await eventually(lambda: connection.transport.closed)

    assert [(record.status, record.reason) for record in records] == told
    connection.end()


async def test_requests_are_accepted_again_below_the_limit() -> None:
    """The limit counts this request too."""
    connection = Connection(Site(most=1))
    await connection.feed(HEAD + b"Content-Length: 0\r\n\r\n")
    await eventually(lambda: answers(connection) == 1)

    assert not connection.transport.is_closing()
    connection.end()


async def test_the_longest_idle_connection_is_closed_for_a_new_one() -> None:
    """It may have sent a request before or not. A connection with a request in progress stays."""
    site = Site(most=4)
    half, silent, *served = (Connection(site) for _ in range(4))
    await half.feed(HEAD)
    for connection in served:
        await connection.feed(HEAD + b"Content-Length: 0\r\n\r\n")
    await served[0].feed(HEAD + b"Content-Length: 0\r\n\r\n")

    order = [silent, served[1], served[0]]
    for number, closed in enumerate(order, start=1):
        later = Connection(site)
        assert [one.transport.closed for one in order] == [True] * number + [False] * (3 - number)
        await later.feed(HEAD)  # it is busy from now on
        closed.end()

    assert not half.transport.is_closing()


async def test_a_connection_above_the_limit_is_not_closed_before_its_request() -> None:
    """If no other connection is idle, the request is answered 503."""
    site = Site(most=1)
    busy = Connection(site)
    await busy.feed(HEAD)
    late = Connection(site)
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
async def test_a_request_must_have_one_host(head: bytes, status: bytes) -> None:
    """RFC 9112, section 3.2: no Host or two are answered 400. HTTP/1.0 does not need one."""
    connection = Connection()
    await connection.feed(head + b"Content-Length: 3\r\n\r\nabc")

    assert connection.transport.written.startswith(b"HTTP/1.1 " + status)
    assert bool(connection.requests) == (status == b"200")
    connection.end()


async def test_an_answer_before_the_end_of_the_body_can_be_read() -> None:
    """The server closes its side at once, and the rest when the client has closed its side or is too slow.

    Until then it discards the rest of the body. Otherwise the client would get a reset and no answer.
    """
    connection = Connection(Site(most=0))
    await connection.feed(HEAD + b"Content-Length: 1000000\r\n\r\n", *[b"x" * 1_000] * 100)

    assert connection.transport.written.startswith(b"HTTP/1.1 503 ")
    assert connection.transport.half_closed
    assert not connection.transport.is_closing()
    connection.end()


async def test_a_body_without_enough_memory_is_answered_503(monkeypatch: pytest.MonkeyPatch) -> None:
    """The protocol collects the bytes before the app runs."""

    def no_memory(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(HttpProtocol, "on_body", no_memory)
    connection = Connection()
    await connection.feed(HEAD + b"Content-Length: 1000\r\n\r\n", b"x" * 500)

    assert connection.transport.written.startswith(b"HTTP/1.1 503 ")
    assert b"\r\nretry-after: " in connection.transport.written
    assert connection.transport.half_closed
    connection.end()


async def test_an_answer_to_a_client_that_has_reset_the_connection_is_dropped() -> None:
    """The reset may come in the turn of the event loop in which the answer is written; it is no error of ours."""
    errors: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context))
    connection = Connection()

    connection.protocol.write(b"answer")
    connection.transport.abort()
    await turns()

    assert (connection.transport.written, errors) == (b"", [])


async def test_a_connection_closes_at_once_after_a_complete_body() -> None:
    """No bytes of the request can still arrive."""
    connection = Connection(Site(most=0))
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
async def test_an_upgrade_offer_does_not_lose_the_body(rest: list[bytes]) -> None:
    """The app gets the whole request, and the connection stays open."""
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


async def test_an_upgrade_offer_may_be_in_the_last_request() -> None:
    """The connection ends after the answer."""
    connection = Connection()
    await connection.feed(OFFER.replace(b"Upgrade,", b"close, Upgrade,") + b"Content-Length: 3\r\n\r\n", b"abc")
    await eventually(lambda: connection.transport.closed)

    assert [body for _, body in connection.requests] == [b"abc"]
    connection.end()


async def test_several_requests_may_have_an_upgrade_offer() -> None:
    """They may also arrive in one piece."""
    connection = Connection()
    await connection.feed((OFFER + b"Content-Length: 3\r\n\r\nabc") * 5)
    await eventually(lambda: answers(connection) == 5)

    assert not connection.transport.is_closing()
    connection.end()


async def test_requests_with_an_upgrade_offer_have_the_same_limits() -> None:
    """This also holds for thousands of them in one piece."""
    connection = Connection()
    await connection.feed((OFFER + b"Content-Length: 0\r\n\r\n") * 2_000)

    assert connection.transport.aborted.is_set()
    assert len(connection.requests) < 20
    connection.end()


@pytest.mark.parametrize("offer", [b"", b"Connection: Upgrade\r\nUpgrade: h2c\r\n"])
async def test_a_tunnel_is_refused(offer: bytes) -> None:
    """The method CONNECT is only for proxies."""
    connection = Connection()
    await connection.feed(b"CONNECT h:443 HTTP/1.1\r\nHost: h\r\n" + offer + b"\r\nabc")

    assert connection.transport.written.startswith(b"HTTP/1.1 400 ")
    connection.end()


# --- answers of ASGI apps

GET = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n"
START = {"type": "http.response.start", "status": 200, "headers": []}


def sends(*messages: Any) -> ASGIApp:
    """Return an app that sends these messages, or raises those that are errors."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        for message in messages:
            if isinstance(message, BaseException):
                raise message
            await send(message)
            await asyncio.sleep(0)

    return app


def part(body: bytes, *, more: bool = False) -> dict[str, Any]:
    """Return a part of an answer's body."""
    return {"type": "http.response.body", "body": body, "more_body": more}


def start(*headers: tuple[bytes, bytes], status: int = 200) -> dict[str, Any]:
    """Return the start of an answer."""
    return {"type": "http.response.start", "status": status, "headers": list(headers)}


async def answered(app: ASGIApp, request: bytes = GET) -> tuple[bytes, bool]:
    """Return the answer to a request, and whether the connection was closed behind it."""
    connection = Connection(app=app)
    await connection.feed(request)
    await turns()
    closed = connection.transport.is_closing()
    connection.end()
    return connection.transport.written, closed


@pytest.mark.parametrize(
    ("app", "request_bytes", "answer", "closed"),
    [
        (
            sends(START, part(b"ab", more=True), part(b"", more=True), part(b"c")),
            GET,
            b"transfer-encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n",
            False,
        ),
        (sends(START, part(b"")), GET, b"transfer-encoding: chunked\r\n\r\n0\r\n\r\n", False),
        (sends(START, part(b"abc")), GET.replace(b"1.1", b"1.0"), b"connection: close\r\n\r\nabc", True),
        (
            sends(start((b"Content-Length", b"3")), part(b"ab", more=True), part(b"c")),
            GET,
            b"content-length: 3\r\n\r\nabc",
            False,
        ),
        (
            sends(start((b"content-length", b"3")), part(b"abc")),
            GET.replace(b"GET", b"HEAD"),
            b"content-length: 3\r\n\r\n",
            False,
        ),
        (sends(start(status=204), part(b"abc")), GET, b"\r\n", False),
        (sends(start((b"connection", b"close")), part(b"")), GET, b"0\r\n\r\n", True),
    ],
    ids=["chunks", "an empty body", "HTTP/1.0", "a length", "HEAD", "no content", "close"],
)
async def test_the_body_of_an_answer_has_the_framing_that_its_head_names(
    app: ASGIApp, request_bytes: bytes, answer: bytes, closed: bool
) -> None:
    """A client of HTTP/1.0 knows no chunks, and the body ends with the connection (RFC 9112, section 6.3)."""
    written, was_closed = await answered(app, request_bytes)

    assert written.endswith(answer)
    assert written.startswith(b"HTTP/1.1 20")
    assert was_closed == closed


@pytest.mark.parametrize(
    "app",
    [
        sends(),
        sends(RuntimeError("bug")),
        sends(MemoryError()),
        sends(part(b"")),
        sends(start((b"x-a", b"1\r\nset-cookie: a"))),
        sends(start((b"x\n-a", b"1"))),
        sends(start((b"content-length", b"many"))),
    ],
)
async def test_an_app_that_fails_is_answered_503(app: ASGIApp, caplog: pytest.LogCaptureFixture) -> None:
    """A 500 would lose the delivery. The connection stays open: the request was complete."""
    written, closed = await answered(app)

    assert written.startswith(b"HTTP/1.1 503 ")
    assert b"\r\nretry-after: " in written
    assert written.count(b"HTTP/1.1") == 1
    assert not closed
    assert {event_of(record) for record in caplog.records} == {"request_failed"}


@pytest.mark.parametrize(
    "app",
    [
        sends(START),
        sends(START, RuntimeError("bug")),
        sends(START, START),
        sends(START, part(b"ab", more=True), RuntimeError("bug")),
        sends(start((b"content-length", b"3")), part(b"ab")),
        sends(start((b"content-length", b"3")), part(b"abcd")),
    ],
)
async def test_an_app_that_fails_behind_the_start_ends_the_connection(
    app: ASGIApp, caplog: pytest.LogCaptureFixture
) -> None:
    """The client sees that the answer is not complete."""
    written, closed = await answered(app)

    assert written.startswith(b"HTTP/1.1 200 ")
    assert b"0\r\n\r\n" not in written
    assert closed
    assert {event_of(record) for record in caplog.records} == {"request_failed"}


async def test_an_app_that_sends_behind_its_answer_has_failed(caplog: pytest.LogCaptureFixture) -> None:
    """The next request is answered all the same."""
    connection = Connection(app=sends(start((b"content-length", b"0")), part(b""), part(b"more")))
    await connection.feed(GET, GET)

    assert connection.transport.written == b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n" * 2
    assert {event_of(record) for record in caplog.records} == {"request_failed"}
    connection.end()


async def test_a_request_that_the_server_cancels_at_its_end_is_answered_503() -> None:
    """So the sender tries again at once."""
    site = Site()
    connection = Connection(site, app=sends_never)
    await connection.feed(GET)
    (task,) = site.state.tasks
    task.cancel()
    await turns()

    assert connection.transport.written.startswith(b"HTTP/1.1 503 ")
    assert site.state.tasks == set()
    connection.end()


async def sends_never(scope: Any, receive: Any, send: Any) -> None:
    """Wait without an end."""
    await asyncio.Event().wait()


async def test_an_app_learns_that_its_client_has_gone() -> None:
    """It may be in the middle of the body, or behind the answer."""
    seen: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        seen.append("gone")
        await send(START)

    for request in (GET, HEAD + b"Content-Length: 3\r\n\r\na"):
        connection = Connection(app=app)
        await connection.feed(request)
        connection.end()
        await turns()
        assert connection.transport.written == b""

    assert seen == ["gone"] * 2


async def test_a_body_that_an_app_does_not_ask_for_stops_the_reading() -> None:
    """The bytes stay with the client. When the app has read what is there, more is read."""
    asked = asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await asked.wait()
        size, more = 0, True
        while more:
            message = await receive()
            size, more = size + len(message["body"]), message["more_body"]
        await send(start((b"x-size", b"%d" % size)))
        await send(part(b""))

    connection = Connection(app=app)
    await connection.feed(HEAD + b"Content-Length: 100000\r\n\r\n" + b"x" * 70_000)
    assert not connection.transport.reads
    asked.set()
    await turns()
    assert connection.transport.reads

    await connection.feed(b"x" * 30_000)
    assert b"x-size: 100000\r\n" in connection.transport.written
    connection.end()


async def test_an_app_waits_while_its_client_does_not_read() -> None:
    """Answers do not gather in the memory."""
    connection = Connection(app=sends(START, part(b"a", more=True), part(b"b")))
    connection.protocol.pause_writing()
    await connection.feed(GET)
    assert connection.transport.written == b""

    connection.protocol.resume_writing()
    await turns()
    assert connection.transport.written.endswith(b"0\r\n\r\n")
    connection.end()


async def test_a_client_that_asks_first_gets_100_when_the_app_wants_the_body() -> None:
    """An app that answers without the body sends no 100 before (RFC 9110, section 10.1.1)."""
    request = HEAD + b"Expect: 100-continue\r\nContent-Length: 3\r\n\r\n"
    early = await answered(sends(start((b"content-length", b"0")), part(b"")), request)
    connection = Connection()
    await connection.feed(request)
    assert connection.transport.written == b"HTTP/1.1 100 Continue\r\n\r\n"
    await connection.feed(b"abc")

    assert connection.transport.written.count(b"HTTP/1.1 100") == answers(connection) == 1
    assert b" 100 " not in early[0]
    connection.end()


async def test_requests_in_one_piece_are_answered_one_after_the_other() -> None:
    """The app gets the next request when it has answered the one before; until then little more is read."""
    turn = asyncio.Condition()
    begun: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        begun.append(scope["path"])
        async with turn:
            await turn.wait()
        await send(start((b"content-length", b"1")))
        await send(part(scope["path"][-1:].encode()))

    connection = Connection(app=app)
    await connection.feed(b"".join(b"GET /%d HTTP/1.1\r\nHost: h\r\n\r\n" % number for number in range(4)))
    for number in range(4):
        assert begun == [f"/{one}" for one in range(number + 1)]
        assert connection.transport.reads == (number == 3)
        async with turn:
            turn.notify_all()
        await turns()

    assert re.findall(rb"\r\n\r\n(\d)", connection.transport.written) == [b"0", b"1", b"2", b"3"]
    connection.end()


async def test_an_answer_that_closes_the_connection_is_the_last_one() -> None:
    """What follows its request is dropped, even if it is half a request, or is no HTTP in the end."""
    end = asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(start((b"connection", b"close")))
        await end.wait()
        await send(part(b"abc"))

    for rest in (b"", b"1\r\na\r\n0\r\n\r\n", b"zz\r\n"):
        connection = Connection(app=app)
        await connection.feed(GET + HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n", rest)
        end.set()
        await turns()
        assert b"\r\n3\r\nabc\r\n0\r\n\r\n" in connection.transport.written
        assert connection.transport.half_closed or connection.transport.closed
        assert connection.transport.written.count(b"HTTP/1.1 200") == 1
        connection.end()
        end.clear()


async def test_what_is_no_http_is_logged_with_its_sender_and_not_in_full(caplog: pytest.LogCaptureFixture) -> None:
    """Anybody may send it, as often as they like."""
    for _ in range(100):
        connection = Connection()
        await connection.feed(b"\x16\x03\x01\r\n\r\n")
        connection.end()

    assert {event_of(record) for record in caplog.records} == {"delivery_refused"}
    assert vars(caplog.records[0])["reason"] == "bad_request"
