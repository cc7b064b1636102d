"""A transport that records what a protocol does with it."""

import asyncio
from typing import Any


class Notes(asyncio.Transport):
    """A transport that records the calls of its methods."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.aborted = asyncio.Event()
        self.closed = False
        self.half_closed = False
        self.unread = 0
        self.reads = True

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return the default, because this transport has no socket."""
        return default

    def write(self, data: Any) -> None:
        """Record the bytes. Raise RuntimeError after the end, as uvloop does."""
        if self.is_closing():
            raise RuntimeError("the handler is closed")
        self.written += bytes(data)

    def abort(self) -> None:
        """Record the call."""
        self.aborted.set()

    def close(self) -> None:
        """Record the call."""
        self.closed = True

    def is_closing(self) -> bool:
        """Return whether the transport was closed or aborted."""
        return self.closed or self.aborted.is_set()

    def can_write_eof(self) -> bool:
        """Return True, as a TCP transport does."""
        return True

    def write_eof(self) -> None:
        """Record the call."""
        self.half_closed = True

    def get_write_buffer_size(self) -> int:
        """Return how many bytes the client has not read."""
        return self.unread

    def pause_reading(self) -> None:
        """Record the call."""
        self.reads = False

    def resume_reading(self) -> None:
        """Record the call."""
        self.reads = True
