"""Alerts when much is dead, clocks are wrong, and the store forgets or is away."""

from contextlib import suppress
from datetime import timedelta

import pytest

from receiver.core.attention import ConcernKind
from receiver.core.work import EXAMINED
from receiver.errors import StoreError
from receiver.signals import contracts as signals
from receiver.signals.alerts.refusals import RefusalCount
from receiver.signals.alerts.watching import EVERY
from tests.signals.alert_world import DAY, HOUR, MINUTE, FullStore, World


@pytest.fixture
def world() -> World:
    """A world in which all is well."""
    return World()


async def test_a_handler_is_not_well_while_others_have_more_dead_work(world: World) -> None:
    """However many other failures there are, each handler with dead work is told, and none is well too early."""
    await world.die("handlers.first", "TimeoutError")
    assert len(await world.after(5 * MINUTE)) == 1
    for name in ("b", "c", "d", "e", "f", "g"):
        await world.die(f"handlers.{name}", "KeyError", count=2)
    [text] = await world.after(5 * MINUTE)
    assert text.count("2 dead in") == 6
    assert "handlers.first" not in text
    await world.die("handlers.b", "KeyError", count=EXAMINED)

    [text] = await world.after(5 * MINUTE)
    assert "2,002 dead in handlers.b" in text
    assert "handlers.first" not in text


async def test_a_clock_that_was_wrong_does_not_silence_alerts(world: World) -> None:
    """It was a year ahead while something began to last, and while a message waited for its next try."""
    world.clock.jump(365 * DAY)
    await world.die("save", "TimeoutError")
    assert await world.after(EVERY) == []
    world.clock.jump(-365 * DAY)
    assert len(await world.after(2 * MINUTE)) == 1

    world.clock.jump(365 * DAY)
    world.chat.status = 500
    await world.die("read", "KeyError")
    await world.after(2 * MINUTE)
    world.clock.jump(-365 * DAY)
    world.chat.status = 200
    assert len(await world.after(2 * MINUTE)) == 1


async def test_one_process_has_the_duty_after_retention_has_forgotten_its_key(world: World) -> None:
    """Keys are forgotten by when they were taken, and this one was taken when the process began."""
    world.watches.append(world.watch())
    await world.after(HOUR)
    await world.store.forget(world.clock.now() - MINUTE, limit=100)
    world.reads = 0
    await world.after(10 * EVERY)
    assert world.reads == 10


async def test_refused_requests_are_told_while_the_store_is_away(world: World) -> None:
    """That is when all are refused. When it is back, the same is not told again, only that it is well."""
    count, store = RefusalCount(), FullStore()
    options = {"kinds": frozenset({ConcernKind.REFUSED}), "local": lambda now: count.concern(now, more_than=0)}
    world.store = store
    world.watches = [world.watch(**options)]

    async def after(duration: timedelta, *, refused: int) -> list[str]:
        texts: list[str] = []
        for _ in range(duration // EVERY):
            for _ in range(refused):
                gone = signals.DeliveryRefused(at=world.clock.now(), status=503, reason="store_error", detail="")
                signals.delivery_refused.emit(gone)
            with suppress(StoreError):
                texts += await world.after(EVERY)
            texts += world.chat.taken()
        return texts

    with count.counting():
        [text] = await after(30 * MINUTE, refused=1)
        assert text == "receiver on m1: 3 requests were refused in 10m: 3 store_error"
        assert len(await after(HOUR, refused=1)) == 1
        store.full = False
        assert await after(5 * MINUTE, refused=1) == []
        assert await after(20 * MINUTE, refused=0) == [
            "receiver on m1: Well again: few or no requests are refused now"
        ]
