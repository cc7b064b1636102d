"""A limit on how long a call may block a thread.

No option of libpq ends a wait for a server that was stopped: its host still answers for it. So another thread shuts
the socket.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from threading import Condition, Thread


class StatementDeadline:
    """Ends blocks that take longer than `limit`, one at a time. Its thread is a daemon."""

    def __init__(self, limit: timedelta, name: str) -> None:
        self.limit = limit
        self._changed = Condition()
        self._until: float | None = None
        self._end: Callable[[], None] = lambda: None
        self._is_idle = False
        self._stopped = False
        Thread(target=self._watch, name=name, daemon=True).start()

    @contextmanager
    def over(self, end: Callable[[], None]) -> Iterator[None]:
        """Call `end` from another thread if the block takes too long."""
        with self._changed:
            self._until, self._end = time.monotonic() + self.limit.total_seconds(), end
            # Most blocks are short: a thread that was woken for each would cost more than they do.
            if self._is_idle:
                self._changed.notify()
        try:
            yield
        finally:
            with self._changed:
                self._until = None

    def stop(self) -> None:
        """Let the thread end."""
        with self._changed:
            self._stopped = True
            self._changed.notify()

    def _watch(self) -> None:
        with self._changed:
            while not self._stopped:
                if self._until is None:
                    self._is_idle = True
                    self._changed.wait()
                    self._is_idle = False
                elif (left := self._until - time.monotonic()) > 0:
                    self._changed.wait(left)
                else:
                    self._until = None
                    self._end()
