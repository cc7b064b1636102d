"""Keeps a process that writes running, and sends it batches."""

import asyncio
import signal
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, TypeVar

from receiver.core.deliveries import Receipt
from receiver.core.ports.log import DeliveryLog, LogItem
from receiver.errors import ConfigurationError, StoreError, StoreRefused
from receiver.runtime.log_lines import event_log
from receiver.runtime.processes import end_of
from receiver.stores import open_store
from receiver.stores.grouped_log import GroupedLog
from receiver.stores.writer_process.messages import Frames, Message, WriterFailed, Written, batch_of, results_of
from receiver.stores.writer_process.starting import END_SECONDS, StartedWriter, start_writer, writer_command

log = event_log(__name__)

T = TypeVar("T")

_PAUSE_SECONDS = 1.0
"""After the end of a process. Deliveries wait meanwhile, and the sender waits longer than this."""


class WriterProcess:
    """Runs `command`, to which the number of its socket is added, and starts it again when it ends by itself.

    `exists` returns whether the database is still there. A second process must not make a new one.
    """

    def __init__(
        self, command: Sequence[str], exists: Callable[[], bool], started: StartedWriter | None = None
    ) -> None:
        """`started` is a first process that runs already, by the same command."""
        self._command = tuple(command)
        self._started = started
        self._exists = exists
        self._channel: _Channel | None = None
        self._refusal: str | None = None
        self._changed = asyncio.Event()
        self._keeping: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start the first process. Raises StoreError or StoreRefused if it cannot open the store."""
        self._channel = await self._open()
        self._keeping = asyncio.create_task(self._keep_running(self._channel))

    async def stop(self, after: Coroutine[Any, Any, None]) -> None:
        """Let the process end when `after` has, and return then. A process that hangs is killed after some time.

        Batches that were not written fail with StoreError.
        """
        waiting = asyncio.create_task(after)
        await asyncio.wait([waiting], timeout=END_SECONDS)
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.wait([self._keeping])
        channel = self._channel
        self._note(None, "the server has stopped")
        if channel is not None:
            await channel.close()
        await waiting

    def write(self, items: Sequence[LogItem]) -> Awaitable[list[Receipt | None]]:
        """Send a batch, and return when it is durable: a Receipt for each delivery, None for the others.

        Raises StoreError when it was not kept, or when the process died with it. While a new process starts, the
        batch waits; it does not wait for a store that could not be opened again.
        """
        if self._channel is None or self._channel.has_ended:
            return self._write_later(items)
        return self._channel.write(items)

    def look(self) -> None:
        """Take the answers that have come during this turn of the event loop."""
        if self._channel is not None:
            self._channel.frames.look()

    async def _write_later(self, items: Sequence[LogItem]) -> list[Receipt | None]:
        while self._channel is None or self._channel.has_ended:
            if self._refusal is not None:
                raise StoreError(self._refusal)
            await self._changed.wait()
        return await self._channel.write(items)

    async def _keep_running(self, channel: "_Channel") -> None:
        while True:
            how = await channel.wait()
            self._note(None, None)
            log.error("writer_ended", extra={"how": how, "restart_in_s": _PAUSE_SECONDS})
            channel = await self._open_again()
            self._note(channel, None)

    async def _open_again(self) -> "_Channel":
        while True:
            await asyncio.sleep(_PAUSE_SECONDS)
            try:
                if not await asyncio.to_thread(self._exists):
                    raise StoreError("the database was moved or deleted; put it back or restart")
                return await self._open()
            except (StoreError, ConfigurationError) as exc:
                if self._refusal is None:
                    log.error("writer_refused", extra={"reason": str(exc)})
                self._note(None, str(exc))

    def _note(self, channel: "_Channel | None", refusal: str | None) -> None:
        self._channel, self._refusal = channel, refusal
        self._changed.set()
        self._changed.clear()

    async def _open(self) -> "_Channel":
        while True:
            started, self._started = self._started or start_writer(self._command), None
            channel = _Channel(started)
            try:
                await channel.open()
                return channel
            except _EndedEarly as exc:
                if exc.code not in (-signal.SIGTERM, -signal.SIGINT, -signal.SIGHUP):
                    how = end_of(exc.code)
                    raise StoreError(f"the writer process could not open the store: {how}") from None
                # A platform signals all processes, and this one did not ignore it yet: the web process decides.
            except BaseException:
                await channel.close()
                raise


class _EndedEarly(Exception):
    """The process has ended before it has opened the store."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class _Channel:
    """A process that writes, and the answers that it owes."""

    def __init__(self, started: StartedWriter) -> None:
        self._process = started.process
        self._owed: deque[tuple[asyncio.Future[Any], Callable[[Message], object]]] = deque()
        self._ended = asyncio.Event()
        self.frames = Frames(started.connection, self._take, self._end)

    @property
    def has_ended(self) -> bool:
        """Whether the process has closed its socket, or has ended."""
        return self._ended.is_set()

    async def open(self) -> None:
        """Return when it has opened the store. Raises StoreError, StoreRefused or _EndedEarly if it has not."""
        try:
            await self._answer(_opened)
        except _Died:
            raise _EndedEarly(await self._reap()) from None

    def write(self, items: Sequence[LogItem]) -> asyncio.Future[list[Receipt | None]]:
        """Send a batch, and return when it is durable. Raises StoreError if it is not."""
        self.frames.send(batch_of(items))
        return self._answer(partial(_receipts, items))

    async def wait(self) -> str:
        """Return how the process ended, when it has."""
        await self._ended.wait()
        return end_of(await self._reap())

    async def close(self) -> None:
        """Let the process end, and return when it has."""
        self.frames.close()
        await self._reap()

    async def _reap(self) -> int:
        """Return the exit code of the process, which has closed its socket or has to see that we did."""
        try:
            async with asyncio.timeout(END_SECONDS):
                return await asyncio.to_thread(self._process.wait)
        except TimeoutError:
            log.error("writer_killed", extra={"reason": "it did not end in time"})
            self._process.kill()
            return await asyncio.to_thread(self._process.wait)

    def _answer(self, read: Callable[[Message], T]) -> asyncio.Future[T]:
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._owed.append((answer, read))
        return answer

    def _take(self, message: Message) -> None:
        answer, read = self._owed.popleft()
        if answer.done():
            return
        try:
            answer.set_result(read(message))
        except Exception as exc:
            answer.set_exception(exc)

    def _end(self) -> None:
        self._ended.set()
        for answer, _ in self._owed:
            if not answer.done():
                answer.set_exception(
                    _Died("the writer process died; deliveries in flight may or may not be stored")
                )
        self._owed.clear()


