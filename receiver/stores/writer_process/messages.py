"""What a web process and its writer say to each other: frames of MessagePack over a pair of sockets.

The writer begins with `Opened`, or with `WriterFailed` if it cannot open the store. Then it answers each
`LogBatch`, in order, by `Written` or `WriterFailed`.
"""

import asyncio
import socket
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import cast

import msgspec

from receiver.core.deliveries import Delivery, Quarantined, Receipt
from receiver.core.ports.log import LogItem, Probe
from receiver.core.types import AppendOutcome
from receiver.runtime.log_lines import event_log

log = event_log(__name__)

_PIECE = 64 * 1024
"""Bytes that are read at one time."""
_ON_ITS_WAY = 4 * 1024 * 1024
"""Bytes that the system may keep until the other process reads them. Linux allows `net.core.wmem_max` (socket(7)).
With the usual 208 KiB, bodies of 50 KB are acknowledged a sixth less often: their batches wait for the writer."""
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
    if len(written.outcomes) != sum(isinstance(item, Delivery) for item in items):
        raise RuntimeError("not one outcome for each delivery")
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


class Frames:
    """Writes frames to a socket, and hands the message of each that comes to `take`; for an event loop.

    A frame is written at once, as much of it as the other process has room for, and not at the end of the loop's
    turn. `end` is called once: when the other process has closed the socket or has ended, or when this is closed.
    """

    def __init__(self, connection: socket.socket, take: Callable[[Message], None], end: Callable[[], None]) -> None:
        connection.setblocking(False)
        with suppress(OSError):  # Linux gives what it allows, other systems may refuse
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _ON_ITS_WAY)
        self._connection = connection
        self._take = take
        self._end = end
        self._loop = asyncio.get_running_loop()
        self._come = bytearray()
        self._unsent: deque[memoryview] = deque()
        self._loop.add_reader(connection, self.look)

    def send(self, message: Message) -> None:
        """Send a message, unless the other process has ended."""
        if self._is_closed:
            return
        waits = bool(self._unsent)
        self._unsent += map(memoryview, _frame(message))
        if not waits:
            self._send_unsent()

    def look(self) -> None:
        """Take the messages that have come. This raises nothing: what is not a message ends the connection."""
        try:
            while not self._is_closed and (come := self._connection.recv(_PIECE)):
                self._come += come
                self._take_complete()
        except BlockingIOError:
            return
        except Exception as exc:
            if not isinstance(exc, OSError):  # which the end of the other process is
                log.exception("batch_not_written")
        self.close()

    def close(self) -> None:
        """Close the socket; what was not sent is lost."""
        if not self._is_closed:
            self._loop.remove_reader(self._connection)
            self._loop.remove_writer(self._connection)
            self._connection.close()
            self._unsent.clear()
            self._end()

    @property
    def _is_closed(self) -> bool:
        return self._connection.fileno() < 0

    def _send_unsent(self) -> None:
        try:
            while self._unsent:
                self._drop_sent(self._connection.sendmsg(self._unsent))
        except BlockingIOError:
            self._loop.add_writer(self._connection, self._send_unsent)
        except OSError:
            self._loop.call_soon(self._take_last)  # not within `send`: the answer is not owed yet
        else:
            self._loop.remove_writer(self._connection)

    def _take_last(self) -> None:
        """Take what the other process has sent before it ended."""
        self.look()
        self.close()

    def _drop_sent(self, count: int) -> None:
        while count:
            first = self._unsent.popleft()
            if len(first) > count:
                self._unsent.appendleft(first[count:])
                return
            count -= len(first)

    def _take_complete(self) -> None:
        while len(self._come) >= _HEADER:
            end = _HEADER + int.from_bytes(self._come[:_HEADER], "little")
            if len(self._come) < end:
                return
            message = _decoder.decode(self._come[_HEADER:end])
            del self._come[:end]
            self._take(message)
