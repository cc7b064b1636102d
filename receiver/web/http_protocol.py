"""uvicorn's HTTP protocol with the limits it does not have: on header bytes, slow requests and idle connections.

Without these limits one client could send an endless header, or hold a connection for ever. This protocol also
sends our own 503 past the limit on connections, keeps the body of a request that offers another protocol, lets the
client read an answer that comes before the end of the body, and sends head and body of an answer in one packet.
"""

import asyncio
import logging
from typing import Any, cast

import httptools
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from receiver.core.clock import SystemClock
from receiver.signals.contracts import DeliveryRefused, delivery_refused
from receiver.web.replies import RETRY_AFTER_SECONDS, reply, unavailable

log = logging.getLogger(__name__)

MAX_UNFRAMED_BYTES = 64 * 1024
"""Bytes of headers, trailers or chunk extensions in a row. Node limits the headers of a request to 16 KiB."""
MAX_PIPELINED = 16
MAX_REFUSED = 50
"""Connections beyond the limit that stay open until they are answered 503."""
_MARGIN_SECONDS = 1.0
"""The endpoint counts its read time-out from the end of the headers, and then answers 408. If the headers
take longer than this, the connection is closed before that answer."""
_LINGER_SECONDS = 2.0
"""How long the rest of a request is read and thrown away after an early answer."""


_NO_MEMORY = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\nretry-after: %d\r\nconnection: close\r\n\r\n"
    % RETRY_AFTER_SECONDS
)


class _Together:
    """A transport that sends its writes in one piece at the end of the event loop's turn, as uvloop does.

    It closes in two steps while a request is still arriving: to close at once would reset the connection, and the
    client might never see the answer (RFC 9112, section 9.6).
    """

    def __init__(self, transport: asyncio.Transport, protocol: "BoundedProtocol") -> None:
        self._transport = transport
        self._protocol = protocol
        self._loop = protocol.loop
        self._parts: list[bytes] = []
        self.lingers = False
        """Whether only the client's end of the connection is still open."""

    def write(self, data: bytes) -> None:
        """Write at the end of this turn."""
        if self.lingers:
            return  # as on a closed connection
        if not self._parts:
            self._loop.call_soon(self._flush)
        self._parts.append(data)

    def close(self) -> None:
        """Close once everything is written and, if it comes soon, the rest of the request has arrived."""
        self._flush()
        if self._protocol.is_between_requests or self.is_closing() or not self._transport.can_write_eof():
            self._transport.close()
            return
        self.lingers = True
        self._transport.write_eof()
        self._transport.resume_reading()
        self._loop.call_later(_LINGER_SECONDS, self._transport.close)

    def is_closing(self) -> bool:
        """Tell whether nothing more can be written."""
        return self.lingers or self._transport.is_closing()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def _flush(self) -> None:
        if self._parts:
            self._transport.write(b"".join(self._parts))
            self._parts.clear()


class _RequestParser(httptools.HttpRequestParser):
    """A parser that reads the body although the request offers another protocol, as some proxies do (Upgrade).

    httptools takes what follows the headers for the other protocol (parser.pyx, cb_on_headers_complete). A server
    may ignore the offer (RFC 9110, section 7.8): a new parser gets the headers without it, and then the rest.
    """

    def __init__(self, protocol: "BoundedProtocol") -> None:
        super().__init__(protocol)
        self._protocol = protocol
        self.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn does

    def feed_data(self, data: bytes) -> None:  # type: ignore[override]  # asyncio gives nothing but bytes
        """Parse the bytes and call the protocol's methods."""
        try:
            super().feed_data(data)
            return
        except httptools.HttpParserUpgrade as stop:
            if self._protocol.offered is None:
                raise  # CONNECT, which is not for us
            (offset,) = stop.args
        except httptools.HttpParserCallbackError as wrapper:
            if isinstance(wrapper.__context__, MemoryError):
                raise wrapper.__context__ from None  # uvicorn would answer 400, as if the client were wrong
            raise
        if not self._protocol.transport.is_closing():
            head = self._protocol.head_without_offer()
            self._protocol.parser = _RequestParser(self._protocol)
            self._protocol.parser.feed_data(head + data[offset:])


async def _too_many(scope: Scope, receive: Receive, send: Send) -> None:
    log.warning("too_many_connections")
    detail = "too many connections at one time; send it again"
    if scope["method"] == "POST" and delivery_refused.receivers:
        at = SystemClock().now()
        delivery_refused.emit(DeliveryRefused(at=at, status=503, reason="connections", detail=detail))
    for message in unavailable(detail, (b"connection", b"close")):
        await send(message)


async def _wrong_host(scope: Scope, receive: Receive, send: Send) -> None:
    detail = "a request has exactly one Host header"  # RFC 9112, section 3.2
    for message in reply(400, {"error": "bad_request", "detail": detail}, (b"connection", b"close")):
        await send(message)


