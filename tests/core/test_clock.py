"""Clocks, and limits of time on them."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from receiver.core.clock import FastClock, SystemClock, VirtualClock, from_micros, time_limit, to_micros
from tests.doubles import NOON, soon, turns

SECOND = timedelta(seconds=1)


def test_a_virtual_clock_stands_still() -> None:
    """Only `advance` moves it."""
    clock = VirtualClock(NOON)

    assert clock.now() == clock.now() == NOON
    clock.advance(SECOND)
    assert clock.now() == NOON + SECOND


def test_calls_are_made_in_the_order_of_their_times() -> None:
    """Each call comes at its own moment. Calls of one moment come in the order in which they were asked for."""
    clock = VirtualClock(NOON)
    made: list[tuple[str, datetime]] = []
    for name, after in (("late", 3), ("soon", 1), ("later", 3), ("never", 9)):
        clock.call_later(SECOND * after, lambda name=name: made.append((name, clock.now())))  # type: ignore[misc]

    clock.advance(SECOND * 3)

    assert made == [("soon", NOON + SECOND), ("late", NOON + SECOND * 3), ("later", NOON + SECOND * 3)]
    assert clock.now() == NOON + SECOND * 3


def test_a_cancelled_call_is_not_made() -> None:
    """To cancel it again, or after it was made, does nothing."""
    clock = VirtualClock()
    made: list[int] = []
    taken_back = clock.call_later(SECOND, lambda: made.append(1))
    kept = clock.call_later(SECOND, lambda: made.append(2))
    taken_back.cancel()
    taken_back.cancel()

    clock.advance(SECOND)
    kept.cancel()

    assert made == [2]


def test_a_call_may_ask_for_another_one() -> None:
    """The same `advance` makes that call too, if it comes due."""
    clock = VirtualClock(NOON)
    made: list[datetime] = []

    def again() -> None:
        made.append(clock.now())
        clock.call_later(SECOND, again)

    clock.call_later(SECOND, again)
    clock.advance(SECOND * 3)

    assert made == [NOON + SECOND * n for n in (1, 2, 3)]


async def test_sleepers_wake_when_their_time_has_come() -> None:
    """They do not wake before."""
    clock = VirtualClock()
    sleeper = asyncio.create_task(clock.sleep(SECOND))
    await turns()
    clock.advance(SECOND - timedelta(microseconds=1))
    await turns()
    assert not sleeper.done()

    clock.advance(timedelta(microseconds=1))
    await soon(sleeper)


@pytest.mark.parametrize("duration", [timedelta(0), -SECOND])
@pytest.mark.parametrize("clock", [VirtualClock(), SystemClock()], ids=["virtual", "system"])
async def test_sleeping_for_no_time_returns(clock: VirtualClock | SystemClock, duration: timedelta) -> None:
    """Other tasks get a turn."""
    turned: list[bool] = []
    asyncio.get_running_loop().call_soon(turned.append, True)

    await soon(clock.sleep(duration))

    assert turned


async def test_a_cancelled_sleeper_leaves_nothing_behind() -> None:
    """Nothing happens at the moment for which it waited."""
    clock = VirtualClock()
    sleeper = asyncio.create_task(clock.sleep(SECOND))
    await turns()
    sleeper.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sleeper
    clock.advance(SECOND)


async def test_the_system_clock_has_real_time() -> None:
    """Its moments are aware and in UTC, and it makes its calls."""
    clock = SystemClock()
    made = asyncio.Event()
    before = clock.now()

    clock.call_later(timedelta(0), made.set)
    await soon(made.wait())

    assert before.tzinfo is UTC
    assert clock.now() >= before


async def test_a_block_in_time_is_left_alone() -> None:
    """The limit leaves no timer."""
    clock = VirtualClock()
    async with time_limit(clock, SECOND) as limit:
        await turns(3)
    clock.advance(SECOND * 2)
    await turns()

    assert not limit.expired()


async def test_a_block_past_its_time_is_cancelled() -> None:
    """The block ends with TimeoutError, and the task goes on."""
    clock = VirtualClock()
    cleaned_up = False

    async def slow() -> None:
        nonlocal cleaned_up
        async with time_limit(clock, SECOND):
            try:
                await clock.sleep(SECOND * 9)
            finally:
                cleaned_up = True

    task = asyncio.create_task(slow())
    await turns()
    clock.advance(SECOND)
    with pytest.raises(TimeoutError):
        await soon(task)

    assert cleaned_up
    assert not task.cancelling()


async def test_a_time_out_inside_the_block_is_known_from_that_of_the_limit() -> None:
    """`expired()` is True only for the limit's own."""
    clock = VirtualClock()
    with pytest.raises(TimeoutError, match="its own"):
        async with time_limit(clock, SECOND) as limit:
            raise TimeoutError("its own")

    assert not limit.expired()


