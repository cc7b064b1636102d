"""When a worker looks at a store again whose work it could not take all at once."""

from collections.abc import Sequence
from datetime import datetime, timedelta

import pytest

from receiver import Router
from receiver.core.claims import Lease
from receiver.core.types import HandlerName, WorkerId, WorkState
from receiver.core.work import NewWork
from tests.doubles import NOON, appended, delivery, turns
from tests.workbench import bench
from tests.worker.changed_store import (
    PAUSE,
    ChangedStore,
    at_changed_store,
    at_the_gate,
    check_retry_in_time,
    handle,
    handle_many,
)

OTHER = WorkerId("other")


@pytest.mark.parametrize("names", ["flaky batch", "batch flaky"])
async def test_a_retry_that_becomes_due_between_two_claims_runs_soon(names: str) -> None:
    """Handlers with batches have a claim of their own, whichever of the two comes first."""
    opened, flaky = at_the_gate(fails=True)
    opened.set()
    router = Router()
    for name in names.split():
        if name == "flaky":
            router.add(flaky, "crawl.started", name="flaky", pauses=[0.3], jitter=0)
        else:
            router.add(handle_many, "crawl.page", name="batch", batch=9)
    async with at_changed_store(router) as (at, store):
        await at.add(delivery("retried", kind="crawl.started"))
        await at.after(timedelta(seconds=0.29))
        store.behind_claim = lambda: at.clock.advance(PAUSE)
        store.change()
        await turns()
        assert store.behind_claim is None

        await at.after(PAUSE)

        assert await at.states("flaky") == [WorkState.DONE]


async def test_slots_that_another_worker_holds_do_not_delay_other_handlers() -> None:
    """A retry of another handler runs when it is due, not at the next check."""
    opened, flaky = at_the_gate(fails=True)
    opened.set()
    router = Router()
    router.add(handle, "crawl.page", name="h", concurrency=1)
    router.add(flaky, "crawl.started", name="flaky", pauses=[0.3], jitter=0)
    async with bench(router, started=False) as at:
        at.store = ChangedStore()
        await appended(at.store, delivery("runs elsewhere"))
        batch = await at.store.routing_batch(limit=1, max_bytes=9_999)
        lease = Lease(OTHER, NOON + timedelta(hours=1))
        await at.store.route(batch, [NewWork(1, HandlerName("h"), claim=True)], lease=lease, now=NOON)
        await at.start()
        await at.add(delivery("waits"))
        await at.after(timedelta(seconds=5))

        await check_retry_in_time(at)
        assert await at.states("h") == [WorkState.RUNNING, WorkState.WAITING]


class DyingWorker(ChangedStore):
    """A store that knows when the other worker has died, as one in a file does by a lock. It tells no change."""

    def __init__(self) -> None:
        super().__init__()
        self.has_died = False

    async def expire_dead(self, worker: WorkerId, *, steady: datetime) -> Sequence[WorkerId]:
        """End the leases of the other worker once it has died."""
        if not self.has_died:
            return ()
        return [OTHER] if await self.expire_leases_of(OTHER, now=steady) else []


async def test_a_worker_that_died_keeps_no_slot_until_its_lease_ends() -> None:
    """Whoever waits for the slot looks once a second whether the other worker lives."""
    router = Router()
    router.add(handle, "*", name="h", concurrency=1)
    async with bench(router, started=False) as at:
        at.store = store = DyingWorker()
        await appended(store, delivery("runs elsewhere"))
        batch = await store.routing_batch(limit=1, max_bytes=9_999)
        lease = Lease(OTHER, NOON + timedelta(hours=1))
        await store.route(batch, [NewWork(1, HandlerName("h"), claim=True)], lease=lease, now=NOON)
        await at.start()
        await at.add(delivery("waits"))
        await at.after(timedelta(seconds=5))
        assert await at.states("h") == [WorkState.RUNNING, WorkState.WAITING]

        store.has_died = True
        await at.after(timedelta(seconds=2))

        assert (await at.states("h"))[1] is WorkState.DONE
