"""The time-out of one attempt, which each heartbeat starts anew, and what is logged when it cannot end a
handler."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta

from receiver.core.clock import Clock, Timer
from receiver.runtime.log_lines import Seldom, event_log
from receiver.worker.attempts import Claimed, TimedOut, log_fields

_NONE = timedelta(0)


class Deadline:
    """Makes one call when `timeout` has passed since the handler started, or since its last heartbeat.

    `start` and `beat` may be called from any thread, everything else in the event loop. Time counts from the start:
    a function that waits for a thread is not late. The runner notes here whether the function has `waited` for
    anything, `refused` to be cancelled, or `ended_late` with a result.
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
        """Call `passed` once if time runs out. Time since `start` counts."""
        self._passed = passed
        if self._started:
            self._check()
        else:
            self._started = started
            self._timer = self._clock.call_later(self.timeout, self._check)

    def start(self) -> None:
        """Note that the function is called now. One that never waits needs no `watch`."""
        self._since = self._beat_at = self._clock.steady()
        self._started = True

    def beat(self) -> None:
        """Start the time-out anew."""
        self._since = self._beat_at = self._clock.steady()

    def overrun(self) -> timedelta | None:
        """Return the time since the start or the last heartbeat if it exceeds the time-out, else None."""
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


log = event_log(__name__)

TOLD_EVERY = timedelta(minutes=10)
"""Time between two log lines about the same handler: a slow one may run thousands of times in an hour."""
MAKE_IT_PLAIN = "make it a plain function (def without async): then it runs in a thread, and nothing waits for it"


class LateHandlers:
    """Logs async handlers that end with a result after their time-out, each once in ten minutes."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._told = Seldom(TOLD_EVERY)

    def check(self, claimed: Sequence[Claimed], deadline: Deadline) -> None:
        """If a call that has just ended was late, note that in its deadline and log it."""
        took = deadline.overrun()
        if took is None and not deadline.refused:
            return
        deadline.ended_late = True
        if not self._told.allows(claimed[0].item.handler, self._clock.steady()):
            return
        reason, advice = _explained(deadline)
        seconds = (took or deadline.timeout).total_seconds()
        fields = {"seconds": seconds, "timeout_s": deadline.timeout.total_seconds(), "reason": reason}
        log.warning("attempt_late", extra={**log_fields(claimed), **fields, "advice": advice})


def _explained(deadline: Deadline) -> tuple[str, str]:
    """Return why the time-out could not end a call, and what to do."""
    if deadline.refused:
        advice = "raise asyncio.CancelledError again where the handler catches it"
        return "it was cancelled at its time-out and went on", advice
    if not deadline.waited:
        return "it blocked the event loop, so that nothing could cancel it", MAKE_IT_PLAIN
    advice = "event_loop_blocked in this log names the handler and the line"
    return "it or another handler blocked the event loop, so that nothing could cancel it", advice


async def within(deadline: Deadline, running: Awaitable[object], ending: str, *, started: bool = True) -> object:
    """Await a call. At its deadline, cancel it and raise TimedOut."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(None) as limit:
            deadline.watch(lambda: limit.reschedule(loop.time()), started=started)
            try:
                value = await running
            finally:
                deadline.cancel()
    except TimeoutError as exc:
        if limit.expired():
            raise TimedOut(f"took longer than {deadline.timeout.total_seconds():g} s {ending}") from exc
        raise
    deadline.refused = limit.expired()
    return value
