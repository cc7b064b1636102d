"""Where plain functions run: a pool of threads, and a pool of processes, each of which can be killed."""

import asyncio
import os
import pickle
import signal
import socket
import struct
import sys
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, Protocol, TypeVar

from receiver.core.clock import Clock, time_limit
from receiver.core.deliveries import StoredDelivery
from receiver.core.types import HandlerName
from receiver.runtime.processes import end_of, leave_terminal
from receiver.worker.attempts import NoProcess, ProcessDied, Raised, RaisedElsewhere

T = TypeVar("T")


class Threads(Protocol):
    """Runs calls in other threads, as `HandlerThreads` and every Executor do."""

    def submit(self, call: Callable[[], None], /) -> object:
        """Run the call soon. The call does not raise."""


class HandlerThreads:
    """At most `count` threads, started when needed, that take the calls in order.

    They are daemons: a function that hangs does not keep the program from ending. An Executor would make a future
    with a lock for each call, which is not needed here.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._started = 0
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()

    def submit(self, call: Callable[[], None], /) -> None:
        """Run the call in the next free thread. Raises RuntimeError and drops the call if no thread can start."""
        if self._started < self._count:
            self._start_one()
        self._calls.put(call)

    def stop(self) -> None:
        """Drop calls that have not started. Each thread ends after its present call."""
        with suppress(Empty):
            while True:
                self._calls.get_nowait()
        for _ in range(self._started):
            self._calls.put(None)

    def _start_one(self) -> None:
        try:
            Thread(target=self._run, name=f"handler_{self._started + 1}", daemon=True).start()
        except RuntimeError:  # this process cannot start threads now; a later call tries again
            if not self._started:
                raise
        else:
            self._started += 1

    def _run(self) -> None:
        # Nothing of a call stays in a variable while the thread waits: its event can be large.
        while self._run_next():
            pass

    def _run_next(self) -> bool:
        call = self._calls.get()
        if call is None:
            return False
        call()
        return True


class ThreadResults:
    """Runs functions in threads, and brings their results to the event loop: as many as there are with each wake-
    up.

    A wake-up of the event loop is a system call.
    """

    def __init__(self, threads: Threads) -> None:
        self._threads = threads
        self._ended: deque[tuple[asyncio.Future[Any], object]] = deque()
        self._woken = False

    def run(self, function: Callable[[], T]) -> "asyncio.Future[T]":
        """Run a function that does not raise. Cancelling the future does not stop the function."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._threads.submit(partial(self._run_one, function, loop, future))
        return future

    def _run_one(
        self, function: Callable[[], Any], loop: asyncio.AbstractEventLoop, future: "asyncio.Future[Any]"
    ) -> None:
        self._ended.append((future, function()))
        if not self._woken:  # two threads that wake the loop at the same time do no harm
            self._woken = True
            with suppress(RuntimeError):  # the event loop was closed, and no call waits
                loop.call_soon_threadsafe(self._resolve)

    def _resolve(self) -> None:
        self._woken = False  # before the results are taken: a later one needs a wake-up of its own
        while self._ended:
            future, result = self._ended.popleft()
            if not future.done():  # the attempt may have been cancelled
                future.set_result(result)


SIZE = struct.Struct("!Q")
"""A message is its size and then its bytes."""


@dataclass(frozen=True, slots=True)
class Paths:
    """The first message to a process: the folders in which modules are found."""

    folders: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """To a process: call this function with the event of the delivery, or with a list of events if `batched`.

    `log_fields` name the attempt in its log lines. `trace` is the trace of the call, empty without traces.
    """

    module: str
    qualname: str
    batched: bool
    sources: tuple[StoredDelivery, ...]
    log_fields: Mapping[str, object]
    trace: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RoutingCall:
    """To a process: ask these handlers of a router whether they want the deliveries, and for the lanes of those.

    `handlers` names the router as the setting does, and `folder` is where it is found. The answers do not come
    back: what matters is whether the process lives on.
    """

    handlers: str
    folder: str
    names: tuple[HandlerName, ...]
    sources: tuple[StoredDelivery, ...]


Call = FunctionCall | RoutingCall


@dataclass(frozen=True, slots=True)
class NumberedCall:
    """To a process: make this call. Every answer to it has its number, which no other call of the process has."""

    number: int
    call: Call


@dataclass(frozen=True, slots=True)
class CallStarted:
    """From a process: the function has been found and is called now."""

    number: int


@dataclass(frozen=True, slots=True)
class CallDone:
    """From a process: the function has returned or raised."""

    number: int
    raised: Raised | None


def write_message(message: Paths | NumberedCall | CallStarted | CallDone) -> bytes:
    """Return the bytes of a message, with its size in front."""
    content = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    return SIZE.pack(len(content)) + content


def read_message(content: bytes) -> Any:
    """Return the message in these bytes, which follow its size."""
    return pickle.loads(content)  # noqa: S301 - both ends are ours


START_LIMIT = timedelta(minutes=5)
"""For a process to start and import the function: the first import of a large library takes long."""
_REAP_SECONDS = 1
_CONFUSED = "answered another call, so it was killed"


class _WrongAnswer(Exception):
    """A process sent something that does not answer its call. What has become of the call is unknown."""


