"""The HTTP protocol of our server: the webhook is answered by its endpoint directly, all else through ASGI.

For each request ASGI needs a scope, an event, a task, and a message for each part. Together they take twice as
long as the webhook itself. The limits on header bytes, slow requests and idle connections keep a client from
sending an endless header, or keeping a connection for ever.

A protocol class in `uvicorn.Config(http=...)` gets a config and a state, and has `shutdown`. This uses `loaded_app`
of the one, what `_State` lists of the other, and no other part of uvicorn.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from http import HTTPStatus
from typing import Any, Protocol
from urllib.parse import unquote

import httptools
from starlette.types import ASGIApp, Message, Scope
from typing_extensions import override
from uvicorn import Config

from receiver.core.clock import SystemClock
from receiver.runtime.log_lines import LineRate, event_log
from receiver.signals.contracts import DeliveryRefused, delivery_refused
from receiver.web.reception import Client, Deadlines, Reception, WebhookEndpoint, sender_fields
from receiver.web.replies import Reply, reply, unavailable

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
_MAX_UNREAD = 64 * 1024
"""Bytes of a body that an ASGI app has not asked for. With more, nothing is read from the connection."""

_STATUS_LINES = {int(status): b"HTTP/1.1 %d %b\r\n" % (status, status.phrase.encode()) for status in HTTPStatus}
_FORBIDDEN_IN_HEADERS = (b"\r", b"\n", b"\0")
_HEAD_LIMITS = f"a request may have {MAX_HEADERS} headers and {MAX_UNFRAMED_BYTES} bytes of headers"
_INVALID = "this is not a valid HTTP request"
_TOO_MANY = "there are too many connections now; send it again"

_FAULT = unavailable("the request could not be answered; send it again")
_CROWDED = unavailable(_TOO_MANY)
_NO_HTTP = reply(400, {"error": "bad_request", "detail": _INVALID})
_WRONG_HOST = reply(400, {"error": "bad_request", "detail": "a request must have exactly one Host header"})
_LARGE_HEAD = reply(431, {"error": "headers_too_large", "detail": _HEAD_LIMITS})  # RFC 6585, section 5


class _State(Protocol):
    """What the connections of a uvicorn server share."""

    connections: set[Any]
    tasks: set[asyncio.Task[None]]
    default_headers: list[tuple[bytes, bytes]]
    total_requests: int


class Connections:
    """What all connections of one server share: their limits, and which of them are idle."""

    def __init__(
        self,
        *,
        read_seconds: float = 4.0,
        idle_seconds: float = 75.0,
        most: int = 2_000,
        direct: Callable[[bytes], WebhookEndpoint | None] = lambda path: None,
    ) -> None:
        """More connections than `most` are answered 503. `direct` returns the endpoint of a path, if it has one."""
        self.direct = direct
        self.most = most
        self.seconds_for_client = read_seconds + _MARGIN_SECONDS
        """How long a client may take to send a request, and to read its answers."""
        self._idle_seconds = idle_seconds
        self.crowd_rate = LineRate(log, "connections_refused", logging.WARNING)
        self.refusal_rate = LineRate(log, "deliveries_refused", logging.WARNING)

    @cached_property
    def idle(self) -> "Deadlines[HttpProtocol]":
        """The connections that wait for a request, the longest idle first."""
        return Deadlines(self._idle_seconds, HttpProtocol.close)


class HttpProtocol(asyncio.Protocol):
    """One connection. It reads requests, and writes their answers in the same order.

    Above the limit on connections, each new connection closes the one that has been idle for the longest time. A
    client that has sent a part of a request, or does not read its answers, has a limited time.
    """

    shared: Connections
    """The subclass of a server has it."""

    def __init__(
        self,
        config: Config,
        server_state: _State,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self._app = config.loaded_app
        self._state = server_state
        self._app_state = app_state
        self._loop = _loop or asyncio.get_running_loop()
        self._parser: Any = self._new_parser()
        """None when nothing more is read."""
        self.transport: asyncio.Transport
        self._client: Client = None
        self._timer: asyncio.TimerHandle | None = None
        """It ends the connection."""

        self.url = b""
        self.headers: list[tuple[bytes, bytes]] = []
        """Those of the request whose head arrives, or its trailers."""
        self.is_between_requests = True
        """Whether no request has arrived in part."""
        self._offered: list[tuple[bytes, bytes]] | None = None
        """The headers of a request that offers another protocol, until a parser has read them without the offer."""
        self._unframed = 0
        """Bytes that have arrived in a row and belong to no body."""
        self._fed = 0
        """Bytes of the piece that is parsed now."""

        self._receiving: AsgiRequest | Reception | None = None
        """The request that needs the rest of its body."""
        self._answering: AsgiRequest | Reception | None = None
        """The request whose answer comes next."""
        self._pipeline: deque[AsgiRequest | Reply] = deque()
        """What is answered after it."""
        self.keep_alive = True
        """Whether the connection stays open after the last request that has arrived."""

        self._parts: list[bytes] = []
        """What is written at the end of this turn of the event loop."""
        self._lingers = False
        """Whether our end of the connection is closed and the client's end is still open."""
        self._is_reading = True
        self.writable: asyncio.Event | None = None
        """Set when the client has read enough of its answers; None while it does."""

    # What the event loop and the server call

    @override
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.transport = transport
        peer = transport.get_extra_info("peername")
        self._client = (str(peer[0]), int(peer[1])) if isinstance(peer, tuple) else None
        connections, idle = self._state.connections, self.shared.idle
        connections.add(self)
        self._start_timer()
        idle.add(self)
        if len(connections) > self.shared.most and len(idle) > 1:
            longest_idle = idle.first()
            idle.discard(longest_idle)
            connections.discard(longest_idle)  # at once: uvloop reports the loss some turns later
            longest_idle.close()
        elif len(connections) > self.shared.most + MAX_REFUSED:
            transport.abort()  # there may be no file descriptors for more

    @override
    def data_received(self, data: bytes) -> None:
        if self.is_closing or self._parser is None:
            return
        self.shared.idle.discard(self)
        if self._timer is not None and self.is_between_requests and self.writable is None:
            self._stop_timer()  # a new request has its full time
        self._fed = len(data)
        self._unframed += self._fed
        self.is_between_requests = False
        self._feed(data)
        if self.is_closing:
            return
        if self.is_between_requests:
            if self._timer is not None and self.writable is None:
                self._stop_timer()
        elif self._unframed > MAX_UNFRAMED_BYTES or len(self.headers) > MAX_HEADERS:
            self.transport.abort()
        else:
            if self._timer is None:
                self._start_timer()
            if isinstance(self._receiving, Reception):
                self._receiving.wait_for_body()

    @override
    def pause_writing(self) -> None:
        self.writable = asyncio.Event()
        if not self.is_closing:  # a client that does not read has as much time as one that does not send
            self._stop_timer()
            self._start_timer()

    @override
    def resume_writing(self) -> None:
        if self.writable is not None:
            self.writable.set()
            self.writable = None
        if self.is_between_requests and not self.is_closing:
            self._stop_timer()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        self.shared.idle.discard(self)
        self._state.connections.discard(self)
        if self._answering is not None:
            self._answering.abandon()
        # The garbage collector would find what refers to itself too late: it does not count the bytes of headers.
        self._parser = self._receiving = self._answering = None
        self._pipeline.clear()
        self._parts.clear()
        self.url, self.headers = b"", []
        if self.writable is not None:
            self.writable.set()

    def shutdown(self) -> None:
        """Close the connection; after the answers to the requests that have arrived, if there are any."""
        if self._answering is None:
            self.close()
        else:
            self.keep_alive = False

    # What the parser calls

    def on_message_begin(self) -> None:
        """Note that a request begins. It may be in the same piece as the end of the one before."""
        self.is_between_requests = False
        self.url, self.headers = b"", []

    def on_url(self, url: bytes) -> None:
        """Take a part of the request's target in."""
        self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header in, or a trailer."""
        self.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """Begin to receive a request, or refuse it."""
        headers, by_name = self.headers, dict(self.headers)
        if self._offered is not None:
            headers, self._offered = self._offered, None  # the store keeps the headers as they were sent
        elif b"upgrade" in by_name and self._parser.should_upgrade():
            self._offered = headers
            return
        self.headers = []
        # What has arrived with the head may be a body, or a request before it, so more is nearly always no fault.
        may_be_large = max(self._unframed, self._fed) > MAX_UNFRAMED_BYTES or b"upgrade" in by_name
        is_large = len(headers) > MAX_HEADERS or (
            may_be_large
            and len(self.url) + sum(len(name) + len(value) for name, value in headers) > MAX_UNFRAMED_BYTES
        )
        self._unframed = 0
        if self.is_closing or not self.keep_alive:
            return  # it comes after the last request
        method, version = self._parser.get_method().decode("ascii"), self._parser.get_http_version()
        self.keep_alive = version != "1.0" and self._parser.should_keep_alive()
        refusal = _LARGE_HEAD if is_large else self._refusal(method, version, headers, by_name)
        if refusal is not None:
            self._refuse(_answer_to(method, refusal))
            return
        if method == "POST" and self._answering is None and self.writable is None and b"expect" not in by_name:
            endpoint = self.shared.direct(self.url)
            if endpoint is not None:
                reception = endpoint.begin(headers, by_name, self.finish, client=self._client, target=self.url)
                if not reception.done:
                    self._receiving = self._answering = reception
                return
        waits = by_name.get(b"expect", b"").lower() == b"100-continue"
        request = AsgiRequest(self, self._scope(method, version, headers), waits_for_100=waits)
        self._receiving = request
        if self._answering is None:
            self._start(request)
        elif len(self._pipeline) >= MAX_PIPELINED:  # no other limit counts their bytes
            self.transport.abort()
        else:
            self.pause_reading()
            self._pipeline.append(request)

    def on_body(self, body: bytes) -> None:
        """Give a piece of the body to its request, unless that is answered."""
        self._unframed = 0
        if self._receiving is not None:
            self._receiving.grow(body)

    def on_message_complete(self) -> None:
        """Note that the whole request has arrived."""
        if self._offered is not None:
            return  # the parser calls this before it has read the body
        self._unframed = 0
        self.is_between_requests = True
        if self._receiving is not None:
            receiving, self._receiving = self._receiving, None
            receiving.complete()
        elif self._lingers:
            self._end()
        else:
            self._rest()  # the answer came before the end of the request

    # Requests

    def _feed(self, data: bytes) -> None:
        """Parse the bytes. Refuse what is no HTTP, and answer a fault of ours."""
        try:
            self._parse(data)
        except (httptools.HttpParserError, UnicodeDecodeError):
            if self.shared.refusal_rate.allows("bad_request"):
                sender = sender_fields(self._client, self.url, dict(self.headers))
                log.warning("delivery_refused", extra={"reason": "bad_request", "detail": _INVALID, **sender})
            self._give_up(_NO_HTTP)
        except Exception as exc:
            log.error("request_failed", exc_info=None if isinstance(exc, MemoryError) else exc)
            self._give_up(_FAULT)

    def _parse(self, data: bytes) -> None:
        """Parse the bytes, which calls the methods above. An error of theirs is raised as it is.

        This also reads the body of a request that offers another protocol (Upgrade), as some proxies do. httptools
        reads the bytes after the headers as the other protocol (parser.pyx, cb_on_headers_complete). A server may
        ignore the offer (RFC 9110, section 7.8). So a new parser gets the headers without the offer, and then the
        rest of the request.
        """
        while True:
            try:
                self._parser.feed_data(data)
                return
            except httptools.HttpParserUpgrade as stop:
                (offset,) = stop.args
            except httptools.HttpParserCallbackError as wrapper:
                raise wrapper.__context__ or wrapper from None
            if self._offered is None or self.is_closing:
                return  # CONNECT, which has no body
            version = self._parser.get_http_version().encode()
            lines = [b"%b %b HTTP/%b" % (self._parser.get_method(), self.url, version)]
            lines += [b"%b: %b" % header for header in self._offered if header[0] != b"upgrade"]
            self._parser = self._new_parser()
            data = b"\r\n".join([*lines, b"", data[offset:]])

    def _new_parser(self) -> httptools.HttpRequestParser:
        parser = httptools.HttpRequestParser(self)
        parser.set_dangerous_leniencies(lenient_data_after_close=True)  # else it would call what follows no HTTP
        return parser

    def _refusal(
        self, method: str, version: str, headers: list[tuple[bytes, bytes]], by_name: Mapping[bytes, bytes]
    ) -> Reply | None:
        if len(by_name) < len(headers) or b"host" not in by_name:
            hosts = sum(name == b"host" for name, _ in headers)
            if hosts > 1 or (hosts == 0 and version == "1.1"):
                return _WRONG_HOST
        # Pipelined requests can be more than connections; this request is not yet among the tasks.
        if len(self._state.connections) <= self.shared.most and len(self._state.tasks) < self.shared.most:
            return None
        if self.shared.crowd_rate.allows("connections"):
            log.warning("too_many_connections")
        if method == "POST" and delivery_refused.receivers:
            at = SystemClock().now()
            delivery_refused.emit(DeliveryRefused(at=at, status=503, reason="connections", detail=_TOO_MANY))
        return _CROWDED

    def _scope(self, method: str, version: str, headers: list[tuple[bytes, bytes]]) -> Scope:
        target = httptools.parse_url(self.url)
        raw_path = target.path or b"/"
        path = raw_path.decode("ascii")
        local = self.transport.get_extra_info("sockname")
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": version,
            "method": method,
            "scheme": "http",
            "server": (str(local[0]), int(local[1])) if isinstance(local, tuple) else None,
            "client": self._client,
            "root_path": "",
            "path": unquote(path) if "%" in path else path,
            "raw_path": raw_path,
            "query_string": target.query or b"",
            "headers": headers,
            "state": self._app_state.copy(),
        }

    def _start(self, request: "AsgiRequest") -> None:
        self._answering = request
        task = self._loop.create_task(request.run(self._app))
        self._state.tasks.add(task)
        task.add_done_callback(self._state.tasks.discard)

    def _refuse(self, refusal: Reply) -> None:
        """Answer this after the requests before, and close the connection."""
        self.keep_alive = False
        if self._answering is None:
            self.finish(refusal)
        else:
            self._pipeline.append(refusal)

    def _give_up(self, refusal: Reply) -> None:
        """Read no more of what arrives, and refuse the request that it belongs to."""
        self._parser = None
        broken, self._receiving = self._receiving, None
        if broken is not None:
            broken.abandon()
            if broken is not self._answering:
                self._pipeline.pop()
            elif isinstance(broken, AsgiRequest) and broken.is_started:
                self.transport.abort()
                return
            else:
                self._answering = None
        self._refuse(refusal)

    # Answers

    def finish(self, reply: Reply) -> None:
        """Write a whole answer at once, and go on."""
        if not self.is_closing:
            answer = self.head(reply.status, reply.headers) + reply.body
            if self._parts:
                self._parts.append(answer)
                self._flush()
            else:
                self.transport.write(answer)
        self.go_on()

    def head(self, status: int, headers: Iterable[tuple[bytes, bytes]]) -> bytes:
        """Return the head of the next answer. It says whether the connection is closed after it."""
        head = [_STATUS_LINES.get(status) or b"HTTP/1.1 %d \r\n" % status]
        for name, value in (*self._state.default_headers, *headers):
            head += (name, b": ", value, b"\r\n")
        head.append(b"\r\n" if self.keep_alive or self._pipeline else b"connection: close\r\n\r\n")
        return b"".join(head)

    def end_with_this(self) -> None:
        """Close the connection after the next answer, whatever requests have arrived after that one."""
        self.keep_alive = False
        self._pipeline.clear()
        if self._receiving is not self._answering:
            self._receiving = None

    def write(self, data: bytes) -> None:
        """Write at the end of this turn of the event loop, as uvloop does: so that an answer is one packet."""
        if not self._parts:
            self._loop.call_soon(self._flush)
        self._parts.append(data)

    def go_on(self) -> None:
        """After an answer: close the connection, answer the next request, or wait for one."""
        if self._receiving is self._answering:
            self._receiving = None
        self._answering = None
        self._state.total_requests += 1
        if self.is_closing:
            return
        if self._pipeline:
            following = self._pipeline.popleft()
            self.resume_reading()
            if isinstance(following, Reply):
                self.finish(following)
            else:
                self._start(following)
        elif not self.keep_alive:
            self.close()
        else:
            self.resume_reading()
            self._rest()

    def _rest(self) -> None:
        """Mark the connection as idle if no further request is arriving on it, and forget the last one."""
        if self.is_between_requests and self._answering is None and not self.is_closing:
            # Idle connections stay open for long, and anybody may open many.
            self.url, self.headers = b"", []
            self.shared.idle.add(self)

    def pause_reading(self) -> None:
        """Read nothing more from the connection."""
        if self._is_reading:
            self._is_reading = False
            self.transport.pause_reading()

    def resume_reading(self) -> None:
        """Read from the connection again, unless further requests wait for their answers."""
        if not self._is_reading and not self._pipeline and not self.is_closing:
            self._is_reading = True
            self.transport.resume_reading()

    # The end of the connection

    @property
    def is_closing(self) -> bool:
        """Whether nothing more can be written."""
        return self._lingers or self.transport.is_closing()

    def close(self) -> None:
        """Close the connection when everything is written.

        While a request is still arriving, this has two steps. To close at once would reset the connection, and the
        client might not see the answer (RFC 9112, section 9.6).
        """
        self._flush()
        if self.is_between_requests or self.is_closing or not self.transport.can_write_eof():
            self._end()
            return
        self._lingers = True
        self.transport.write_eof()
        self.transport.resume_reading()
        self._stop_timer()
        self._timer = self._loop.call_later(_LINGER_SECONDS, self._end)

    def _end(self) -> None:
        """Close. A client that does not read its answers has some time for it; asyncio would wait for ever."""
        self._stop_timer()
        self.transport.close()
        if self.transport.get_write_buffer_size():
            self._start_timer()

    def _flush(self) -> None:
        if self._parts and not self.is_closing:  # uvloop raises RuntimeError if the client reset it
            self.transport.write(b"".join(self._parts))
        self._parts.clear()

    def _start_timer(self) -> None:
        self._timer = self._loop.call_later(self.shared.seconds_for_client, self.transport.abort)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class AsgiRequest:
    """A request that the ASGI app answers. Its body waits here until the app asks for it."""

    def __init__(self, protocol: HttpProtocol, scope: Scope, *, waits_for_100: bool) -> None:
        self._protocol: HttpProtocol | None = protocol
        """None when the client has gone."""
        self._scope = scope
        self._waits_for_100 = waits_for_100
        self._body = bytearray()
        self._has_more = True
        self._news = asyncio.Event()
        self.is_started = False
        """Whether a part of the answer was written."""
        self._is_finished = False
        self._is_chunked = False
        self._has_body = False
        """Whether the answer has a body: an app may send one that must not be there."""
        self._left: int | None = None
        """Bytes of the answer's body that the app has announced and not sent; None without a Content-Length."""

    def grow(self, chunk: bytes) -> None:
        """Take a piece of the body in."""
        self._body += chunk
        if len(self._body) > _MAX_UNREAD and self._protocol is not None:
            self._protocol.pause_reading()
        self._news.set()

    def complete(self) -> None:
        """Note that the body is complete."""
        self._has_more = False
        self._news.set()

    def abandon(self) -> None:
        """Report to the app that the client has gone."""
        self._protocol = None
        self._news.set()

    async def run(self, app: ASGIApp) -> None:
        """Let the app answer.

        If it fails, the answer is 503 and not 500, so that the sender tries again. If an answer has begun, the
        connection ends.
        """
        try:
            await app(self._scope, self._receive, self._send)
            if not self._is_finished and self._protocol is not None:
                log.error("request_failed", extra={"reason": "the app has not completed its answer"})
        except Exception as exc:
            log.error("request_failed", exc_info=None if isinstance(exc, MemoryError) else exc)
        finally:  # the server cancels it at its own end
            if not self._is_finished and self._protocol is not None:
                if self.is_started:
                    self._protocol.end_with_this()
                    self._protocol.close()
                else:
                    self._protocol.finish(_answer_to(self._scope["method"], _FAULT))

    async def _receive(self) -> Message:
        if self._protocol is not None and not self._is_finished:
            if self._waits_for_100 and not self.is_started:
                self._protocol.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            self._waits_for_100 = False
            self._protocol.resume_reading()
            await self._news.wait()
            self._news.clear()
        if self._protocol is None or self._is_finished:
            return {"type": "http.disconnect"}
        body, self._body = bytes(self._body), bytearray()
        return {"type": "http.request", "body": body, "more_body": self._has_more}

    async def _send(self, message: Message) -> None:
        if self._protocol is not None and self._protocol.writable is not None:
            await self._protocol.writable.wait()
        if self._protocol is None:
            return
        expected = "http.response.body" if self.is_started else "http.response.start"
        if message["type"] != expected or self._is_finished:
            raise RuntimeError(f"the app sent {message['type']} where an answer has none")
        if not self.is_started:
            self._begin(self._protocol, message["status"], message.get("headers", ()))
        else:
            self._go_on(self._protocol, message.get("body", b""), has_more=message.get("more_body", False))

    def _begin(self, protocol: HttpProtocol, status: int, headers: Iterable[tuple[bytes, bytes]]) -> None:
        lines = [(name.lower(), value) for name, value in headers]
        if any(sign in part for line in lines for part in line for sign in _FORBIDDEN_IN_HEADERS):
            raise RuntimeError("a header of the answer has a line break")
        by_name = dict(lines)
        if b"close" in by_name.pop(b"connection", b"").lower():
            protocol.end_with_this()
        self._has_body = self._scope["method"] != "HEAD" and status not in (204, 304)
        if self._has_body and b"content-length" in by_name:
            self._left = int(by_name[b"content-length"])
        elif self._has_body and self._scope["http_version"] == "1.1":
            self._is_chunked = True
            lines.append((b"transfer-encoding", b"chunked"))
        self.is_started = True
        protocol.write(protocol.head(status, [line for line in lines if line[0] != b"connection"]))

    def _go_on(self, protocol: HttpProtocol, body: bytes, *, has_more: bool) -> None:
        if self._left is not None:
            self._left -= len(body)
            if self._left < 0 or (self._left > 0 and not has_more):
                raise RuntimeError("the body of the answer is not as long as its Content-Length")
        if self._is_chunked:
            body = (b"%x\r\n%b\r\n" % (len(body), body) if body else b"") + (b"" if has_more else b"0\r\n\r\n")
        if body and self._has_body:
            protocol.write(body)
        if not has_more:
            self._is_finished = True
            self._news.set()
            protocol.go_on()


def _answer_to(method: str, reply: Reply) -> Reply:
    """Return an answer without its body if the method is HEAD."""
    return reply if method != "HEAD" else reply._replace(body=b"")
