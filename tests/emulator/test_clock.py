"""The emulator's clock: faster than another, and moved forward by hand."""

import asyncio
from datetime import timedelta

from receiver.core.clock import VirtualClock
from receiver.emulator.clock import EmulatorClock
from tests.doubles import soon, turns

MINUTE = timedelta(minutes=1)


def test_it_runs_as_fast_as_it_is_told() -> None:
    """Both the date and the steady time."""
    real = VirtualClock()
    clock = EmulatorClock(real, 60)
    start, steady = clock.now(), clock.steady()

    real.advance(MINUTE)

    assert clock.now() - start == timedelta(hours=1)
    assert clock.steady() - steady == timedelta(hours=1)


async def test_calls_are_made_when_time_passes() -> None:
    """In the order of their times; cancelled ones are not made."""
    real = VirtualClock()
    clock = EmulatorClock(real, 60)
    made: list[str] = []
    clock.call_later(3 * MINUTE, lambda: made.append("third"))
    clock.call_later(MINUTE, lambda: made.append("first"))
    clock.call_later(MINUTE, lambda: made.append("never")).cancel()
    clock.call_later(2 * MINUTE, lambda: made.append("second"))

    real.advance(timedelta(seconds=2.5))
    assert made == ["first", "second"]
    real.advance(timedelta(seconds=1))
    assert made == ["first", "second", "third"]


async def test_advance_makes_the_calls_on_the_way() -> None:
    """Each at its own moment, also those that an earlier one asks for."""
    real = VirtualClock()
    clock = EmulatorClock(real)
    start = clock.now()
    made: list[timedelta] = []

    def retry() -> None:
        made.append(clock.now() - start)
        clock.call_later(5 * MINUTE, lambda: made.append(clock.now() - start))

    clock.call_later(MINUTE, retry)
    await soon(clock.advance(10 * MINUTE))

    assert made == [MINUTE, 6 * MINUTE]
    assert clock.now() - start == 10 * MINUTE
    assert real.now() == start


async def test_advance_lets_what_it_woke_go_on() -> None:
    """A chain of sleeps ends within one advance, each at its time."""
    clock = EmulatorClock(VirtualClock())
    start = clock.now()
    woken: list[timedelta] = []

    async def sleeper() -> None:
        for minutes in (1, 5, 15):
            await clock.sleep(minutes * MINUTE)
            woken.append(clock.now() - start)

    task = asyncio.create_task(sleeper())
    await turns(3)
    await soon(clock.advance(timedelta(hours=1)))
    await soon(task)

    assert woken == [MINUTE, 6 * MINUTE, 21 * MINUTE]


async def test_advance_waits_for_what_is_not_settled() -> None:
    """Here the second sleep begins only when somebody outside has answered."""
    clock = EmulatorClock(VirtualClock())
    answer, idle = asyncio.Event(), asyncio.Event()
    ends: list[timedelta] = []
    start = clock.now()

    async def work() -> None:
        await clock.sleep(MINUTE)
        await answer.wait()
        idle.set()
        await clock.sleep(MINUTE)
        ends.append(clock.now() - start)

    async def settled() -> None:
        answer.set()
        await idle.wait()
        await turns(3)

    task = asyncio.create_task(work())
    await turns(3)
    await soon(clock.advance(timedelta(hours=1), settled))
    await soon(task)

    assert ends == [2 * MINUTE]


async def test_after_an_advance_time_passes_as_before() -> None:
    """What was still to wait is shorter by the advance."""
    real = VirtualClock()
    clock = EmulatorClock(real)
    made: list[str] = []
    clock.call_later(10 * MINUTE, lambda: made.append("made"))

    await soon(clock.advance(9 * MINUTE))
    real.advance(timedelta(seconds=59))
    assert made == []
    real.advance(timedelta(seconds=1))
    assert made == ["made"]


async def test_no_sleep_returns_at_once() -> None:
    """Nothing has to move the clock."""
    await soon(EmulatorClock(VirtualClock()).sleep(timedelta(0)))


async def test_a_cancelled_sleep_leaves_no_call() -> None:
    """A later one is then the first."""
    real = VirtualClock()
    clock = EmulatorClock(real)
    made: list[str] = []
    task = asyncio.create_task(clock.sleep(MINUTE))
    await turns(3)
    task.cancel()
    await turns(3)
    clock.call_later(2 * MINUTE, lambda: made.append("made"))

    real.advance(2 * MINUTE)

    assert made == ["made"]
