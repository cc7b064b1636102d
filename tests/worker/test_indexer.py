"""A worker fills the search index beside its work."""

import asyncio
from datetime import timedelta

import pytest

from receiver.core.clock import VirtualClock
from receiver.core.deliveries import DeliveryFilter
from receiver.errors import StoreError
from receiver.worker.upkeep.retention import keep_indexed
from tests.doubles import OpenStore, appended, body_of, delivery, event_of, pass_time
from tests.workbench import SECOND

PAGE = body_of(data=[{"metadata": {"sourceURL": "https://example.com"}}])
WANTED = DeliveryFilter(text="example")


class Failing(OpenStore):
    """A store that cannot index while `broken`, and counts how often it was asked."""

    broken: Exception | None = None
    asked = 0

    async def index(self, *, limit: int, max_bytes: int) -> int:
        """Fail, or index."""
        self.asked += 1
        if self.broken is not None:
            raise self.broken
        return await super().index(limit=limit, max_bytes=max_bytes)


async def found(store: OpenStore) -> int:
    """Return how many deliveries have the word."""
    return len([one async for one in store.deliveries(WANTED)])


@pytest.fixture
async def store() -> Failing:
    """A store with an index that is empty."""
    store = Failing()
    async with store.search():
        return store


async def test_stored_and_new_deliveries_are_indexed(store: Failing) -> None:
    """Stored ones in parts with pauses, new ones within a second."""
    clock = VirtualClock()
    for number in range(250):
        await appended(store, delivery(str(number), body=PAGE))
    running = asyncio.create_task(keep_indexed(store, clock))

    counts = []
    for _ in range(4):
        await pass_time(clock, timedelta(milliseconds=20))
        counts.append(await found(store))
    assert counts == [200, 250, 250, 250]

    await appended(store, delivery("new", body=PAGE))
    await pass_time(clock, SECOND)
    assert await found(store) == 251
    running.cancel()


async def test_an_unavailable_store_is_tried_again(store: Failing, caplog: pytest.LogCaptureFixture) -> None:
    """Once a second. Each failure is logged, and the worker goes on."""
    clock = VirtualClock()
    await appended(store, delivery("a", body=PAGE))
    store.broken = StoreError("the disk is full")
    running = asyncio.create_task(keep_indexed(store, clock))
    await pass_time(clock, SECOND)
    assert store.asked == 2
    assert [event_of(record) for record in caplog.records] == ["search_index_retrying"] * 2

    store.broken = None
    await pass_time(clock, SECOND)
    assert await found(store) == 1
    running.cancel()


async def test_a_bug_is_logged_and_tried_again(store: Failing, caplog: pytest.LogCaptureFixture) -> None:
    """With its traceback, once a minute."""
    clock = VirtualClock()
    await appended(store, delivery("a", body=PAGE))
    store.broken = KeyError("odd")
    running = asyncio.create_task(keep_indexed(store, clock))
    await pass_time(clock, 59 * SECOND)
    assert [event_of(record) for record in caplog.records] == ["search_index_crashed"]
    assert caplog.records[0].exc_info is not None

    store.broken = None
    await pass_time(clock, SECOND)
    assert await found(store) == 1
    running.cancel()
