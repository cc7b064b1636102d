"""A worker over a store in memory that can fail, and a clock that is moved by hand."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any

from receiver.core.claims import ClaimLimits, DueRun, FollowerClaim, HandlerClaim, Lease, Settlement, WorkItem
from receiver.core.clock import VirtualClock
from receiver.core.deliveries import Delivery
from receiver.core.schedules import RunOutcome
from receiver.core.types import DeliveryKey, DeliveryState, HandlerName, WorkerId, WorkState
from receiver.core.work import NewWork, WorkSummary
from receiver.routing import Router
from receiver.worker.calls.runner import Runner
from receiver.worker.events import MemoryBudget
from receiver.worker.trial import RoutingTrial
from receiver.worker.work_in_hand import MAX_BYTES, WorkerLimits
from receiver.worker.worker import Worker, WorkerOptions
from tests.doubles import NOON, Inline, OpenStore, appended, delivery, pass_time, soon, turns

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
ME, OTHER = WorkerId("me"), WorkerId("other")
H = HandlerClaim(HandlerName("h"))


class Faulty(OpenStore):
    """A store that fails where and as long as it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.failing: dict[str, Exception] = {}
        self.losing: dict[str, Exception] = {}
        """What is raised although the call did its work."""
        self.called: list[str] = []

    def _fail(self, name: str) -> None:
        self.called.append(name)
        if name in self.failing:
            raise self.failing[name]

    async def claim(
        self, claimants: Sequence[HandlerClaim], wanted: ClaimLimits, **more: Any
    ) -> Sequence[WorkItem]:
        """Claim, unless it fails."""
        self._fail("claim")
        return await super().claim(claimants, wanted, **more)

    async def renew(self, work_ids: Sequence[int], lease: Lease) -> None:
        """Renew, unless it fails."""
        self._fail("renew")
        await super().renew(work_ids, lease)

    async def settle(
        self, settlements: Sequence[Settlement], followers: Sequence[FollowerClaim] = ()
    ) -> Sequence[bool]:
        """Settle, unless it fails."""
        self._fail("settle")
        settled = await super().settle(settlements, followers)
        if "settle" in self.losing:
            raise self.losing["settle"]
        return settled

    async def make_run(self, run: DueRun, *, now: datetime) -> RunOutcome:
        """Make a run, unless it fails."""
        self._fail("make_run")
        return await super().make_run(run, now=now)

    async def release_leases(self, work_ids: Sequence[int], worker: WorkerId, **more: Any) -> None:
        """Give back, unless it fails."""
        self._fail("give_back")
        await super().release_leases(work_ids, worker, **more)


class WorkerBench:
    """A store, a clock and a router, and as many workers on them as a test wants."""

    def __init__(self) -> None:
        self.store = Faulty()
        self.clock = VirtualClock(NOON)
        self.router = Router()
        self.ran: list[str] = []
        self.left_behind = -1

    def handler(self, name: str = "h", *wanted: Any, **options: Any) -> Callable[[Any], Any]:
        """Register the decorated function under a name, without jitter."""
        return self.router.on(*(wanted or ("*",)), name=name, jitter=0, **options)

    async def add(self, *deliveries: Delivery) -> None:
        """Store deliveries and let everything happen that follows from it."""
        await asyncio.gather(*[appended(self.store, one) for one in deliveries])
        await turns()

    async def after(self, duration: timedelta) -> None:
        """Let this much time pass."""
        await pass_time(self.clock, duration)

    @asynccontextmanager
    async def working(
        self,
        *,
        concurrency: int = 4,
        worker: WorkerId = ME,
        grace: timedelta = 25 * SECOND,
        max_bytes: int = MAX_BYTES,
        memory: MemoryBudget | None = None,
        trial: RoutingTrial | None = None,
        replaces_dead: bool = False,
    ) -> AsyncIterator[asyncio.Event]:
        """Run a worker for the length of the block, then stop it."""
        dispatcher = Worker(
            self.store,
            self.router,
            self.clock,
            Runner(self.clock, Inline(), memory=memory),
            worker,
            WorkerLimits(
                concurrency=concurrency, threads=concurrency, processes=1, lease=MINUTE, max_bytes=max_bytes
            ),
            WorkerOptions(rng=random.Random(1), memory=memory or MemoryBudget(), trial=trial),
        )
        if replaces_dead:
            dispatcher.note_death()
        stop = asyncio.Event()
        running = asyncio.create_task(dispatcher.run(stop, grace=grace))
        await turns()
        try:
            yield stop
        finally:
            stop.set()
            await turns()
            self.clock.advance(grace)
            await turns()
            self.clock.advance(2 * SECOND)
            self.left_behind = await soon(running)

    async def work(self, key: str = "k") -> tuple[WorkSummary, ...]:
        """Return the work items of a delivery."""
        return (await self.store.detail(DeliveryKey(key))).work

    async def outcome(self, key: str = "k") -> tuple[WorkState, int, str | None]:
        """Return state, attempts and last error of the only work item of a delivery."""
        (work,) = await self.work(key)
        return work.state, work.attempts, work.last_error

    async def state(self, key: str = "k") -> DeliveryState:
        """Return how far a delivery has come."""
        return (await self.store.detail(DeliveryKey(key))).summary.state


async def kill_workers(bench: WorkerBench, times: int, *keys: str, handler: str = "h") -> None:
    """Let as many workers die over deliveries, and let others see that they are dead."""
    name = HandlerName(handler)
    await bench.add(*[delivery(key) for key in keys])
    batch = await bench.store.routing_batch(limit=99, max_bytes=10**9)
    work = [NewWork(one.seq, name, starts=True) for one in batch.deliveries]
    await bench.store.route(batch, work, lease=Lease(OTHER, NOON), now=NOON)
    await bench.store.expire_leases_of(OTHER, now=NOON)
    suspects = ClaimLimits(99, 10**9, starting=99, suspects=True)
    for _ in range(times - 1):
        await bench.store.claim((HandlerClaim(name),), suspects, lease=Lease(OTHER, NOON), now=NOON)
        await bench.store.expire_leases_of(OTHER, now=NOON)


async def kill_workers_later(bench: WorkerBench) -> None:
    """Let a worker die over a delivery while another one is at work and has just looked."""
    await appended(bench.store, delivery())
    batch = await bench.store.routing_batch(limit=1, max_bytes=1)
    new = [NewWork(1, HandlerName("h"), starts=True)]
    await bench.store.route(batch, new, lease=Lease(OTHER, NOON), now=NOON)
