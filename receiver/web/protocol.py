"""The HTTP protocol that hands the requests of the webhook to its endpoint directly, without ASGI.

uvicorn makes a scope, an event, a cycle and a task for each request, and ASGI has a message for each part of it.
Together they take twice as long as the webhook itself. All other requests go the usual way.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, cast

import httptools
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from receiver.core.clock import SystemClock
from receiver.runtime.log_lines import LineRate, event_log
from receiver.signals.contracts import DeliveryRefused, delivery_refused
from receiver.web.reception import Client, Deadlines, Reception
from receiver.web.replies import RETRY_AFTER_SECONDS, Reply, reply, send_reply, unavailable

# FOLDED: uvicorn's HTTP protocol with more limits: on header bytes, slow requests and idle connections. // Without
# these limits one client could send an endless header, or keep a connection for ever. Above the limit on
# connections this protocol sends our own 503. It keeps the body of a request that offers another protocol. It lets
# the client read an answer that is sent before the end of the body. It sends each answer in one packet.
log = event_log(__name__)

MAX_UNFRAMED_BYTES = 32 * 1024
"""Bytes of headers, trailers or chunk extensions in a row. nginx has four buffers of 8 KiB for the headers of a
request (ngx_http_core_module, large_client_header_buffers)."""
MAX_HEADERS = 100
"""Headers of a request: each takes up to 200 bytes of memory besides its own. Apache reads as many (httpd manual,
LimitRequestFields)."""
MAX_PIPELINED = 16
MAX_REFUSED = 50
"""Connections above the limit that stay open until they are answered 503."""
_MARGIN_SECONDS = 1.0
"""Time that is added to the endpoint's read time-out, which starts at the end of the headers. If the headers take
longer than this, the connection is closed before the endpoint answers 408."""
_LINGER_SECONDS = 2.0
"""How long the rest of a request is read and discarded after an early answer."""


_FAULT = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\nretry-after: %d\r\nconnection: close\r\n\r\n"
    % RETRY_AFTER_SECONDS
)
_INVALID = "Invalid HTTP request received."


class JoiningTransport:
    """A transport that joins its writes and sends them at the end of the event loop's turn, as uvloop does.

    While a request is still arriving, it closes in two steps. To close at once would reset the connection, and the
    client might not see the answer (RFC 9112, section 9.6).
    """

    def __init__(self, transport: asyncio.Transport, protocol: "BoundedProtocol") -> None:
        self._transport = transport
        self._protocol = protocol
        self._loop = protocol.loop
        self._parts: list[bytes] = []
        self.lingers = False
        """Whether our end of the connection is closed and the client's end is still open."""

    def write(self, data: bytes) -> None:
        """Write at the end of this turn."""
        if self.lingers:
            return  # a closed connection ignores writes too
        if not self._parts:
            self._loop.call_soon(self._flush)
        self._parts.append(data)

    def write_now(self, data: bytes) -> bool:
        """Write a whole answer at once, and tell whether that was still possible."""
        if self.lingers or self._transport.is_closing():
            return False
        if self._parts:
            self._parts.append(data)
            self._flush()
        else:
            self._transport.write(data)
        return True

    def close(self) -> None:
        """Close when everything is written. Wait a short time for the rest of the request."""
        self._flush()
        if self._protocol.is_between_requests or self.is_closing() or not self._transport.can_write_eof():
            self._end()
            return
        self.lingers = True
        self._transport.write_eof()
        self._transport.resume_reading()
        self._loop.call_later(_LINGER_SECONDS, self._end)

    def _end(self) -> None:
        """Close. A client that does not read its answers has some time for it; asyncio would wait for ever."""
        self._transport.close()
        if self._transport.get_write_buffer_size():
            self._loop.call_later(self._protocol.seconds_for_client, self._transport.abort)

    def is_closing(self) -> bool:
        """Tell whether writes are no longer possible."""
        return self.lingers or self._transport.is_closing()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def _flush(self) -> None:
        if self._parts and not self._transport.is_closing():  # uvloop raises RuntimeError if the client reset it
            self._transport.write(b"".join(self._parts))
        self._parts.clear()


def _size_of_head(url: bytes, headers: Iterable[tuple[bytes, bytes]]) -> int:
    return len(url) + sum(len(name) + len(value) for name, value in headers)


def _close(connection: "BoundedProtocol") -> None:
    connection.transport.close()


async def _too_many(scope: Scope, receive: Receive, send: Send) -> None:
    detail = "there are too many connections now; send it again"
    if scope["method"] == "POST" and delivery_refused.receivers:
        at = SystemClock().now()
        delivery_refused.emit(DeliveryRefused(at=at, status=503, reason="connections", detail=detail))
    await send_reply(unavailable(detail, (b"connection", b"close")), send)