class _Died(StoreError):
    """The process has ended, and owes an answer."""


def _opened(answer: Message) -> None:
    if isinstance(answer, WriterFailed):
        raise StoreRefused(answer.reason) if answer.is_final else StoreError(answer.reason)


def _receipts(items: Sequence[LogItem], answer: Message) -> list[Receipt | None]:
    if isinstance(answer, WriterFailed):
        raise StoreError(answer.reason)
    if not isinstance(answer, Written):
        raise TypeError(f"not an answer to a batch: {answer!r}")
    return results_of(items, answer)


_AT_ONCE = 2
"""While the writer syncs one batch, the next one is on its way to it already."""
PART = 32
"""So many of the deliveries of one turn go to the writer before the turn ends, so that both processes work. The
senders of one batch come back together: without this, one process would wait for the other. While it writes, fewer
wait for more: beside a worker that is worth 8 % of the acks at 1 KB."""
MAX_ITEMS = 512 // _AT_ONCE
"""Deliveries in one batch."""
MAX_BYTES = 8 * 1024 * 1024 // _AT_ONCE
"""Bytes in one batch, so that small deliveries do not wait for many large ones."""


@asynccontextmanager
async def open_writer_process(
    store: str, *, log_level: str, json_logs: bool, started: StartedWriter | None = None
) -> AsyncIterator[DeliveryLog]:
    """Open the store at this address for appending, in another process that ends with the block.

    It is the one that was `started` for this, by the same command, or a new one.
    Raises what opening the store raises. A process that dies is started again; a batch that it had fails with
    StoreError, as it may or may not be stored. One that hangs is killed at the end.
    """
    command = writer_command(store, log_level=log_level, json_logs=json_logs)
    writer = WriterProcess(command, open_store(store).exists, started)
    await writer.start()
    appending = GroupedLog(
        writer.write, max_items=MAX_ITEMS, max_bytes=MAX_BYTES, at_once=_AT_ONCE, part=PART, look=writer.look
    )
    try:
        yield appending
    finally:
        await writer.stop(after=appending.aclose())
