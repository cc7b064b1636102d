"""Clocks: the machine's, one that runs faster, and one that tests move by hand."""

import asyncio
import heapq
import itertools
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Timer(Protocol):
    """A scheduled call."""

    def cancel(self) -> None:
        """Cancel the call. This does nothing if the call was already made."""


class Clock(Protocol):
    """The present moment, and calls at later moments."""

    def now(self) -> datetime:
        """Return the present moment, aware, in UTC. This clock may be set forward or back."""

    def steady(self) -> datetime:
        """Return a moment on a clock that is never set, for leases and for measuring how long something takes.

        Its date means nothing. All processes that share a store see the same clock.
        """

    def call_later(self, duration: timedelta, callback: Callable[[], None]) -> Timer:
        """Call `callback` when `duration` has passed on this clock."""

    async def sleep(self, duration: timedelta) -> None:
        """Return when `duration` has passed on this clock."""


class BlockingClock(Clock, Protocol):
    """A clock that can also block the thread, for code that is not async."""

    def block(self, duration: timedelta) -> None:
        """Block the thread until `duration` has passed."""


class SystemClock:
    """The clock of the machine."""

    def now(self) -> datetime:
        """Return the present moment, aware, in UTC."""
        return datetime.fromtimestamp(time.time(), UTC)  # noqa: TID251 - the one place that may

    def steady(self) -> datetime:
        """Return how long the machine has been awake, as a moment after 1970 began.

        All processes of the machine share it (https://docs.python.org/3/library/time.html#time.monotonic). It
        starts again with the machine, and old leases may then seem to end late; on Linux the store knows that their
        workers are dead. On other systems this is the time of day.
        """
        return datetime.fromtimestamp(time.monotonic(), UTC) if sys.platform == "linux" else self.now()

    def steady_with_sleep(self) -> datetime:
        """Return the same plus the time for which the machine was suspended, if the system reports it."""
        if sys.platform != "linux":
            return self.steady()
        return datetime.fromtimestamp(time.clock_gettime(time.CLOCK_BOOTTIME), UTC)

    def call_later(self, duration: timedelta, callback: Callable[[], None]) -> Timer:
        """Call `callback` when `duration` has passed."""
        return asyncio.get_running_loop().call_later(duration.total_seconds(), callback)

    async def sleep(self, duration: timedelta) -> None:
        """Return when `duration` has passed."""
        await asyncio.sleep(duration.total_seconds())

    def block(self, duration: timedelta) -> None:
        """Block the thread until `duration` has passed."""
        time.sleep(duration.total_seconds())


class FastClock:
    """A clock that runs `speed` times as fast as another. It starts at the moment at which it is made.

    Its calls and sleeps end within a microsecond of the right moment of the other clock.
    """

    def __init__(self, clock: Clock, speed: float) -> None:
        self._clock = clock
        self._speed = speed
        self._start = clock.now()
        self._steady_start = clock.steady()

    def now(self) -> datetime:
        """Return the present moment of the faster clock."""
        return self._start + (self._clock.now() - self._start) * self._speed

    def steady(self) -> datetime:
        """Return the present moment of the faster steady clock."""
        return self._steady_start + (self._clock.steady() - self._steady_start) * self._speed

    def call_later(self, duration: timedelta, callback: Callable[[], None]) -> Timer:
        """Call `callback` when `duration` has passed on this clock."""
        return self._clock.call_later(duration / self._speed, callback)

    async def sleep(self, duration: timedelta) -> None:
        """Return when `duration` has passed on this clock."""
        await self._clock.sleep(duration / self._speed)


class VirtualClock:
    """A clock that stands still until `advance` moves it. It makes calls in the order of their times."""

    def __init__(self, start: datetime = datetime(2026, 1, 1, 12, tzinfo=UTC)) -> None:
        self._now = start
        self._jumped = timedelta(0)
        self._order = itertools.count()
        self._timers: list[tuple[datetime, int, _VirtualTimer]] = []

    def now(self) -> datetime:
        """Return the moment at which the clock stands."""
        return self._now

    def steady(self) -> datetime:
        """Return the moment at which the clock would stand without its jumps."""
        return self._now - self._jumped

    def call_later(self, duration: timedelta, callback: Callable[[], None]) -> Timer:
        """Call `callback` when `advance` moves the clock this far."""
        timer = _VirtualTimer(callback)
        heapq.heappush(self._timers, (self._now + duration, next(self._order), timer))
        return timer

    async def sleep(self, duration: timedelta) -> None:
        """Return when `advance` has moved the clock this far."""
        if duration <= timedelta(0):
            return await asyncio.sleep(0)
        woken = asyncio.Event()
        timer = self.call_later(duration, woken.set)
        try:
            await woken.wait()
        finally:
            timer.cancel()

    def block(self, duration: timedelta) -> None:
        """Move the clock forward: code that is not async lets nothing else move it."""
        self.advance(duration)

    def jump(self, duration: timedelta) -> None:
        """Set the wall clock forward, or back by a negative duration. Timers keep the rest of their wait."""
        self._now += duration
        self._jumped += duration
        self._timers = [(due + duration, order, timer) for due, order, timer in self._timers]

    def next_due(self) -> datetime | None:
        """Return when the next call is due, None without calls. That call may have been cancelled since."""
        return self._timers[0][0] if self._timers else None

    def advance(self, duration: timedelta) -> None:
        """Move the clock forward, and make every call that comes due on the way."""
        end = self._now + duration
        while self._timers and self._timers[0][0] <= end:
            due, _, timer = heapq.heappop(self._timers)
            self._now = max(self._now, due)
            timer.fire()
        self._now = end


class _VirtualTimer:
    """A call that a VirtualClock will make."""

    def __init__(self, callback: Callable[[], None]) -> None:
        self._callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self._callback = None

    def fire(self) -> None:
        if self._callback is not None:
            self._callback()


@asynccontextmanager
async def time_limit(clock: Clock, duration: timedelta) -> AsyncIterator[asyncio.Timeout]:
    """Cancel the block when `duration` has passed on the clock, and then raise TimeoutError.

    This is `asyncio.timeout` on another clock. `expired()` is True if this limit raised the TimeoutError.
    """
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(None) as limit:
        timer = clock.call_later(duration, lambda: limit.reschedule(loop.time()))
        try:
            yield limit
        finally:
            timer.cancel()


@asynccontextmanager
async def running_beside(coroutine: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run a coroutine in a task for as long as the block lasts, then cancel it."""
    task = asyncio.create_task(coroutine)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


async def first_of(*waits: Coroutine[Any, Any, object]) -> None:
    """Return when the first of them has returned, and cancel the others. Raises what that one raised."""
    tasks = [asyncio.create_task(wait) for wait in waits]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    for task in done:
        task.result()


def to_micros(moment: datetime) -> int:
    """Return whole microseconds since 1970, as stores keep a moment."""
    since = moment - _EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds  # a division takes twice as long


def from_micros(micros: int) -> datetime:
    """Return the moment this many microseconds after 1970 began."""
    return _EPOCH + timedelta(0, 0, micros)  # without the names it takes half of the time


def local_time(moment: datetime, timespec: str = "seconds") -> str:
    """Return a moment for people: local time with its offset, as in `2026-11-22T11:29:26+01:00`.

    It is one word, which can be pasted into `--since`.
    """
    return moment.astimezone().isoformat(timespec=timespec)


def iso(moment: datetime, timespec: str = "microseconds") -> str:
    """Return a moment for programs: ISO 8601 in UTC, with microseconds and a Z."""
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec=timespec) + "Z"
