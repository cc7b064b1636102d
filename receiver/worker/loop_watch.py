"""Finds async handlers that block the event loop of a worker."""

import asyncio
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime

from receiver.core.clock import Clock
from receiver.core.line_rate import Seldom
from receiver.core.log_lines import event_log
from receiver.core.tracebacks import place_in
from receiver.worker.lateness import MAKE_IT_PLAIN, TOLD_EVERY
from receiver.worker.runner import handler_in

log = event_log(__name__)

LOOKS = 3
"""The loop is blocked when it has not answered for this many looks. A thread looks once a second, so a worker that
was suspended or got no processor does not count as blocked."""


class LoopWatch:
    """Logs a handler that blocks the event loop, while it does so and when it has ended.

    Code in C that lets no other thread run cannot be seen. It does nothing before `start`.
    """

    def __init__(self, clock: Clock, wake: Callable[[Callable[[], None]], object], thread: int) -> None:
        """`wake` makes a call soon in the event loop, from any thread; `thread` is the id of the loop's own."""
        self._clock = clock
        self._wake = wake
        self._thread = thread
        self._told = Seldom(TOLD_EVERY)
        self._asked_at: datetime | None = None
        self._looks = 0
        self._blocking: str | None = None
        """The handler that is told, or the place in code that no handler awaits, until the loop answers."""

    @classmethod
    def of_running_loop(cls, clock: Clock) -> "LoopWatch":
        """Return a watch of the event loop that runs in this thread."""
        return cls(clock, asyncio.get_running_loop().call_soon_threadsafe, threading.get_ident())

    def start(self) -> None:
        """Watch from now on, until the process ends or the loop is closed."""
        threading.Thread(target=self._look_for_ever, name="loop watch", daemon=True).start()

    @property
    def waits(self) -> bool:
        """Whether the loop has still to answer."""
        return self._asked_at is not None

    def look(self) -> None:
        """Look once: ask the loop for an answer, or log who has kept it from answering."""
        if self._asked_at is None:
            self._asked_at, self._looks = self._clock.steady(), 0
            self._wake(self._answer)
            return
        self._looks += 1
        if self._looks < LOOKS or self._blocking is not None:
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
        """Note in the event loop that it runs again."""
        if self._blocking is not None:
            log.warning("event_loop_free", extra={"by": self._blocking, "seconds": self._seconds()})
        self._asked_at = self._blocking = None

    def _seconds(self) -> float:
        asked_at = self._asked_at
        return 0.0 if asked_at is None else (self._clock.steady() - asked_at).total_seconds()

    def _look_for_ever(self) -> None:
        with suppress(RuntimeError):  # the loop is closed
            while True:
                time.sleep(1)
                self.look()
