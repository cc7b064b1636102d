"""Stops a worker before it runs out of file descriptors or memory, and logs which handlers may be the cause."""

import asyncio
import resource
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from receiver.core.clock import Clock
from receiver.core.log_lines import event_log
from receiver.core.sizes import shown_size
from receiver.core.types import HandlerName

log = event_log(__name__)

INTERVAL = timedelta(seconds=1)
_NEARLY_MOST = 0.9
"""A handler is a suspect if its growth is at least this share of the largest growth of a handler."""
_LEAK = "check which files and data these handlers keep open"
_LIMIT = "no handler ran while it grew: the limit may be too low for this worker"
_PROCESS = Path("/proc/self")
_OPEN_FILES = Path("/dev/fd")


@dataclass(frozen=True, slots=True)
class Usage:
    """The files and the memory that a process uses. `memory` is in bytes, or 0 if the system does not report it."""

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


class Exhaustion:
    """Compares the files and memory that this process uses with its limits, once per interval.

    Growth between two checks counts for the handlers that started an attempt in between. If no handler did, it
    counts for the handlers of the last interval with a start.
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
        """Whether a limit was reached and the worker has been asked to stop."""

    async def watch(self, stop: asyncio.Event, clock: Clock) -> None:
        """Check until a limit is reached. Then set `stop`."""
        while not self.check():
            await clock.sleep(INTERVAL)
        self.found = True
        stop.set()

    def note(self, handler: HandlerName) -> None:
        """Note that a handler starts an attempt."""
        # No signal: making its record takes as long as a twentieth of a quick attempt.
        self._started.add(handler)

    def check(self) -> bool:
        """Return whether a limit is reached. If so, log an error with the suspects."""
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
