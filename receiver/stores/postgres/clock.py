"""The clock of the database: machines that share one may disagree about the time by minutes."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from receiver.core.clock import Clock, SystemClock, Timer, from_micros
from receiver.errors import StoreError
from receiver.runtime.log_lines import event_log
from receiver.stores.postgres.connection import PostgresConnection
from receiver.stores.postgres.database import PostgresDatabase
from receiver.stores.postgres.statements import MICROS
from receiver.stores.sql.connection import SqlConnection

log = event_log(__name__)

_AGAIN = timedelta(minutes=1)
"""How often the two clocks are compared."""
_TELLING = timedelta(seconds=1)
"""A difference that the machine's operator should know of."""
_SLEWED = timedelta(seconds=10)
"""Up to so much is made up for little by little. Where a clock was set by more, all processes follow at once."""
_SLEW = 0.05
"""Seconds that are made up for in each second."""
_MICROS = f"SELECT {MICROS}"
_TRIES = 3


class _Course(NamedTuple):
    """How far the database is ahead of a clock of the machine, from a comparison on."""

    offset: timedelta
    """How far it seemed to be at the comparison."""
    owed: timedelta
    """What is made up for from then on."""
    compared_at: datetime
    made_up_at: datetime
    """When nothing is owed any more."""

    def at(self, here: datetime) -> timedelta:
        """Return how far the database is ahead when the machine's clock shows `here`."""
        if here >= self.made_up_at:
            return self.offset + self.owed
        most = (here - self.compared_at) * _SLEW
        return self.offset + max(-most, min(self.owed, most))


class DatabaseClock:
    """A Clock that shows the time of the database. It runs like a clock of this machine that is never set.

    That clock may stand still or jump: a hypervisor that pauses a machine leaves the time out, and the machine
    cannot know it. So a queue looks at the database's time too, and a large difference is made
    up for at once.
    """

    def __init__(self, clock: Clock, here: Callable[[], datetime] | None = None) -> None:
        """`here` reads a clock that keeps running while the machine is suspended."""
        self._clock = clock
        self.here = here or clock.steady
        self._course: _Course | None = None  # one object: other threads compare

    def now(self) -> datetime:
        """Return the present moment of the database."""
        return self.steady()

    def steady(self) -> datetime:
        """Return the same: all processes that share the database have it. Where it is set, they follow it."""
        return self.at(self.here())

    def at(self, here: datetime) -> datetime:
        """Return the moment of the database when the machine's clock shows `here`."""
        return here if self._course is None else here + self._course.at(here)

    def call_later(self, duration: timedelta, callback: Callable[[], None]) -> Timer:
        """Call `callback` when `duration` has passed."""
        return self._clock.call_later(duration, callback)

    async def sleep(self, duration: timedelta) -> None:
        """Return when `duration` has passed."""
        await self._clock.sleep(duration)

    def compare(self, here: datetime, there: datetime) -> bool:
        """Take over that the database's clock shows `there` when `here` returns this; return whether it was set."""
        offset = timedelta(0) if self._course is None else self._course.at(here)
        owed = there - here - offset
        is_set = self._course is None or abs(owed) > _SLEWED
        if is_set:
            offset, owed = there - here, timedelta(0)
        self._course = _Course(offset, owed, here, here + abs(owed) / _SLEW)
        return is_set

    def differs(self, since: datetime, there: datetime) -> bool:
        """Return whether `there`, read from the database when the machine showed `since`, is far from this."""
        return not self.at(since) - _SLEWED <= there <= self.now() + _SLEWED


class OpenClocks:
    """The clocks of one store that are open, for the queues of the same store."""

    def __init__(self) -> None:
        self._clocks: list[DatabaseClock] = []

    @contextmanager
    def opened(self, clock: DatabaseClock) -> Iterator[None]:
        """Have a clock among them for a block."""
        self._clocks.append(clock)
        try:
            yield
        finally:
            self._clocks.remove(clock)

    def compare(self, connection: SqlConnection) -> bool:
        """Compare all of them with the database; return whether one was far from its time, and is set by now."""
        were_set = [clock.compare(*_asked(connection, clock)) for clock in self._clocks]
        return any(were_set)

    def watched(self, connection: PostgresConnection, question: str) -> list[Any]:
        """Ask for a row that ends with `MICROS`; return the rest. Compare the clocks if they are far from that."""
        asked = [(clock, clock.here()) for clock in self._clocks]
        row: list[Any]
        *row, micros = connection.execute(question).fetchone()
        if any(clock.differs(since, from_micros(micros)) for clock, since in asked):
            self.compare(connection)
        return row


@asynccontextmanager
async def database_clock(
    connect: Callable[[], PostgresDatabase], clock: Clock, clocks: OpenClocks
) -> AsyncIterator[Clock]:
    """Yield the clock of a database, which is compared with the machine's as long as the block lasts."""
    shown = DatabaseClock(clock, clock.steady_with_sleep if isinstance(clock, SystemClock) else None)
    await _compare(connect, shown)
    if abs(difference := shown.now() - clock.now()) > _TELLING:
        seconds = round(difference.total_seconds(), 1)
        advice = "the times of this machine and of the database differ: keep both by NTP"
        log.warning("clock_differs", extra={"seconds": seconds, "advice": advice})
    comparing = asyncio.create_task(_keep_comparing(connect, clock, shown))
    try:
        with clocks.opened(shown):
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
    async with connect() as database:  # a connection of its own would be idle for nearly all of the time
        await database.call(lambda connection: shown.compare(*_asked(connection, shown)))


def _asked(connection: SqlConnection, shown: DatabaseClock) -> tuple[datetime, datetime]:
    """Ask the database for its time, and believe the quickest of several answers, to half its way."""
    answers = []
    for _ in range(_TRIES):
        before = shown.here()
        (micros,) = connection.execute(_MICROS).fetchone()
        way = shown.here() - before
        answers.append((way, before + way / 2, from_micros(micros)))
    _, here, there = min(answers)
    return here, there
