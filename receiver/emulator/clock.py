"""The emulator's time: a clock that may run faster and be moved forward, and the work that does not wait for it."""

import asyncio
import heapq
import itertools
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

from receiver.core.clock import Clock, FastClock, Timer

_NONE = timedelta(0)
_TURNS = 20
"""Turns of the event loop for what a call wakes, before the next call is made."""


class EmulatorClock:
    """A clock that runs `speed` times as fast as another, and that `advance` moves forward.

    Calls are made in the order of their times, whether time passes or is advanced.
    """

    def __init__(self, clock: Clock, speed: float = 1.0) -> None:
        self.after_advance: Callable[[], Awaitable[object]] | None = None
        """Awaited when `advance` has moved the clock."""
        self._real = clock
        self._clock = FastClock(clock, speed)
        self._ahead = _NONE
        self._destination: datetime | None = None
        self._order = itertools.count()
        self._timers: list[tuple[datetime, int, _EmulatorTimer]] = []
        self._wait: Timer | None = None

    def now(self) -> datetime:
        """Return the present moment, aware, in UTC."""
        return self._clock.now() + self._ahead

    @property
    def ahead(self) -> timedelta:
        """How far this clock is ahead of the other one."""
        return self.now() - self._real.now()

    def be_ahead(self, duration: timedelta) -> None:
        """Be at least this far ahead of the other clock from now on. Only for a clock without calls."""
        self._ahead += max(duration - self.ahead, _NONE)

    def steady(self) -> datetime:
        """Return the present moment of a clock that is never set. `advance` moves it, too."""
        return self._clock.steady() + self._ahead

    def horizon(self) -> datetime:
        """Return the moment to which the clock is being moved, or the present one while time only passes."""
        now = self.now()
        return now if self._destination is None else max(now, self._destination)

    def call_later(self, duration: timedelta, callback: Callable[[], None]) -> Timer:
        """Call `callback` when `duration` has passed on this clock."""
        timer = _EmulatorTimer(callback)
        heapq.heappush(self._timers, (self.steady() + duration, next(self._order), timer))
        if self._timers[0][2] is timer:
            self._wait_for_first()
        return timer

    async def sleep(self, duration: timedelta) -> None:
        """Return when `duration` has passed on this clock."""
        if duration <= _NONE:
            return await asyncio.sleep(0)
        woken = asyncio.Event()
        timer = self.call_later(duration, woken.set)
        try:
            await woken.wait()
        finally:
            timer.cancel()

    async def advance(self, duration: timedelta, settled: Callable[[], Awaitable[object]] | None = None) -> None:
        """Move the clock forward, and make every call that comes due on the way, also calls that these ask for.

        After each call `settled` is awaited: it returns when everything that was woken waits again.
        Without it, what was woken gets some turns of the event loop.
        """
        end, before = self.steady() + duration, self._destination
        self._destination = max(self.now() + duration, before or self.now())
        try:
            await _let_work(None)  # what has just begun may ask for calls
            while self._timers and self._timers[0][0] <= end:
                self._ahead += max(self._timers[0][0] - self.steady(), _NONE)
                self._make_due_calls()
                await _let_work(settled)
        finally:
            self._destination = before
        self._ahead += max(end - self.steady(), _NONE)
        self._wait_for_first()
        if self.after_advance is not None:
            await self.after_advance()

    def _make_due_calls(self) -> None:
        now = self.steady()
        while self._timers and self._timers[0][0] <= now:
            heapq.heappop(self._timers)[2].fire()
        self._wait_for_first()

    def _wait_for_first(self) -> None:
        """Wait until the first call is due. Calls that were cancelled are forgotten when they come first."""
        if self._wait is not None:
            self._wait.cancel()
            self._wait = None
        while self._timers and self._timers[0][2].is_cancelled:
            heapq.heappop(self._timers)
        if self._timers:
            rest = max(self._timers[0][0] - self.steady(), _NONE)
            self._wait = self._clock.call_later(rest, self._make_due_calls)


async def _let_work(settled: Callable[[], Awaitable[object]] | None) -> None:
    for _ in range(_TURNS):
        await asyncio.sleep(0)
    if settled is not None:
        await settled()


class _EmulatorTimer:
    """A call that an EmulatorClock will make."""

    def __init__(self, callback: Callable[[], None]) -> None:
        self._callback: Callable[[], None] | None = callback

    @property
    def is_cancelled(self) -> bool:
        return self._callback is None

    def cancel(self) -> None:
        self._callback = None

    def fire(self) -> None:
        if self._callback is not None:
            self._callback()


def wire_time(moment: datetime) -> str:
    """Return a moment as answers have it: ISO 8601 in UTC with milliseconds and Z."""
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"


class Activity:
    """Counts the work that does not wait for the emulator's clock: tests let time pass when there is none left."""

    def __init__(self) -> None:
        self._running = 0
        self._idle = asyncio.Event()
        self._idle.set()

    def begin(self) -> None:
        """Count one more. `end` has to follow."""
        self._running += 1
        self._idle.clear()

    def end(self) -> None:
        """Count one less."""
        self._running -= 1
        if not self._running:
            self._idle.set()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Count one more for as long as the block lasts."""
        self.begin()
        try:
            yield
        finally:
            self.end()

    async def over(self) -> None:
        """Return when all that is left waits for the emulator's clock or for a call."""
        while self._running:
            await self._idle.wait()


class Rest:
    """A pause of counted work on the emulator's clock. While it lasts, the work does not count as running."""

    def __init__(self, activity: Activity) -> None:
        self._activity = activity
        self._over = asyncio.Event()
        self._waits = False

    async def wait(self, clock: Clock, duration: timedelta) -> None:
        """Return when `duration` has passed on the clock, or `end` was called."""
        if self._over.is_set():
            return
        self._activity.end()
        self._waits = True
        timer = clock.call_later(duration, self.end)
        try:
            await self._over.wait()
        finally:
            timer.cancel()
            self.end()

    def end(self) -> None:
        """End the pause now. The work counts as running from here on, even before its task runs again."""
        self._over.set()
        if self._waits:
            self._waits = False
            self._activity.begin()
