"""The clock of a test, and the time that freezegun freezes."""
# ruff: noqa: TID251 - what handlers ask is frozen, too

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from freezegun import freeze_time
from freezegun.api import FrozenDateTimeFactory

from receiver.testing import SteppedClock
from tests.doubles import soon, turns

NOON = datetime(2026, 8, 4, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


@pytest.fixture
def frozen() -> Iterator[FrozenDateTimeFactory]:
    """Noon, for as long as the test lasts."""
    with freeze_time(NOON, real_asyncio=True) as frozen:
        assert isinstance(frozen, FrozenDateTimeFactory)
        yield frozen


async def test_it_stands_still_until_it_is_moved(receiver_clock: SteppedClock) -> None:
    """Units are those of a timedelta."""
    before = receiver_clock.now()

    await receiver_clock.settle()
    assert receiver_clock.now() == before

    await receiver_clock.advance(MINUTE, hours=1, seconds=30)
    assert receiver_clock.now() - before == timedelta(hours=1, minutes=1, seconds=30)


async def test_each_thing_happens_at_its_own_moment(receiver_clock: SteppedClock) -> None:
    """Also its effects on the way. A cancelled timer does nothing."""
    start, happened = receiver_clock.now(), []

    async def sleeps() -> None:
        for _ in range(3):
            await receiver_clock.sleep(2 * MINUTE)
            happened.append((receiver_clock.now() - start) // MINUTE)

    sleeping = asyncio.create_task(sleeps())
    receiver_clock.call_later(3 * MINUTE, lambda: happened.append((receiver_clock.now() - start) // MINUTE))
    receiver_clock.call_later(MINUTE, lambda: happened.append(-1)).cancel()
    await receiver_clock.advance(minutes=5)

    assert happened == [2, 3, 4]
    sleeping.cancel()


async def test_a_task_that_was_cancelled_in_its_sleep_is_awake(receiver_clock: SteppedClock) -> None:
    """Until it has ended the clock waits for it."""
    released = asyncio.Event()

    async def sleep_then_clean_up() -> None:
        try:
            await receiver_clock.sleep(MINUTE)
        finally:
            await released.wait()

    sleeping = asyncio.create_task(sleep_then_clean_up())
    await receiver_clock.settle()
    await receiver_clock.all_ended(lambda: {sleeping})
    assert not sleeping.done()

    sleeping.cancel()
    await turns()
    ended = asyncio.create_task(receiver_clock.all_ended(lambda: set() if sleeping.done() else {sleeping}))
    await turns()
    assert not ended.done()
    released.set()
    await soon(ended)


async def test_a_sleep_of_zero_does_not_wait(receiver_clock: SteppedClock) -> None:
    """As with the other clocks, other tasks get a turn."""
    turned: list[bool] = []
    asyncio.get_running_loop().call_soon(turned.append, True)

    await soon(receiver_clock.sleep(timedelta(0)))

    assert turned


async def test_the_clock_follows_frozen_time(receiver_clock: SteppedClock, frozen: FrozenDateTimeFactory) -> None:
    """In both directions."""
    assert receiver_clock.now() == NOON

    frozen.tick(90)
    assert receiver_clock.now() == NOON + timedelta(seconds=90)

    frozen.move_to(NOON + timedelta(hours=1))
    assert receiver_clock.now() == NOON + timedelta(hours=1)

    await receiver_clock.advance(minutes=5)
    assert datetime.now(UTC) == receiver_clock.now() == NOON + timedelta(hours=1, minutes=5)

    frozen.move_to(NOON)
    await receiver_clock.settle()
    assert receiver_clock.now() == NOON


async def test_skipped_timers_fire_at_their_own_moments(
    receiver_clock: SteppedClock, frozen: FrozenDateTimeFactory
) -> None:
    """As if the clock had been advanced: all code sees those moments."""
    happened = []

    async def sleeps() -> None:
        for _ in range(3):
            await receiver_clock.sleep(2 * MINUTE)
            happened.append(datetime.now(UTC) - NOON)

    sleeping = asyncio.create_task(sleeps())
    await receiver_clock.settle()
    frozen.move_to(NOON + 5 * MINUTE)
    assert happened == []
    await receiver_clock.settle()

    assert happened == [2 * MINUTE, 4 * MINUTE]
    assert datetime.now(UTC) == NOON + 5 * MINUTE
    sleeping.cancel()


async def test_a_wait_keeps_its_rest_when_time_is_frozen_or_released(receiver_clock: SteppedClock) -> None:
    """The clock goes on from the frozen time, so nothing is skipped."""
    woken = []
    receiver_clock.call_later(3 * MINUTE, lambda: woken.append("a"))
    await receiver_clock.advance(minutes=1)

    with freeze_time(NOON, real_asyncio=True):
        await receiver_clock.advance(minutes=1)
        assert receiver_clock.now() == NOON + MINUTE
        assert woken == []

    assert receiver_clock.now() == NOON + MINUTE
    await receiver_clock.advance(minutes=1)
    assert woken == ["a"]
