"""A worker that runs out of file descriptors or memory stops in time, and names who may have used them up."""

import asyncio
import logging
import resource
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from receiver.core.clock import Clock
from receiver.signals.contracts import AttemptStarted, attempt_started

log = logging.getLogger(__name__)

INTERVAL = timedelta(seconds=1)
_NEARLY_MOST = 0.9
"""Handlers that always run beside each other cannot be told apart; all of them are named."""
_MEBIBYTE = 1024 * 1024
_PROCESS = Path("/proc/self")
_OPEN_FILES = Path("/dev/fd")


@dataclass(frozen=True, slots=True)
class Usage:
    """What this process uses now. `memory` is in bytes, and 0 where the system does not tell."""

    files: int
    max_files: int
    memory: int


def measure() -> Usage:
    """Return what this process uses now."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        files = sum(1 for _ in _OPEN_FILES.iterdir())
    except OSError:  # to look needs a descriptor, too
        files = soft
    try:
        pages = int((_PROCESS / "statm").read_text().split()[1])
    except OSError:  # not Linux, or no descriptor
        pages = 0
    return Usage(files, sys.maxsize if soft == resource.RLIM_INFINITY else soft, pages * resource.getpagesize())


class Exhaustion:
    """Compares what this process uses with what it may use, again and again.

    Growth between two looks is put down to the handlers that have begun an attempt in between, or to those before
    them if none has.
    """

    def __init__(self, max_memory: int, measure: Callable[[], Usage] = measure) -> None:
        self._max_memory = max_memory
        self._measure = measure
        self._last = measure()
        self._begun: set[str] = set()
        self._ran: set[str] = set()
        self._files: Counter[str] = Counter()
        self._memory: Counter[str] = Counter()
        self.found = False
        """Whether the worker has been stopped for it."""

    async def watch(self, stop: asyncio.Event, clock: Clock) -> None:
        """Look until this process is about to run out of something; then tell it and set `stop`."""
        attempt_started.observe(self.note)
        try:
            while not self.look():
                await clock.sleep(INTERVAL)
            self.found = True
            stop.set()
        finally:
            attempt_started.disconnect(self.note)

    def note(self, record: AttemptStarted) -> None:
        """Note that a handler begins."""
        self._begun.add(record.handler)

    def look(self) -> bool:
        """Tell whether this process is about to run out of something, also in the log."""
        now = self._measure()
        self._ran, self._begun = self._begun or self._ran, set()
        for handler in self._ran:
            self._files[handler] += now.files - self._last.files
            self._memory[handler] += now.memory - self._last.memory
        self._last = now
        if now.files > now.max_files - max(16, now.max_files // 16):
            self._tell(f"{now.files} of at most {now.max_files} files are open", self._files)
            return True
        if now.memory > self._max_memory:
            used, most = now.memory // _MEBIBYTE, self._max_memory // _MEBIBYTE
            self._tell(f"{used} MiB of memory are in use, and MAX_MEMORY is {most} MiB", self._memory)
            return True
        return False

    def _tell(self, reason: str, growth: Counter[str]) -> None:
        most = max(growth.values(), default=0)
        suspects = sorted(name for name, size in growth.items() if size > 0 and size >= most * _NEARLY_MOST)
        advice = "the worker gives its work back and starts again; look at what these handlers open or keep"
        log.error("worker_exhausted", extra={"reason": reason, "suspects": suspects, "advice": advice})
