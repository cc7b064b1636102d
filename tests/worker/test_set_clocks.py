"""Workers while somebody sets the clock of the machine forward or back."""

import asyncio
from datetime import timedelta

import pytest

from receiver import Router
from receiver.core.types import WorkState
from receiver.events import Event
from tests.doubles import delivery, turns
from tests.workbench import MINUTE, SECOND, bench

HOUR, DAY = timedelta(hours=1), timedelta(days=1)


@pytest.mark.parametrize("jump", [2 * MINUTE, 8 * MINUTE, DAY, -2 * MINUTE, -DAY])
async def test_no_worker_loses_its_work(jump: timedelta) -> None:
    """However often the clock is set, every handler runs once, and its result counts."""
    router, gate = Router(), asyncio.Event()
    ran: list[str] = []

    @router.on("*", name="slow", timeout=9_999)
    async def slow(event: Event) -> None:
        ran.append(event.webhook_id or "")
        await gate.wait()

    async with bench(router, started=False) as at:
        await at.start("one")
        await at.start("two")
        await at.add(*[delivery(f"k{n}") for n in range(5)])
        for number in range(1, 5):
            at.clock.jump(jump * number)
            await at.after(25 * SECOND)
        gate.set()
        await at.after(SECOND)

        assert sorted(ran) == [f"k{n}" for n in range(5)]
        assert await at.states() == [WorkState.DONE] * 5
        details = [await at.store.work_item(work_id) for work_id in range(1, 6)]
        assert [one.summary.attempts for one in details] == [1] * 5


async def test_a_retry_waits_no_longer_because_the_clock_was_set_back() -> None:
    """Its pause begins again when the worker sees that, at the latest when it checks again after a lease."""
    router, ran = Router(), []

    @router.on("*", name="h", pauses=[HOUR], jitter=0)
    async def fails_first(event: Event) -> None:
        ran.append(event.webhook_id)
        if len(ran) == 1:
            raise ValueError

    async with bench(router) as at:
        await at.add(delivery())
        at.clock.jump(-DAY)
        await at.after(HOUR - SECOND)
        assert len(ran) == 1
        await at.after(MINUTE + SECOND)

        assert len(ran) == 2


async def test_a_suspended_machine_loses_nothing() -> None:
    """The time of day goes on while everything sleeps. Afterwards each worker still has its leases."""
    router, gate, ran = Router(), asyncio.Event(), []

    @router.on("*", name="slow", timeout=9_999)
    async def slow(event: Event) -> None:
        ran.append(event.webhook_id)
        await gate.wait()

    async with bench(router, started=False) as at:
        await at.start("one")
        await at.add(delivery())
        at.clock.jump(8 * HOUR)
        await at.start("two")
        await turns()
        gate.set()
        await at.after(SECOND)

        assert ran == ["k"]
        assert await at.states() == [WorkState.DONE]
