"""The clock of the database: machines that share one may disagree about the time by minutes."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime, timedelta

from receiver.core.clock import Clock, Timer, from_micros, time_asleep
from receiver.core.log_lines import event_log
from receiver.errors import StoreError
from receiver.stores.postgres.connection import PostgresConnection
from receiver.stores.postgres.database import PostgresDatabase

log = event_log(__name__)

_AGAIN = timedelta(minutes=1)
"""How often the two clocks are compared."""
_TELLING = timedelta(seconds=1)
"""A difference that the machine's operator should know of."""
_SLEWED = timedelta(seconds=10)
"""Up to so much is made up for little by little. Where a clock was set by more, all processes follow at once."""
_SLEW = 0.05
"""Seconds that are made up for in each second."""
_MICROS = "SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS bigint)"
_TRIES = 3


class DatabaseClock:
    """A Clock that shows the time of the database. It runs as a clock of this machine does that nobody sets."""

    def __init__(self, clock: Clock, asleep: Callable[[], timedelta] = time_asleep) -> None:
        """`asleep` tells how long the machine was suspended, which its steady clock leaves out."""
        self._clock = clock
        self._asleep = asleep
        self._offset = timedelta(0)
        self._owed = timedelta(0)
        self._compared_at: datetime | None = None

    def now(self) -> datetime:
        """Return the present moment of the database."""
        return self.steady()

    def steady(self) -> datetime:
        """Return the same: all processes that share the database have it. Where it is set, they follow it."""
        here = self.here()
        return here + self._offset + self._made_up(here)

    def here(self) -> datetime:
        """Return a moment on a clock of the machine that nobody sets, and that goes on while it is suspended."""
        return self._clock.steady() + self._asleep()

    def call_later(self, duration: timedelta, callback: Callable[[], None]) -> Timer:
        """Call `callback` when `duration` has passed."""
        return self._clock.call_later(duration, callback)

    async def sleep(self, duration: timedelta) -> None:
        """Return when `duration` has passed."""
        await self._clock.sleep(duration)

    def compare(self, here: datetime, there: datetime) -> None:
        """Take over that the database's clock shows `there` when `here` returns this."""
        first = self._compared_at is None
        self._offset += self._made_up(here)
        self._owed, self._compared_at = there - here - self._offset, here
        if first or abs(self._owed) > _SLEWED:
            self._offset, self._owed = there - here, timedelta(0)

    def _made_up(self, here: datetime) -> timedelta:
        """Return how much of the last difference has been made up for by now."""
        if self._compared_at is None or not self._owed:
            return timedelta(0)
        most = (here - self._compared_at) * _SLEW
        return max(-most, min(self._owed, most))


@asynccontextmanager
async def database_clock(connect: Callable[[], PostgresDatabase], clock: Clock) -> AsyncIterator[Clock]:
    """Yield the clock of a database, which is compared with the machine's as long as the block lasts."""
    shown = DatabaseClock(clock)
    await _compare(connect, shown)
    if abs(difference := shown.now() - clock.now()) > _TELLING:
        seconds = round(difference.total_seconds(), 1)
        advice = "the times of this machine and of the database differ: keep both by NTP"
        log.warning("clock_differs", extra={"seconds": seconds, "advice": advice})
    comparing = asyncio.create_task(_keep_comparing(connect, clock, shown))
    try:
        yield shown
    finally:
        comparing.cancel()


async def _keep_comparing(connect: Callable[[], PostgresDatabase], clock: Clock, shown: DatabaseClock) -> None:
    while True:
        await clock.sleep(_AGAIN)
        try:
            await _compare(connect, shown)
        except StoreError as exc:
            log.debug("clock_not_compared", extra={"reason": str(exc)})


async def _compare(connect: Callable[[], PostgresDatabase], shown: DatabaseClock) -> None:
    """Ask the database for its time, and believe the quickest of several answers, to half its way."""

    def ask(connection: PostgresConnection) -> tuple[timedelta, datetime, datetime]:
        before = shown.here()
        (micros,) = connection.execute(_MICROS).fetchone()
        way = shown.here() - before
        return way, before + way / 2, from_micros(micros)

    async with connect() as database:  # a connection of its own would be idle for nearly all of the time
        answers = [await database.call(ask) for _ in range(_TRIES)]
    _, here, there = min(answers)
    shown.compare(here, there)