async def _wrong_host(scope: Scope, receive: Receive, send: Send) -> None:
    detail = "a request must have exactly one Host header"  # RFC 9112, section 3.2
    await send_reply(reply(400, {"error": "bad_request", "detail": detail}, (b"connection", b"close")), send)


async def _too_large_head(scope: Scope, receive: Receive, send: Send) -> None:
    scope["headers"].clear()  # a client that does not close the connection would keep them here
    detail = f"a request may have {MAX_HEADERS} headers and {MAX_UNFRAMED_BYTES} bytes of headers"
    too_large = {"error": "headers_too_large", "detail": detail}  # RFC 6585, section 5
    await send_reply(reply(431, too_large, (b"connection", b"close")), send)


class BoundedProtocol(HttpToolsProtocol):
    """Closes a connection if its request arrives too slowly or its headers are too long or too many.

    Above the limit on connections, each new connection closes the one that has been idle for the longest time.
    """

    read_seconds = 4.0
    """The read time-out. The server sets it."""
    most_connections = 2_000
    """The server sets it. Further ones are answered 503; uvicorn's own limit would not send Retry-After."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._served = self.app
        self.idle: Deadlines[BoundedProtocol] = vars(self.server_state).setdefault(
            "idle", Deadlines(self.timeout_keep_alive, _close)
        )
        """The server's connections that wait for a request, the longest idle first."""
        self._crowd_rate: LineRate = vars(self.server_state).setdefault(
            "crowd_rate", LineRate(log, "connections_refused", logging.WARNING)
        )
        self.joining: JoiningTransport
        """The transport, once there is a connection."""
        self.offered: list[tuple[bytes, bytes]] | None = None
        """The headers of a request that offers another protocol, until a parser has read them without the offer."""
        self.head_is_too_large = False
        """Whether the headers of the current request take more memory than they may."""
        self._unframed = 0
        self._fed = 0
        """Bytes of the piece that is parsed now."""
        self._in_head = False
        self._complete = True
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wrap the transport, start the timer for the first request, and apply the limit on connections."""
        self.joining = JoiningTransport(transport, self)
        super().connection_made(cast("asyncio.Transport", self.joining))
        self._start_timer()
        self.idle.add(self)
        if len(self.connections) > self.most_connections and len(self.idle) > 1:
            longest_idle = self.idle.first()
            self.idle.discard(longest_idle)
            self.connections.discard(longest_idle)  # at once: uvloop reports the lost connection some turns later
            longest_idle.transport.close()
        elif len(self.connections) > self.most_connections + MAX_REFUSED:
            self.transport.abort()  # there may be no file descriptors for more

    def data_received(self, data: bytes) -> None:
        """Feed the parser, and set the timer if the request is not complete."""
        if self.joining.lingers:
            return
        self.idle.discard(self)
        if self._timer is not None and self._complete and not self.flow.write_paused:
            self._stop_timer()  # a new request has its full time
        self._fed = len(data)
        self._unframed += self._fed
        self._complete = False
        self._unset_keepalive_if_required()
        try:
            self._parse(data)
        except (httptools.HttpParserError, UnicodeDecodeError):
            self.logger.warning(_INVALID)
            self.send_400_response(_INVALID)
        except Exception as exc:
            self._refuse_for_fault(exc)
            return
        if self._complete:
            if self._timer is not None and not self.flow.write_paused:
                self._stop_timer()
        elif self._unframed > MAX_UNFRAMED_BYTES or self._has_too_many_lines():
            self._stop_timer()
            self.transport.abort()
        else:
            self.wait_for_rest()

    def wait_for_rest(self) -> None:
        """Start the timer of an incomplete request, unless it runs."""
        if self._timer is None:
            self._start_timer()

    def _parse(self, data: bytes) -> None:
        """Parse the bytes, which calls the methods below. An error of theirs is raised as it is.

        This also reads the body of a request that offers another protocol (Upgrade), as some proxies do. httptools
        reads the bytes after the headers as the other protocol (parser.pyx, cb_on_headers_complete). A server may
        ignore the offer (RFC 9110, section 7.8). So a new parser gets the headers without the offer, and then the
        rest of the request.
        """
        try:
            self.parser.feed_data(data)
            return
        except httptools.HttpParserUpgrade as stop:
            (offset,) = stop.args
        except httptools.HttpParserCallbackError as wrapper:
            raise wrapper.__context__ or wrapper from None
        if self.offered is not None and not self.transport.is_closing():  # else CONNECT, which has no body
            head = self.head_without_offer()
            self.parser = httptools.HttpRequestParser(self)
            self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn does
            self._parse(head + data[offset:])

    def on_message_begin(self) -> None:
        """Note that a request begins. It may be in the same piece as the end of the one before."""
        self._complete = False
        self._in_head = True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Start the app."""
        self.end_head()
        self.begin_request()

    def end_head(self) -> None:
        """Note that all headers have arrived, and whether they are too large."""
        self._in_head = False
        # What has arrived with the head may be a body, or a request before it, so more is nearly always no fault.
        may_be = self._unframed > MAX_UNFRAMED_BYTES or self._fed > MAX_UNFRAMED_BYTES or self.offered is not None
        self.head_is_too_large = len(self.headers) > MAX_HEADERS or (
            may_be and _size_of_head(self.url, self.headers) > MAX_UNFRAMED_BYTES
        )
        self._unframed = 0

    def begin_request(self) -> None:
        """Start the app, or abort if too many pipelined requests wait: no other limit counts their bytes."""
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

    @property
    def seconds_for_client(self) -> float:
        """How long a client may take to send a request, and to read its answers."""
        return self.read_seconds + _MARGIN_SECONDS

    def pause_writing(self) -> None:
        """Start the timer: a client that does not read its answers gets as much time as one that does not send."""
        super().pause_writing()
        self._stop_timer()
        self._start_timer()

    def resume_writing(self) -> None:
        """Stop the timer if no request is incomplete: the client reads its answers again."""
        super().resume_writing()
        if self._complete:
            self._stop_timer()

    def on_body(self, body: bytes) -> None:
        """Reset the count of header bytes: the last bytes belong to a body."""
        self._unframed = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Note that the whole request has arrived."""
        if self.offered is not None:
            return  # the parser calls this before it has read the body
        self._unframed = 0
        self._complete = True
        super().on_message_complete()
        self.rest()  # the answer may have come before the end of the request

    def on_response_complete(self) -> None:
        """Mark the connection as idle if no further request is arriving on it."""
        super().on_response_complete()
        self.rest()

    def rest(self) -> None:
        """Mark the connection as idle if no further request is arriving on it, and forget the last one."""
        is_answered = self.cycle is None or self.cycle.response_complete
        if self._complete and is_answered and not self.joining.is_closing():
            # Idle connections stay open for long, and anybody may open many.
            self.url, self.headers = b"", []
            self.scope = self.cycle = cast("Any", None)
            self.idle.add(self)

    @property
    def is_between_requests(self) -> bool:
        """Whether no request has arrived in part."""
        return self._complete

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timer."""
        self._stop_timer()
        self.idle.discard(self)
        super().connection_lost(exc)

    def _has_too_many_lines(self) -> bool:
        """Tell whether no more headers, or trailers behind them, are to be kept."""
        return len(self.headers or ()) > (MAX_HEADERS if self._in_head else 2 * MAX_HEADERS)

    def _refuse_for_fault(self, fault: Exception) -> None:
        log.error("request_failed", exc_info=None if isinstance(fault, MemoryError) else fault)
        self._stop_timer()
        if self.cycle is not None and self.cycle.response_started:
            self.transport.abort()
            return
        self.transport.write(_FAULT)
        self.transport.close()

    def _app_for_request(self) -> ASGIApp:
        if self.head_is_too_large:
            return _too_large_head
        hosts = sum(name == b"host" for name, _ in self.headers)
        if hosts > 1 or (hosts == 0 and self.parser.get_http_version() == "1.1"):
            return _wrong_host
        crowded = self._crowded()
        if crowded and self._crowd_rate.allows("connections"):
            log.warning("too_many_connections")
        return _too_many if crowded else self._served

    def _crowded(self) -> bool:
        # Pipelined requests can be more than connections; this request is not yet among the tasks.
        return len(self.connections) > self.most_connections or len(self.tasks) >= self.most_connections

    def _start_timer(self) -> None:
        self._timer = self.loop.call_later(self.seconds_for_client, self.transport.abort)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class DirectEndpoint(Protocol):
    """Answers a POST without ASGI: `WebhookEndpoint` describes it."""

    def begin(
        self,
        raw_headers: Sequence[tuple[bytes, bytes]],
        headers: Mapping[bytes, bytes],
        answer: Callable[[Reply], None],
        *,
        client: Client,
        target: str | bytes,
    ) -> Reception:
        """Begin to receive a request."""