class Processes:
    """At most `size` processes. One is started when a call finds none idle, and is kept for the next call.

    A process runs one call at a time: no other call suffers when it dies or is killed. All end when this is closed.
    Each has the other end of a socket of ours, and ends when this process dies. If C code keeps the interpreter
    lock then, the kernel ends it half a minute later, on Linux.
    """

    # This is not a ProcessPoolExecutor: if one of its processes dies, all calls of the pool fail, no call can be
    # ended at its time-out, and its processes outlive a worker that is killed.

    def __init__(self, clock: Clock, command: Sequence[str], *, size: int) -> None:
        """`command` starts a process that answers calls on the socket whose descriptor is its last argument."""
        self._clock = clock
        self._command = command
        self._slots = asyncio.Semaphore(size)
        self._idle: list[_Child] = []
        self._all: set[_Child] = set()

    async def run(self, call: Call, started: Callable[[], None]) -> None:
        """Make a call, report when the function starts, and return when it has returned.

        Raises RaisedElsewhere if it raised, ProcessDied if its process did not survive it, and NoProcess if no
        process came to run it. A process whose call is cancelled, or that answers another call, is killed.
        """
        async with self._slots:
            child = await self._take()
            try:
                raised = await child.run(call, started, self._clock)
            except BaseException:
                child.kill()
                raise
            self._idle.append(child)
        if raised is not None:
            raise RaisedElsewhere(raised)

    async def aclose(self) -> None:
        """End every process."""
        self._idle.clear()
        for child in self._all:
            child.kill()
        if self._all:
            await asyncio.wait([child.ended for child in self._all])

    async def _take(self) -> "_Child":
        while self._idle:
            child = self._idle.pop()
            if child.lives:
                return child
            child.kill()
        try:
            child = await _Child.start(self._command)
        except OSError as exc:
            raise NoProcess(f"none could be started: {exc.strerror}") from exc
        self._all.add(child)
        child.ended.add_done_callback(lambda _: self._all.discard(child))
        return child


class _Child:
    """One process and our end of the socket to it."""

    def __init__(
        self, process: asyncio.subprocess.Process, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._process = process
        self._reader = reader
        self._writer = writer
        self._number = 0
        self.ended = asyncio.create_task(process.wait())
        self.ended.add_done_callback(lambda _: self._end_with_programs())

    @classmethod
    async def start(cls, command: Sequence[str]) -> "_Child":
        """Start a process that finds modules in the same folders as this one."""
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                process = await asyncio.create_subprocess_exec(
                    *command,
                    str(theirs.fileno()),
                    stdin=asyncio.subprocess.DEVNULL,
                    pass_fds=(theirs.fileno(),),
                    preexec_fn=leave_terminal,  # Ctrl-C is for the worker, and a group can be killed as a whole
                )
            except BaseException:
                ours.close()
                raise
        reader, writer = await asyncio.open_unix_connection(sock=ours)
        writer.write(write_message(Paths(tuple(sys.path))))
        return cls(process, reader, writer)

    @property
    def lives(self) -> bool:
        """Return whether it can take a call, as far as is known."""
        return not self.ended.done() and not self._reader.at_eof()

    async def run(self, call: Call, started: Callable[[], None], clock: Clock) -> Raised | None:
        """Make a call. Return a description of what the function raised, or None."""
        ran = False
        self._number += 1
        try:
            async with time_limit(clock, START_LIMIT) as limit:
                self._writer.write(write_message(NumberedCall(self._number, call)))
                await self._writer.drain()
                answer = await self._receive()
                if isinstance(answer, CallStarted):
                    started()
            if isinstance(answer, CallStarted):
                ran = True
                answer = await self._receive()
            if not isinstance(answer, CallDone):
                raise _WrongAnswer
        except (asyncio.IncompleteReadError, ConnectionError, _WrongAnswer) as exc:
            how = _CONFUSED if isinstance(exc, _WrongAnswer) else await self._how_it_ended()
            if not ran:
                raise NoProcess(f"the one that was to run it {how}") from None
            raise ProcessDied(f"the process that ran it {how}") from None
        except TimeoutError:
            if limit.expired():
                raise NoProcess(f"none had imported it after {START_LIMIT}") from None
            raise
        return answer.raised

    def kill(self) -> None:
        """Kill it now, and all programs that it has started."""
        if not self.ended.done():
            self._kill_group()
        self._writer.close()

    def _end_with_programs(self) -> None:
        """End what the function has started, now that its process has ended: that may keep the socket open."""
        self._kill_group()  # while programs are in it, no new process gets its number (POSIX, fork())
        self._writer.transport.abort()

    def _kill_group(self) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    async def _receive(self) -> CallStarted | CallDone:
        (size,) = SIZE.unpack(await self._reader.readexactly(SIZE.size))
        message: CallStarted | CallDone = read_message(await self._reader.readexactly(size))
        if message.number != self._number:
            raise _WrongAnswer  # what a function has forked may answer for it later
        return message

    async def _how_it_ended(self) -> str:
        await asyncio.wait([self.ended], timeout=_REAP_SECONDS)
        if not self.ended.done():
            return "closed its connection"
        code = self.ended.result()
        return f"{'ended with' if code >= 0 else 'was'} {end_of(code)}"


@asynccontextmanager
async def open_processes(clock: Clock, size: int, *, log_level: str, json_logs: bool) -> AsyncIterator[Processes]:
    """Open a pool of processes for functions. They end with the block, and log in the given form."""
    log_format = "json" if json_logs else "text"
    command: Sequence[str] = (sys.executable, "-P", "-m", "receiver.worker.calls.child", log_level, log_format)
    processes = Processes(clock, command, size=size)
    try:
        yield processes
    finally:
        await processes.aclose()