async def test_a_cancellation_from_outside_stays_a_cancellation() -> None:
    """It does not become a time-out."""
    clock = VirtualClock()

    async def slow() -> None:
        async with time_limit(clock, SECOND):
            await clock.sleep(SECOND * 9)

    task = asyncio.create_task(slow())
    await turns()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_limits_nest() -> None:
    """The limit that passes first ends its block."""
    clock = VirtualClock()
    passed: list[str] = []

    async def slow() -> None:
        try:
            async with time_limit(clock, SECOND * 5):
                try:
                    async with time_limit(clock, SECOND):
                        await clock.sleep(SECOND * 9)
                except TimeoutError:
                    passed.append("inner")
                await clock.sleep(SECOND * 9)
        except TimeoutError:
            passed.append("outer")

    task = asyncio.create_task(slow())
    for _ in range(6):
        await turns()
        clock.advance(SECOND)
    await soon(task)

    assert passed == ["inner", "outer"]


def test_plain_code_can_block_on_a_clock() -> None:
    """A virtual clock then moves forward by itself, since nothing else runs."""
    clock, fired = VirtualClock(NOON), list[int]()
    clock.call_later(SECOND, lambda: fired.append(1))

    clock.block(SECOND)
    SystemClock().block(timedelta(0))

    assert (clock.now(), fired) == (NOON + SECOND, [1])


@given(st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31), timezones=st.just(UTC)))
def test_a_moment_is_the_same_after_conversion_to_microseconds(moment: datetime) -> None:
    """This holds before and after 1970."""
    assert from_micros(to_micros(moment)) == moment


def test_microseconds_count_from_1970() -> None:
    """The number is a literal, since databases of older versions hold such numbers."""
    assert to_micros(datetime(2026, 8, 4, 12, 0, 0, 1, tzinfo=UTC)) == 1_785_844_800_000_001


def test_a_fast_clock_runs_faster_from_when_it_is_made() -> None:
    """Its first moment is that of the other clock."""
    below = VirtualClock(NOON)
    below.advance(SECOND)
    clock = FastClock(below, 60)

    assert clock.now() == NOON + SECOND
    below.advance(SECOND * 0.5)
    assert clock.now() == NOON + SECOND * 31


def test_a_minute_on_a_fast_clock_is_a_second_on_the_other() -> None:
    """Here it runs sixty times as fast."""
    below = VirtualClock(NOON)
    clock = FastClock(below, 60)
    made: list[datetime] = []
    clock.call_later(SECOND * 60, lambda: made.append(clock.now()))
    clock.call_later(SECOND * 60, lambda: made.append(clock.now())).cancel()

    below.advance(SECOND * 0.999)
    assert made == []
    below.advance(SECOND)
    assert made == [NOON + SECOND * 60]


async def test_a_limit_on_a_fast_clock_comes_sooner() -> None:
    """Time-outs follow the speed."""
    below = VirtualClock(NOON)

    async def limited() -> None:
        clock = FastClock(below, 60)
        async with time_limit(clock, SECOND * 120):
            await clock.sleep(SECOND * 600)

    waiting = asyncio.create_task(limited())
    await turns()
    below.advance(SECOND * 1.999)
    await turns()
    assert not waiting.done()
    below.advance(SECOND * 0.001)
    with pytest.raises(TimeoutError):
        await soon(waiting)
