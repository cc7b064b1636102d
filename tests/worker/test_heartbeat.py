"""A worker shows that it lives, and never stops for that."""

import logging
from datetime import datetime

import pytest

from receiver.core.activity import WorkerSign
from receiver.core.clock import VirtualClock
from receiver.core.types import WorkerId
from receiver.errors import StoreError
from receiver.worker.upkeep.supervisor import SIGN_EVERY, shown_alive
from tests.doubles import NOON, OpenStore, event_of, turns

SIGN = WorkerSign(WorkerId("w"), "host", 1, "1.0", NOON)


class BrokenSigns:
    """A store that cannot write."""

    async def sign_on(self, sign: WorkerSign, *, now: datetime) -> None:
        """Fail."""
        raise StoreError("the disk is full")

    async def sign_off(self, worker: WorkerId) -> None:
        """Fail."""
        raise StoreError("the disk is full")


async def test_a_worker_is_shown_again_and_again_until_it_ends() -> None:
    store, clock = OpenStore(), VirtualClock(NOON)

    async with shown_alive(store, clock, SIGN):
        await turns()
        assert [one.seen_at for one in await store.workers()] == [NOON]
        clock.advance(SIGN_EVERY)
        await turns()
        assert [one.seen_at for one in await store.workers()] == [NOON + SIGN_EVERY]

    assert await store.workers() == []


async def test_a_worker_goes_on_when_the_store_cannot_show_it(caplog: pytest.LogCaptureFixture) -> None:
    clock = VirtualClock(NOON)
    caplog.set_level(logging.WARNING)

    async with shown_alive(BrokenSigns(), clock, SIGN):
        await turns()
        clock.advance(SIGN_EVERY)
        await turns()

    assert {event_of(record) for record in caplog.records} == {"worker_not_shown"}
    assert len(caplog.records) == 3
