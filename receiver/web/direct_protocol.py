"""The HTTP protocol that hands the requests of the webhook to its endpoint directly, without ASGI.

uvicorn makes a scope, an event, a cycle and a task for each request, and ASGI has a message for each part of it.
Together they take twice as long as the webhook itself. All other requests go the usual way.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, cast

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from receiver.web.http_protocol import BoundedProtocol
from receiver.web.reception import Client, Reception
from receiver.web.replies import Reply


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
