"""What strains a worker: handlers that block its event loop, and files and memory that run out."""

import asyncio
import resource
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from receiver.core.clock import Clock
from receiver.core.types import HandlerName
from receiver.core.units import shown_size
from receiver.runtime.log_lines import Seldom, event_log
from receiver.runtime.tracebacks import place_in
from receiver.worker.attempts import MAKE_IT_PLAIN, TOLD_EVERY
from receiver.worker.calls.runner import handler_in

log = event_log(__name__)

MAX_MISSED = 3
"""A loop that has not answered for so many checks is blocked. A thread checks once a second: a worker that was
suspended or got no processor does not count as blocked."""


class LoopWatch:
    """Logs a handler that blocks the event loop, and the end of that. It does nothing before `start`.

    It cannot see code in C that lets no other thread run.
    """

    def __init__(self, clock: Clock, wake: Callable[[Callable[[], None]], object], thread: int) -> None:
        """`wake` makes a call soon in the event loop, from any thread. `thread` is the id of the loop's own."""
        self._clock = clock
        self._wake = wake
        self._thread = thread
        self._told = Seldom(TOLD_EVERY)
        self._asked_at: datetime | None = None
        self._missed = 0
        self._blocking: str | None = None
        """The logged handler, or place in code that no handler awaits, until the loop answers."""

    @classmethod
    def of_running_loop(cls, clock: Clock) -> "LoopWatch":
        """Return a watch of the event loop that runs in this thread."""
        return cls(clock, asyncio.get_running_loop().call_soon_threadsafe, threading.get_ident())

    def start(self) -> None:
        """Watch from now on, until the process ends or the loop is closed."""
        threading.Thread(target=self._check_for_ever, name="loop watch", daemon=True).start()

    @property
    def waits(self) -> bool:
        """Return whether the loop has still to answer."""
        return self._asked_at is not None

    def check(self) -> None:
        """Ask the loop for an answer, or log what keeps it from answering."""
        if self._asked_at is None:
            self._asked_at, self._missed = self._clock.steady(), 0
            self._wake(self._answer)
            return
        self._missed += 1
        if self._missed < MAX_MISSED or self._blocking is not None:
            return
        frame = sys._current_frames().get(self._thread)
        handler, where = handler_in(frame), place_in(frame)
        del frame  # it would keep the event in memory
        blocking = handler or where
        if blocking and self._told.allows(blocking, self._clock.steady()):
            self._blocking = blocking
            fields = {"handler": handler, "where": where, "seconds": self._seconds(), "advice": MAKE_IT_PLAIN}
            log.warning("event_loop_blocked", extra=fields)

    def _answer(self) -> None:
        """Note, in the event loop, that it runs."""
        if self._blocking is not None:
            log.warning("event_loop_free", extra={"by": self._blocking, "seconds": self._seconds()})
        self._asked_at = self._blocking = None

    def _seconds(self) -> float:
        asked_at = self._asked_at
        return 0.0 if asked_at is None else (self._clock.steady() - asked_at).total_seconds()

    def _check_for_ever(self) -> None:
        with suppress(RuntimeError):  # the loop is closed
            while True:
                time.sleep(1)
                self.check()


INTERVAL = timedelta(seconds=1)
_NEARLY_MOST = 0.9
"""A handler with at least this share of the largest growth may be the cause."""
_LEAK = "check which files and data these handlers keep open"
_LIMIT = "no handler ran while it grew: the limit may be too low for this worker"
_PROCESS = Path("/proc/self")
_OPEN_FILES = Path("/dev/fd")


@dataclass(frozen=True, slots=True)
class Usage:
    """The files and the memory that a process uses; `memory` is in bytes, 0 if the system does not report it."""

    files: int
    max_files: int
    memory: int


def measure() -> Usage:
    """Return the files and the memory that this process uses now."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        files = sum(1 for _ in _OPEN_FILES.iterdir())
    except OSError:  # reading the folder needs a free descriptor
        files = soft
    try:
        pages = int((_PROCESS / "statm").read_text().split()[1])
    except OSError:  # not Linux, or no free descriptor
        pages = 0
    return Usage(files, sys.maxsize if soft == resource.RLIM_INFINITY else soft, pages * resource.getpagesize())


class UsageWatch:
    """Stops a worker before it runs out of files or memory, and logs which handlers may be the cause.

    Growth between two checks counts for the handlers that started an attempt in between, or else for those of the
    last interval with a start.
    """

    def __init__(self, max_memory: int, measure: Callable[[], Usage] = measure) -> None:
        self._max_memory = max_memory
        self._measure = measure
        self._last = measure()
        self._started: set[str] = set()
        self._ran: set[str] = set()
        self._files: Counter[str] = Counter()
        self._memory: Counter[str] = Counter()
        self.found = False
        """A limit was reached, and the worker was asked to stop."""

    async def watch(self, stop: asyncio.Event, clock: Clock) -> None:
        """Check once per `INTERVAL` until a limit is reached. Then set `stop`."""
        while not self.check():
            await clock.sleep(INTERVAL)
        self.found = True
        stop.set()

    def note(self, handler: HandlerName) -> None:
        """Note that a handler starts an attempt."""
        # Not by a signal, whose record takes a twentieth of the time of a quick attempt.
        self._started.add(handler)

    def check(self) -> bool:
        """Return whether a limit is reached. If so, log an error that names the probable causes."""
        now = self._measure()
        self._ran, self._started = self._started or self._ran, set()
        for handler in self._ran:
            self._files[handler] += now.files - self._last.files
            self._memory[handler] += now.memory - self._last.memory
        self._last = now
        if now.files > now.max_files - max(16, now.max_files // 16):
            self._report(f"{now.files} of at most {now.max_files} files are open", self._files)
            return True
        if now.memory > self._max_memory:
            used, most = shown_size(now.memory), shown_size(self._max_memory)
            self._report(f"{used} of memory are in use, and MAX_MEMORY is {most}", self._memory)
            return True
        return False

    def _report(self, reason: str, growth: Counter[str]) -> None:
        most = max(growth.values(), default=0)
        suspects = sorted(name for name, size in growth.items() if size > 0 and size >= most * _NEARLY_MOST)
        advice = "the worker releases its work and restarts; " + (_LEAK if suspects else _LIMIT)
        log.error("worker_exhausted", extra={"reason": reason, "suspects": suspects, "advice": advice})
