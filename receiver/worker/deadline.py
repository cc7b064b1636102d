"""The time-out of one attempt, which each heartbeat starts anew."""

from collections.abc import Callable
from datetime import datetime, timedelta

from receiver.core.clock import Clock, Timer

_NONE = timedelta(0)


class Deadline:
    """Makes one call when `timeout` has passed since the handler started, or since its last heartbeat.

    `start` and `beat` may be called from any thread, everything else in the event loop. No time counts before the
    start: a function that waits for a thread is not late. Who runs the function notes three things here: whether it
    has `waited` for anything, whether it `refused` to be cancelled, and whether it `ended_late` with a result.
    """

    __slots__ = (
        "_beat_at",
        "_clock",
        "_passed",
        "_since",
        "_started",
        "_timer",
        "ended_late",
        "late",
        "refused",
        "timeout",
        "waited",
    )

    def __init__(self, clock: Clock, timeout: timedelta) -> None:
        self.timeout = timeout
        self.late = False
        self.waited = self.refused = self.ended_late = False
        self._clock = clock
        self._started = False
        self._beat_at: datetime | None = None
        self._since: datetime | None = None
        self._passed: Callable[[], None] | None = None
        self._timer: Timer | None = None

    def watch(self, passed: Callable[[], None], *, started: bool) -> None:
        """Start watching, and call back once if time runs out. Time that has passed since `start` counts."""
        self._passed = passed
        if self._started:
            self._check()
        else:
            self._started = started
            self._timer = self._clock.call_later(self.timeout, self._check)

    def start(self) -> None:
        """Note that the function is called now. A function that never waits needs no watching."""
        self._since = self._beat_at = self._clock.steady()
        self._started = True

    def beat(self) -> None:
        """Start the time-out anew."""
        self._since = self._beat_at = self._clock.steady()

    def overrun(self) -> timedelta | None:
        """Return the time since the start or the last heartbeat if it is longer than the time-out, else None."""
        took = _NONE if self._since is None else self._clock.steady() - self._since
        return took if took > self.timeout else None

    def cancel(self) -> None:
        """Stop watching."""
        if self._timer is not None:
            self._timer.cancel()

    def _check(self) -> None:
        left = self._left()
        if left > _NONE:
            self._timer = self._clock.call_later(left, self._check)
        elif self._passed is not None:
            self.late = True
            self._passed()

    def _left(self) -> timedelta:
        if not self._started:
            return self.timeout
        beat_at, self._beat_at = self._beat_at, None
        if beat_at is None:
            return _NONE
        return beat_at + self.timeout - self._clock.steady()
