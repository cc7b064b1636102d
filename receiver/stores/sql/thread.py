"""A thread of its own for a connection whose driver blocks."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from threading import Thread
from typing import Any, TypeVar

T = TypeVar("T")


class ConnectionThread:
    """Runs functions one after the other, in the order of the calls.

    The thread is a daemon: a connection that nobody closed does not keep the process alive.
    """

    def __init__(self, name: str) -> None:
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread = Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def call(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """Run a function in the thread. Cancelling the future does not stop the function."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._calls.put(partial(_run_one, work, loop, future))
        return future

    def stop(self) -> None:
        """Let the thread end after the calls that were made so far."""
        self._calls.put(None)

    def join(self) -> None:
        """Return when the thread has ended."""
        self._thread.join()

    def _run(self) -> None:
        # Nothing of a call stays in a variable while the thread waits: a batch of bodies can be large.
        while self._run_next():
            pass

    def _run_next(self) -> bool:
        call = self._calls.get()
        if call is None:
            return False
        call()
        return True


def _run_one(work: Callable[[], Any], loop: asyncio.AbstractEventLoop, future: asyncio.Future[Any]) -> None:
    error: BaseException | None = None
    result = None
    try:
        result = work()
    except BaseException as exc:
        error = exc
    with suppress(RuntimeError):  # the event loop was closed, so nobody waits any more
        loop.call_soon_threadsafe(_resolve, future, result, error)


def _resolve(future: asyncio.Future[Any], result: object, error: BaseException | None) -> None:
    if future.done():  # the caller gave up
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)
