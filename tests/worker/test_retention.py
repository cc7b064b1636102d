"""The deliveries that a worker deletes, over a store in memory and a clock that is moved by hand."""

import asyncio
import errno
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta

import pytest

from receiver.core import recorded_actions
from receiver.core.claims import Lease
from receiver.core.clock import VirtualClock
from receiver.core.deliveries import DeliveryFilter
from receiver.core.recorded_actions import NewAction
from receiver.core.types import HandlerName, WorkerId
from receiver.errors import ConfigurationError, StoreError
from receiver.worker.upkeep.retention import EVERY, Retention
from tests.doubles import NOON, OpenStore, appended, delivery, event_of, pass_time, turns

DAY = timedelta(days=1)
HOUR = timedelta(hours=1)
SECOND = timedelta(seconds=1)


@asynccontextmanager
async def running(
    store: OpenStore, clock: VirtualClock, *, bodies: timedelta | None = None, keys: timedelta | None = None
) -> AsyncIterator[None]:
    """Let retention run in a block."""
    task = asyncio.create_task(Retention(store.maintenance, clock, bodies=bodies, keys=keys).run())
    await turns()
    yield
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def kept(store: OpenStore) -> dict[str, bool]:
    """Return what is stored, the oldest first, and whether it has its body."""
    found = [(one.key, one.has_body) async for one in store.deliveries(DeliveryFilter())]
    return dict(found[::-1])


async def filled(store: OpenStore, ages: dict[str, timedelta]) -> None:
    """Store deliveries of these ages that no handler wanted."""
    for key, age in ages.items():
        await appended(store, delivery(key, received_at=NOON - age))
    batch = await store.routing_batch(limit=10_000, max_bytes=10**9)
    await store.route(batch, [], lease=Lease(WorkerId("w"), NOON), now=NOON)


async def look(clock: VirtualClock) -> None:
    """Let the time come for a look, and the look be over."""
    await pass_time(clock, EVERY)
    await looked(clock)


async def looked(clock: VirtualClock) -> None:
    """Let a look be over."""
    for _ in range(30):
        await pass_time(clock, SECOND)


async def test_bodies_are_deleted_before_their_deliveries(caplog: pytest.LogCaptureFixture) -> None:
    """Each at its age. The numbers are logged."""
    caplog.set_level(logging.INFO, "receiver.worker.upkeep.retention")
    store, clock = OpenStore(), VirtualClock(NOON)
    await filled(store, {"old": 10 * DAY, "middle": 4 * DAY, "young": DAY})

    async with running(store, clock, bodies=3 * DAY, keys=9 * DAY):
        await looked(clock)
        assert await kept(store) == {"middle": False, "young": True}
        await pass_time(clock, 2 * DAY + HOUR)
        await look(clock)
        assert await kept(store) == {"middle": False, "young": False}

    told = [(record.__dict__["bodies"], record.__dict__["deliveries"]) for record in caplog.records]
    assert told == [(2, 1), (1, 0)]


async def test_without_settings_everything_is_kept() -> None:
    """However old it is."""
    store, clock = OpenStore(), VirtualClock(NOON)
    await filled(store, {"old": 4_000 * DAY})

    async with running(store, clock):
        await look(clock)

        assert await kept(store) == {"old": True}


async def test_many_deliveries_are_deleted_in_steps_with_pauses() -> None:
    """All in one run."""
    store, clock = OpenStore(), VirtualClock(NOON)
    await filled(store, {f"{n}": 2 * DAY for n in range(450)})

    async with running(store, clock, keys=DAY):
        assert len(await kept(store)) == 250
        await looked(clock)
        assert await kept(store) == {}


async def test_once_keys_are_deleted_with_the_delivery_keys() -> None:
    """No retry of those deliveries can come any more."""
    store, clock = OpenStore(), VirtualClock(NOON)
    await store.once(HandlerName("h"), "old", now=NOON - 2 * DAY)
    await store.once(HandlerName("h"), "young", now=NOON)

    async with running(store, clock, keys=DAY):
        await look(clock)

    assert await store.once(HandlerName("h"), "old", now=NOON)
    assert not await store.once(HandlerName("h"), "young", now=NOON)


@pytest.mark.parametrize(
    ("failure", "event"),
    [
        (StoreError("the disk is full"), "maintenance_failed"),
        (ConfigurationError("no full text search"), "maintenance_failed"),
        (OSError(errno.EMFILE, "Too many open files"), "maintenance_failed"),
        (KeyError("a fault of ours"), "maintenance_crashed"),
    ],
)
async def test_a_failure_is_logged_and_tried_again(
    failure: Exception, event: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A bug is logged with its traceback. The next run succeeds."""
    store, clock = OpenStore(), VirtualClock(NOON)
    await filled(store, {"old": 2 * DAY})
    failures = [failure]

    @asynccontextmanager
    async def maintenance() -> AsyncIterator[OpenStore]:
        if failures:
            raise failures.pop()
        yield store

    task = asyncio.create_task(Retention(maintenance, clock, bodies=None, keys=DAY).run())
    await turns()
    assert await kept(store) == {"old": True}
    assert [event_of(record) for record in caplog.records] == [event]
    assert (caplog.records[0].exc_info is not None) is (event == "maintenance_crashed")
    await look(clock)
    assert await kept(store) == {}
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def test_a_clock_that_is_set_forward_deletes_nothing() -> None:
    """A wrong date must not delete what nobody can get back. What the worker has seen become old is deleted."""
    store, clock = OpenStore(), VirtualClock(NOON)
    await filled(store, {"old": 2 * DAY, "young": HOUR})

    async with running(store, clock, keys=3 * DAY):
        clock.jump(365 * DAY)
        await look(clock)
        assert await kept(store) == {"old": True, "young": True}

        await pass_time(clock, DAY)
        await look(clock)
        assert await kept(store) == {"young": True}


async def test_old_actions_are_forgotten_without_any_retention_setting() -> None:
    store, clock = OpenStore(), VirtualClock(NOON)
    action = NewAction("cli operator@host", "pause", "handler one", 1)
    for age in (recorded_actions.KEPT + HOUR, recorded_actions.KEPT - HOUR):
        await store.begin_action(action, now=NOON - age)

    async with running(store, clock):
        await looked(clock)

    assert [one.id for one in await store.actions(limit=9)] == [2]
