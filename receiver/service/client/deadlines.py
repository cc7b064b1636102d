"""The time limit of a whole call, for plain connections. Async ones have `asyncio.timeout`."""

import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import httpx

from receiver.core.clock import Clock

_CONNECTED = (".connect_tcp.complete", ".start_tls.complete")
_SLICE = 16 * 1024
"""The bytes of one write. The system takes this many at once, so a slow reader cannot stretch a write."""


class CallDeadlines:
    """Ends every read and write of a thread when the time of its call is over.

    httpx limits each single read. A server that sends one byte now and then, in its headers, in 1xx answers or
    between chunks, would hold a call for ever. httpx has no limit for a whole request (its manual, Timeouts).
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._call = threading.local()

    @contextmanager
    def within(self, duration: timedelta) -> Iterator[None]:
        """Limit what this thread reads and writes in the block: after the duration it raises TimeoutError.

        It does not matter whether somebody sets the clock meanwhile.
        """
        self._call.until = self._clock.steady() + duration
        try:
            yield
        finally:
            self._call.until = None

    def watch(self, request: httpx.Request) -> None:
        """Limit the connection of a request; an event hook of httpx."""
        request.extensions["trace"] = self._trace

    def _trace(self, event: str, info: dict[str, Any]) -> None:
        """Limit a new connection, which later requests share (httpcore's documentation, Extensions, "trace")."""
        if event.endswith(_CONNECTED):
            stream = info["return_value"]
            stream.read = functools.partial(self._read, stream.read)
            stream.write = functools.partial(self._write, stream.write)

    def _read(self, read: Callable[..., bytes], max_bytes: int, timeout: float | None = None) -> bytes:
        return read(max_bytes, timeout=self._left(timeout))

    def _write(self, write: Callable[..., None], buffer: bytes, timeout: float | None = None) -> None:
        for start in range(0, len(buffer), _SLICE):
            write(buffer[start : start + _SLICE], timeout=self._left(timeout))

    def _left(self, timeout: float | None) -> float | None:
        """Return the seconds that are left, at most the time-out of a single read or write."""
        until = getattr(self._call, "until", None)
        if until is None:
            return timeout
        left: float = (until - self._clock.steady()).total_seconds()
        if left <= 0:
            raise TimeoutError
        return left if timeout is None else min(left, timeout)
