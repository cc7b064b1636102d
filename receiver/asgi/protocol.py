"""uvicorn's HTTP protocol with the two limits it does not have: on header bytes, and on a request's slowness.

Without them one client could grow a header without end, or hold a connection with half a request for ever. And
where uvicorn writes the head and the body of an answer apart, this sends them together, in one packet.
"""

import asyncio
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_MOST_UNFRAMED = 64 * 1024
"""Bytes of headers, trailers or chunk extensions in a row. Node's own limit for a sender's headers is 16 KiB."""
_MOST_PIPELINED = 16
_MARGIN_SECONDS = 1.0
"""By this the endpoint's own read time-out comes first, and can say 408."""


class _Together:
    """A transport whose writes go out in one piece at the end of the event loop's turn, as uvloop's do."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._parts: list[bytes] = []

    def write(self, data: bytes) -> None:
        """Write at the end of this turn."""
        if not self._parts:
            self._loop.call_soon(self._flush)
        self._parts.append(data)

    def close(self) -> None:
        """Close once everything is written."""
        self._flush()
        self._transport.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def _flush(self) -> None:
        if self._parts:
            self._transport.write(b"".join(self._parts))
            self._parts.clear()


class BoundedProtocol(HttpToolsProtocol):
    """Closes a connection whose request is too slow to arrive or whose headers are too long."""

    read_seconds = 4.0
    """Set by the server to the read time-out."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._unframed = 0
        self._complete = True
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Send answers in one piece, and wait no longer for a first request than for the rest of one."""
        super().connection_made(cast("asyncio.Transport", _Together(transport, self.loop)))
        self._start_timer()

    def data_received(self, data: bytes) -> None:
        """Feed the parser, then look at what is still missing."""
        if self._complete:
            self._stop_timer()  # a request begins, with all of its own time
        self._unframed += len(data)
        self._complete = False
        super().data_received(data)
        if self._complete:
            self._stop_timer()
        elif self._unframed > _MOST_UNFRAMED:
            self._stop_timer()
            self.transport.abort()
        elif self._timer is None:
            self._start_timer()

    def on_headers_complete(self) -> None:
        """Hang up on a client that asks far ahead of the answers: what waits there is counted nowhere."""
        if len(self.pipeline) >= _MOST_PIPELINED:
            self.transport.abort()
        if not self.transport.is_closing():
            super().on_headers_complete()

    def pause_writing(self) -> None:
        """Give a client that does not read its answers as long as one that does not write its request."""
        super().pause_writing()
        self._stop_timer()
        self._start_timer()

    def resume_writing(self) -> None:
        """Go on."""
        super().resume_writing()
        self._stop_timer()

    def on_body(self, body: bytes) -> None:
        """Note that what came was framed as a body."""
        self._unframed = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Note that a request has arrived in whole."""
        self._unframed = 0
        self._complete = True
        super().on_message_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the timer."""
        self._stop_timer()
        super().connection_lost(exc)

    def _start_timer(self) -> None:
        self._timer = self.loop.call_later(self.read_seconds + _MARGIN_SECONDS, self.transport.abort)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