class DirectProtocol(BoundedProtocol):
    """Serves plain POST requests for which `direct` returns an endpoint."""

    @staticmethod
    def direct(path: bytes) -> DirectEndpoint | None:
        """Return the endpoint of a path. The server sets it."""
        return None

    def wait_for_rest(self) -> None:
        """Start the read time-out of the body too."""
        super().wait_for_rest()
        if isinstance(self.cycle, DirectCycle) and self.cycle.reception is not None:
            self.cycle.reception.wait_for_body()

    def on_message_begin(self) -> None:
        """Begin a request. Only ASGI needs a scope."""
        self._complete = False
        self._in_head = True
        self.url = b""
        self.expect_100_continue = False
        self.headers = []

    def on_headers_complete(self) -> None:
        """Begin to receive a webhook request; leave any other to ASGI."""
        self.end_head()
        headers = dict(self.headers)
        endpoint = self._endpoint(headers)
        if endpoint is None:
            self._make_scope()
            self.begin_request()
            return
        keep_alive = self.parser.get_http_version() != "1.0" and self.parser.should_keep_alive()  # as uvicorn does
        cycle = DirectCycle(self, keep_alive=keep_alive)
        self.cycle = cast("Any", cycle)
        reception = endpoint.begin(self.headers, headers, cycle.answer, client=self.client, target=self.url)
        if not cycle.response_complete:
            cycle.reception = reception

    def on_body(self, body: bytes) -> None:
        """Give a piece of the body to the reception."""
        if isinstance(self.cycle, DirectCycle):
            self._unframed = 0
            if self.cycle.reception is not None:
                self.cycle.reception.grow(body)
        else:
            super().on_body(body)

    def on_message_complete(self) -> None:
        """Note that the whole request has arrived."""
        if isinstance(self.cycle, DirectCycle) and self.offered is None:
            self._unframed = 0
            self._complete = True
            if self.cycle.response_complete:
                self.rest()
            elif self.cycle.reception is not None:
                self.cycle.reception.complete()
        else:
            super().on_message_complete()

    def finish(self, cycle: "DirectCycle", reply: Reply) -> None:
        """Write the answer of a request."""
        head = [STATUS_LINE[reply.status]]
        for name, value in (*self.server_state.default_headers, *reply.headers):
            head += (name, b": ", value, b"\r\n")
        head.append(b"\r\n" if cycle.keep_alive else b"connection: close\r\n\r\n")
        if not self.joining.write_now(b"".join(head) + reply.body):
            return
        if not cycle.keep_alive:
            self.transport.close()
        if self.pipeline:
            self.on_response_complete()
            return
        self.server_state.total_requests += 1
        self.rest()  # uvicorn would make a timer for the idle connection

    def _endpoint(self, headers: Mapping[bytes, bytes]) -> DirectEndpoint | None:
        if self.offered is not None or b"upgrade" in headers or b"expect" in headers:
            return None
        if len(headers) != len(self.headers) or b"host" not in headers:
            return None  # a header that comes twice is rare, and may be wrong
        if self.head_is_too_large:
            return None
        if self.parser.get_method() != b"POST" or self._crowded() or self.transport.is_closing():
            return None
        if self.cycle is not None and not self.cycle.response_complete:
            return None  # a pipelined request has to wait
        if self.flow.write_paused:
            return None  # uvicorn waits until the client has read the answers before
        return self.direct(self.url)

    def _make_scope(self) -> None:
        url, headers, expects = self.url, self.headers, self.expect_100_continue
        HttpToolsProtocol.on_message_begin(self)
        self.url, self.expect_100_continue = url, expects
        self.headers += headers


class DirectCycle:
    """A request without ASGI, in the place of uvicorn's own cycle: the protocol asks both the same questions."""

    __slots__ = ("_protocol", "disconnected", "keep_alive", "reception", "response_complete")

    def __init__(self, protocol: DirectProtocol, *, keep_alive: bool) -> None:
        self._protocol = protocol
        self.keep_alive = keep_alive
        self.response_complete = False
        self.disconnected = False
        self.reception: Reception | None = None

    @property
    def response_started(self) -> bool:
        """Whether a part of the answer was written: all of it is written at once."""
        return self.response_complete

    @property
    def message_event(self) -> "DirectCycle":
        """What uvicorn sets when the connection is lost."""
        return self

    def set(self) -> None:
        """Note that the sender has gone."""
        if self.reception is not None:
            self.reception.abandon()
            self.reception = None

    def answer(self, reply: Reply) -> None:
        """Write the answer."""
        self.response_complete = True
        self.reception = None  # which knows this cycle; the garbage collector would have to find both
        self._protocol.finish(self, reply)
