"""The threads for handlers that are plain functions."""

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, Protocol, TypeVar

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
