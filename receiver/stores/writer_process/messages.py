"""What a web process and its writer tell each other: frames of MessagePack over a pair of sockets.

The writer begins with `Opened`, or with `WriterFailed` if it cannot open the store. Then it answers each
`LogBatch`, in order, by `Written` or `WriterFailed`.
"""

import asyncio
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import cast

import msgspec

from receiver.core.deliveries import Delivery, Receipt
from receiver.core.ports.log import LogItem, Probe
from receiver.core.quarantine import Quarantined
from receiver.core.types import AppendOutcome

_HEADER = 4
"""Bytes before each frame: its length, the lowest byte first."""


class LogBatch(msgspec.Struct, tag=True):
    """What shall be written in one transaction."""

    deliveries: list[Delivery]
    """In the order of their arrival."""
    quarantined: list[Quarantined]
    """Requests to keep in quarantine."""
    probes: list[Probe]
    """Writes of readiness checks."""


class Opened(msgspec.Struct, tag=True):
    """The store is open."""


class Written(msgspec.Struct, tag=True):
    """A batch is durable."""

    outcomes: list[AppendOutcome]
    """One for each delivery, in order."""


class WriterFailed(msgspec.Struct, tag=True):
    """Nothing of a batch was kept, or the store could not be opened."""

    reason: str
    """Words for the operator."""
    is_final: bool = False
    """Whether waiting cannot help."""


Message = LogBatch | Opened | Written | WriterFailed

_encode: Callable[[Message], bytes] = msgspec.msgpack.Encoder().encode
_decoder = msgspec.msgpack.Decoder(Message)


def batch_of(items: Sequence[LogItem]) -> LogBatch:
    """Return the message for these items."""
    batch = LogBatch([], [], [])
    for item in items:
        if isinstance(item, Delivery):
            batch.deliveries.append(item)
        elif isinstance(item, Quarantined):
            batch.quarantined.append(item)
        else:
            batch.probes.append(item)
    return batch


def results_of(items: Sequence[LogItem], written: Written) -> list[Receipt | None]:
    """Return what became of each item: a Receipt for each delivery, None for the others."""
    outcomes = iter(written.outcomes)
    return [Receipt(item.key, next(outcomes)) if isinstance(item, Delivery) else None for item in items]


def _frame(message: Message) -> tuple[bytes, bytes]:
    payload = _encode(message)
    return len(payload).to_bytes(_HEADER, "little"), payload


class FrameSocket:
    """Reads and writes frames in a thread that may wait for them: each call blocks."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(True)
        self._connection = connection

    def send(self, message: Message) -> None:
        """Send a message, unless the other process has ended."""
        with suppress(ConnectionError):
            self._connection.sendall(b"".join(_frame(message)))

    def receive(self) -> Message | None:
        """Return the next message; None when the other process has closed the socket, or has ended."""
        with suppress(ConnectionError, EOFError):
            length = int.from_bytes(self._read(_HEADER), "little")
            return cast("Message", _decoder.decode(self._read(length)))
        return None

    def _read(self, size: int) -> bytearray:
        buffer = bytearray(size)
        missing = memoryview(buffer)
        while missing:
            count = self._connection.recv_into(missing)
            if not count:
                raise EOFError
            missing = missing[count:]
        return buffer


class Frames(asyncio.BufferedProtocol):
    """Reads frames from a socket into memory of their own, and hands the message of each to `take`.

    `end` is called when the other process has closed the socket, or has ended.
    """

    def __init__(self, take: Callable[[Message], None], end: Callable[[], None]) -> None:
        self._take = take
        self._end = end
        self._buffer, self._is_header = bytearray(_HEADER), True
        self._missing = memoryview(self._buffer)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self.transport = cast("asyncio.Transport", transport)

    def send(self, message: Message) -> None:
        """Send a message, unless the other process has ended."""
        if self.transport.is_closing():  # uvloop would raise
            return
        for part in _frame(message):
            self.transport.write(part)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return where the next bytes belong."""
        return self._missing

    def buffer_updated(self, nbytes: int) -> None:
        """Go on behind the bytes that have come."""
        self._missing = self._missing[nbytes:]
        if self._missing:
            return
        complete, was_header = self._buffer, self._is_header
        if was_header:
            self._begin(bytearray(int.from_bytes(complete, "little")), is_header=False)
        else:
            self._begin(bytearray(_HEADER), is_header=True)
            self._take(_decoder.decode(complete))

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell that no more comes."""
        self._end()

    def _begin(self, buffer: bytearray, *, is_header: bool) -> None:
        self._buffer, self._is_header = buffer, is_header
        self._missing = memoryview(buffer)