class BoundedProtocol(HttpToolsProtocol):
    """Closes a connection whose request is too slow to arrive or whose headers are too long.

    Past the limit on connections, the one that has been idle for the longest makes room for each new one.
    """

    read_seconds = 4.0
    """Set by the server to the read time-out."""
    most_connections = 2_000
    """Set by the server. Further ones are answered 503; uvicorn's own limit would send no Retry-After."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.parser = _RequestParser(self)
        self._served = self.app
        self.idle: dict[BoundedProtocol, None] = vars(self.server_state).setdefault("idle", {})
        """The server's connections between two requests or before the first; the longest idle comes first."""
        self.offered: list[tuple[bytes, bytes]] | None = None
        """The headers with an offer to change the protocol, until the parser has read them without it."""
        self._unframed = 0
        self._complete = True
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Send answers in one piece, and wait no longer for a first request than for the rest of one."""
        super().connection_made(cast("asyncio.Transport", _Together(transport, self)))
        self._start_timer()
        self.idle[self] = None
        if len(self.connections) > self.most_connections and len(self.idle) > 1:
            longest_idle = next(iter(self.idle))
            del self.idle[longest_idle]
            self.connections.discard(longest_idle)  # at once: uvloop tells some turns later that it is lost
            longest_idle.transport.close()
        elif len(self.connections) > self.most_connections + MAX_REFUSED:
            self.transport.abort()  # for more than that there may be no file descriptors

    def data_received(self, data: bytes) -> None:
        """Feed the parser, then look at what is still missing."""
        if self._lingers():
            return
        self.idle.pop(self, None)
        if self._complete:
            self._stop_timer()  # a new request has its full time
        self._unframed += len(data)
        self._complete = False
        try:
            super().data_received(data)
        except MemoryError:
            self._refuse_for_memory()
            return
        if self._complete:
            self._stop_timer()
        elif self._unframed > MAX_UNFRAMED_BYTES:
            self._stop_timer()
            self.transport.abort()
        elif self._timer is None:
            self._start_timer()

    def on_headers_complete(self) -> None:
        """Begin to answer, or abort if too many pipelined requests wait: no limit counts their bytes."""
        if self.parser.should_upgrade() and any(name == b"upgrade" for name, _ in self.headers):
            self.offered = self.headers
            return
        if self.offered is not None:
            self.headers[:] = self.offered  # the store keeps the headers as they were sent
            self.offered = None
        if len(self.pipeline) >= MAX_PIPELINED:
            self.transport.abort()
        if not self.transport.is_closing():
            self.app = self._app_for_request()
            super().on_headers_complete()

    def head_without_offer(self) -> bytes:
        """Return the head of the current request without its offer to change the protocol."""
        version = self.parser.get_http_version().encode()
        lines = [b"%b %b HTTP/%b" % (self.parser.get_method(), self.url, version)]
        lines += [b"%b: %b" % header for header in self.headers if header[0] != b"upgrade"]
        return b"\r\n".join([*lines, b"", b""])

    def pause_writing(self) -> None:
        """Allow a client that does not read its answers as much time as one that does not send its request."""
        super().pause_writing()
        self._stop_timer()
        self._start_timer()

    def resume_writing(self) -> None:
        """Stop the timer: the client reads its answers again."""
        super().resume_writing()
        self._stop_timer()

    def on_body(self, body: bytes) -> None:
        """Note that the last bytes belong to a body."""
        self._unframed = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Note that the whole request has arrived."""
        if self.offered is not None:
            return  # the parser calls this before it has read the body
        self._unframed = 0
        self._complete = True
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Note that the connection is idle if nothing else has come on it."""
        super().on_response_complete()
        if self.is_between_requests and not self.pipeline and not self.transport.is_closing():
            self.idle[self] = None

    @property
    def is_between_requests(self) -> bool:
        """Whether no request is half on its way."""
        return self._complete

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the timer."""
        self._stop_timer()
        self.idle.pop(self, None)
        super().connection_lost(exc)

    def _refuse_for_memory(self) -> None:
        self._stop_timer()
        if self.cycle is not None and self.cycle.response_started:
            self.transport.abort()
            return
        self.transport.write(_NO_MEMORY)
        self.transport.close()

    def _lingers(self) -> bool:
        return cast("_Together", self.transport).lingers

    def _app_for_request(self) -> ASGIApp:
        hosts = sum(name == b"host" for name, _ in self.headers)
        if hosts > 1 or (hosts == 0 and self.parser.get_http_version() == "1.1"):
            return _wrong_host
        return _too_many if self._crowded() else self._served

    def _crowded(self) -> bool:
        # Pipelined requests can be more than connections; this request is not yet among the tasks.
        return len(self.connections) > self.most_connections or len(self.tasks) >= self.most_connections

    def _start_timer(self) -> None:
        self._timer = self.loop.call_later(self.read_seconds + _MARGIN_SECONDS, self.transport.abort)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
