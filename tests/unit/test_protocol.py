"""The limits that uvicorn's protocol does not have, on a transport that only takes notes."""

import asyncio
from typing import Any

import pytest
from uvicorn import Config
from uvicorn.server import ServerState

from receiver.asgi.protocol import BoundedProtocol
from tests.doubles import LONG, eventually, soon, turns

HEAD = b"POST /webhooks HTTP/1.1\r\nHost: h\r\n"


class Notes(asyncio.Transport):
    """A transport that writes into a list."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.aborted = asyncio.Event()
        self.closed = False

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

    def pause_reading(self) -> None:
        """Do nothing."""

    def resume_reading(self) -> None:
        """Do nothing."""


class Connection:
    """A protocol with its transport, and an app that answers with the length of the body."""

    def __init__(self, read_seconds: float = LONG) -> None:
        config = Config(self._app, interface="asgi3", lifespan="off", ws="none", log_config=None, access_log=False)
        self.protocol = BoundedProtocol(config, ServerState(), {})
        self.protocol.read_seconds = read_seconds
        self.transport = Notes()
        self.protocol.connection_made(self.transport)

    async def _app(self, scope: Any, receive: Any, send: Any) -> None:
        size, more = 0, True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            size += len(message.get("body", b""))
            more = message.get("more_body", False)
        body = b"%d" % size
        headers = [(b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

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
