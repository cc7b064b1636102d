"""The clock of the database, on machines whose own clocks are wrong."""

from contextlib import AsyncExitStack
from datetime import datetime, timedelta

import pytest

from receiver.core.claims import ClaimLimits, HandlerClaim, Lease
from receiver.core.clock import SystemClock, VirtualClock, time_asleep
from receiver.core.work import NewWork
from receiver.stores.postgres.clock import DatabaseClock
from receiver.stores.postgres.store import PostgresStore
from tests.doubles import NOON, delivery, soon
from tests.stores.opened import LEASE, MUCH, ONE, SECOND, A, B

HOUR = timedelta(hours=1)
CLOSE = timedelta(seconds=30)
"""More than a busy machine takes for a round trip."""


class WrongClock(SystemClock):
    """The clock of a machine that is ahead, or behind."""

    def __init__(self, ahead: timedelta) -> None:
        self._ahead = ahead

    def now(self) -> datetime:
        return super().now() + self._ahead

    def steady(self) -> datetime:
        return super().steady() + self._ahead * 7


@pytest.mark.parametrize("ahead", [HOUR, -HOUR, HOUR * 0])
async def test_a_machine_with_a_wrong_clock_has_the_time_of_the_database(
    postgres_url: str, ahead: timedelta, caplog: pytest.LogCaptureFixture
) -> None:
    """Both its clocks are that of the database then, and a large difference is told once."""
    async with PostgresStore(postgres_url).clock(WrongClock(ahead)) as clock:
        for moment in (clock.now(), clock.steady()):
            assert abs(moment - SystemClock().now()) < CLOSE
    assert ("clock_differs" in caplog.text) == (ahead != HOUR * 0)


async def test_machines_an_hour_apart_keep_each_others_leases(postgres_url: str) -> None:
    """By its own clock, the second would take every lease of the first from it at once."""
    store = PostgresStore(postgres_url)
    async with AsyncExitStack() as stack:
        log = await stack.enter_async_context(store.log())
        behind, ahead = [await stack.enter_async_context(store.clock(WrongClock(by))) for by in (-HOUR, HOUR)]
        first = await stack.enter_async_context(store.queue())
        second = await stack.enter_async_context(store.queue())
        await soon(log.append(delivery(received_at=behind.now())))
        batch = await first.routing_batch(limit=9, max_bytes=MUCH)
        work = [NewWork(one.seq, ONE) for one in batch.deliveries]
        lease = Lease(A, behind.steady() + LEASE)
        assert await first.route(batch, work, lease=lease, now=behind.now()) == [1]

        async def claimed_by_second(now: datetime) -> int:
            lease = Lease(B, now + LEASE)
            return len(await second.claim([HandlerClaim(ONE)], ClaimLimits(9, MUCH), lease=lease, now=now))

        assert await claimed_by_second(ahead.steady()) == 0
        assert await claimed_by_second(WrongClock(HOUR).now()) == 1


def test_small_differences_are_made_up_for_little_by_little() -> None:
    """No moment is left out, and none comes twice."""
    machine = VirtualClock(NOON)
    clock = DatabaseClock(machine)
    clock.compare(NOON, NOON + HOUR)
    assert clock.now() == NOON + HOUR

    clock.compare(NOON, NOON + HOUR - SECOND)
    seen = [clock.now()]
    for _ in range(30):
        machine.advance(SECOND)
        seen.append(clock.now())

    assert seen == sorted(set(seen))
    assert seen[0] == NOON + HOUR
    assert seen[-1] == machine.now() + HOUR - SECOND


def test_a_clock_of_the_database_that_was_set_is_followed_at_once() -> None:
    """All other processes do the same."""
    clock = DatabaseClock(VirtualClock(NOON))
    clock.compare(NOON, NOON)

    clock.compare(NOON, NOON - HOUR)

    assert clock.now() == NOON - HOUR


def test_a_machine_that_was_suspended_has_the_right_time_at_once() -> None:
    """Else its leases had ended before they began, and once keys would expire for everybody with its old time."""
    clock, asleep = VirtualClock(), [timedelta(0)]
    shown = DatabaseClock(clock, lambda: asleep[0])
    shown.compare(shown.here(), NOON)

    asleep[0] = HOUR

    assert shown.now() == shown.steady() == NOON + HOUR


def test_the_machine_tells_how_long_it_was_suspended() -> None:
    """Its clocks do not go back."""
    first = time_asleep()

    assert timedelta(0) <= first <= time_asleep() + timedelta(milliseconds=1)
