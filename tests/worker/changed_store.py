"""A worker at a store that tells it of no change of its own, and handlers that wait at a gate."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta

from receiver import Router
from receiver.core.batches import Then
from receiver.core.claims import ClaimLimits, FollowerClaim, HandlerClaim, Lease, RoutingBatch, Settlement, WorkItem
from receiver.core.deliveries import Delivery, Receipt
from receiver.core.types import WorkState
from receiver.events import Event
from receiver.worker.work_in_hand import MAX_BYTES
from tests.doubles import OpenStore, delivery
from tests.workbench import Workbench, bench

PAUSE = timedelta(milliseconds=20)


class ChangedStore(OpenStore):
    """A store whose changes are those of others, as with a database in a file. It counts checks for deliveries."""

    def __init__(self) -> None:
        super().__init__()
        self.checks = 0
        self.records = asyncio.Event()
        """Results are recorded while this is set."""
        self.records.set()
        self.behind_claim: Callable[[], None] | None = None
        """Is called once."""
        self._changed = asyncio.Event()

    def append(self, delivery: Delivery, then: Then[Receipt]) -> None:
        """Store a delivery, as another process does it."""
        self.change()
        super().append(delivery, then)

    def change(self) -> None:
        """Change something, as another process does it."""
        self._changed.set()

    async def changed(self) -> None:
        """Return when another process has changed something since the last call."""
        await self._changed.wait()
        self._changed.clear()

    async def claim(
        self,
        claimants: Sequence[HandlerClaim],
        limits: ClaimLimits,
        *,
        lease: Lease,
        now: datetime,
        steady: datetime | None = None,
    ) -> Sequence[WorkItem]:
        """Claim, and let something happen then."""
        claimed = await super().claim(claimants, limits, lease=lease, now=now, steady=steady)
        happens, self.behind_claim = self.behind_claim, None
        if happens is not None:
            happens()
        return claimed

    async def settle(
        self, settlements: Sequence[Settlement], followers: Sequence[FollowerClaim] = ()
    ) -> Sequence[bool]:
        """Record results when that is possible."""
        await self.records.wait()
        return await super().settle(settlements, followers)

    async def routing_batch(self, *, limit: int, max_bytes: int) -> RoutingBatch:
        """Count it."""
        self.checks += 1
        return await super().routing_batch(limit=limit, max_bytes=max_bytes)


@asynccontextmanager
async def at_changed_store(
    router: Router, *, max_bytes: int = MAX_BYTES
) -> AsyncIterator[tuple[Workbench, ChangedStore]]:
    """Run a worker on such a store."""
    async with bench(router, started=False) as made:
        made.store = store = ChangedStore()
        await made.start(max_bytes=max_bytes)
        yield made, store


def handle(event: Event) -> None:
    """Do nothing."""


def handle_many(events: list[Event]) -> None:
    """Do nothing."""


def at_the_gate(*, fails: bool = False) -> tuple[asyncio.Event, Callable[[Event], Awaitable[None]]]:
    """Return a gate, and a handler that waits for it. It may fail the first time."""
    gate = asyncio.Event()
    failures = [ValueError()] if fails else []

    async def handler(event: Event) -> None:
        await gate.wait()
        if failures:
            raise failures.pop()

    return gate, handler


async def check_retry_in_time(at: Workbench) -> None:
    """Let the handler `flaky` fail once, and see its retry run after its pause of 0.3 s, not at the next check."""
    await at.add(delivery("other", kind="crawl.started"))
    await at.after(PAUSE)
    assert await at.states("flaky") == [WorkState.WAITING]
    await at.after(timedelta(seconds=0.3))

    assert await at.states("flaky") == [WorkState.DONE]
