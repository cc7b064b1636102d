"""Stops a worker at a signal, and ends its process if the worker does not react."""

import asyncio
import logging
import os
import sys
import threading
import time
from contextlib import suppress
from datetime import timedelta

from receiver.core.log_lines import event_log

log = event_log("receiver.cli.work")


class Stopper:
    """Asks the worker to stop, and ends the process if the worker does not react.

    A worker cannot react while it imports handlers (it has no work then), or while a handler blocks the event loop.
    """

    def __init__(self, *, within: timedelta) -> None:
        self._within = within
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._process = os.getpid()
        self.asked, self._ask = os.pipe()
        """`asked` can be read after somebody has asked."""
        os.set_blocking(self._ask, False)

    def start(self) -> None:
        """Start the thread that passes the request on. It does nothing before somebody asks."""
        # A signal handler must not start this thread: it may have interrupted the start of another one.
        threading.Thread(target=self._watch, daemon=True).start()

    def attach(self, loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
        """Set the event loop, and the event in it that is set when somebody asks from now on."""
        self._loop, self._stop = loop, stop

    def ask(self, *_: object) -> None:
        """Ask the worker to stop. This works from any thread and as a signal handler, also inside of itself."""
        # A second signal may interrupt this anywhere. A lock, as in threading.Event, would then wait for ever for
        # the same thread; a byte in a pipe needs none.
        if os.getpid() != self._process:
            return  # a handler has forked, and its child must not stop this worker
        with suppress(OSError):  # the pipe is full of such requests
            os.write(self._ask, b"\0")

    def ask_at_end_of_input(self) -> None:
        """Ask the worker to stop when the supervisor has died and so the standard input ends."""
        while os.read(sys.stdin.fileno(), 1024):
            pass
        self.ask()

    def _watch(self) -> None:
        os.read(self.asked, 1)
        if self._loop is not None and self._stop is not None:
            with suppress(RuntimeError):  # the loop is closed: the worker has stopped already
                self._loop.call_soon_threadsafe(self._stop.set)
            time.sleep(self._within.total_seconds())
        log.error("worker_blocked", extra={"advice": "a handler or a resource blocks it; its work will run again"})
        logging.shutdown()
        os._exit(1)
