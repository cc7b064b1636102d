"""The same calls to two stores get the same answers and lead to the same end."""

import random
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack

import pytest

from receiver.core.claims import ClaimLimits, HandlerClaim, HeldItem, Lease, Settlement, WorkItem
from receiver.core.deliveries import StoredDelivery
from receiver.core.ports.store import Store
from receiver.core.types import HandlerName, HandlerSwitch, WorkerId
from receiver.core.work import Hold, NewWork
from receiver.stores.memory import MemoryStore
from tests.doubles import NOON, delivery
from tests.stores.conftest import open_all
from tests.stores.opened import DAY, DEAD, DONE, LEASE, MUCH, ONE, SECOND, TWO, WAITING, A, B, C, Opened, ended

HANDLERS = (ONE, TWO, HandlerName("three"))
WORKERS = (A, B, C)
LANES = (None, None, "a", "b")
PACES = {ONE: None, TWO: SECOND * 5, HANDLERS[2]: SECOND / 50}
LIMITS = {ONE: None, TWO: 2, HANDLERS[2]: 3}


class Story:
    """One story told to two stores at a time. Each deed is asked of both, and has to be answered alike."""

    def __init__(self, seed: int, left: Opened, right: Opened) -> None:
        self.rng = random.Random(seed)
        self.left, self.right = left, right
        self.now = NOON
        self.appended = 0
        self.running: list[tuple[int, WorkerId, int]] = []
        self.held: list[int] = []
        self.made = 0

    async def both(self, ask: Callable[[Opened], Awaitable[object]]) -> object:
        """Return what both answer."""
        left, right = await ask(self.left), await ask(self.right)
        assert left == right
        return left

    def lease(self, worker: WorkerId) -> Lease:
        return Lease(worker, self.now + LEASE)

    def claimants(self) -> list[HandlerClaim]:
        names = self.rng.sample(HANDLERS, self.rng.randint(1, 3))
        return [HandlerClaim(name, LIMITS[name], PACES[name], self.rng.choice((1, 5, 99))) for name in names]

    def hold(self, one: StoredDelivery) -> Hold | None:
        """Return how long work is held at times: a delivery of a job, for its pages."""
        is_held = self.rng.random() < 0.15 and one.delivery.job_id is not None
        return Hold(self.now + SECOND, self.now + LEASE) if is_held else None

    def some_ids(self) -> list[int]:
        return [self.rng.randint(0, self.made + 1) for _ in range(self.rng.randint(0, 6))]

    # --- deeds

    async def append(self) -> None:
        for _ in range(self.rng.randint(1, 5)):
            self.appended += 1
            kind = self.rng.choice(("crawl.page", "crawl.page", "crawl.completed"))
            one = delivery(str(self.appended), kind=kind, job_id=f"j{self.appended % 3}", received_at=self.now)
            await self.both(lambda opened, one=one: opened.add(one))  # type: ignore[misc]

    async def route(self) -> None:
        limit, worker = self.rng.randint(1, 6), self.rng.choice(WORKERS)
        batch = await self.left.queue.routing_batch(limit=limit, max_bytes=MUCH)
        of_right = await self.right.queue.routing_batch(limit=limit, max_bytes=MUCH)
        assert batch == of_right
        work = [
            NewWork(
                one.seq,
                name,
                claim=self.rng.random() < 0.6,
                starts=self.rng.random() < 0.3,
                lane=self.rng.choice(LANES),
                hold=self.hold(one),
            )
            for one in batch.deliveries
            for name in HANDLERS
            if self.rng.random() < 0.7
        ]
        if not batch.deliveries:
            return

        async def ask(opened: Opened) -> list[int | None]:
            own = batch if opened is self.left else of_right
            made = await opened.queue.route(own, work, lease=self.lease(worker), now=self.now)
            assert made is not None
            return list(made)

        made = await self.both(ask)
        assert isinstance(made, list)
        self.made += len(work)
        self.running += [(work_id, worker, 1) for work_id in made if work_id is not None]

    async def claim(self) -> None:
        claimants, worker = self.claimants(), self.rng.choice(WORKERS)
        wanted = ClaimLimits(
            self.rng.randint(0, 8), self.rng.choice((100, MUCH)), self.rng.randint(0, 2), self.rng.random() < 0.3
        )

        async def ask(opened: Opened) -> list[WorkItem]:
            return list(await opened.queue.claim(claimants, wanted, lease=self.lease(worker), now=self.now))

        items = await self.both(ask)
        assert isinstance(items, list)
        self.running += [(item.id, worker, item.attempt) for item in items]

    def some_running(self) -> list[tuple[int, WorkerId, int]]:
        return self.rng.sample(self.running, min(len(self.running), self.rng.randint(1, 4)))

    async def settle(self) -> None:
        settlements: list[Settlement] = []
        for work_id, worker, number in self.some_running():
            state = self.rng.choice((DONE, DONE, DEAD, WAITING))
            end = ended(work_id, state, worker=worker, number=number, error=None if state is DONE else "x")
            end = end._replace(
                holds_lane=self.rng.random() < 0.4, due_at=self.now + SECOND * self.rng.randint(0, 90)
            )
            settlements.append(end._replace(attempt=end.attempt._replace(started_at=self.now, ended_at=self.now)))
        await self.both(lambda opened: opened.settle(*settlements))

    async def keep(self) -> None:
        for work_id, worker, _ in self.some_running():
            deed = self.rng.choice(("begun", "renew", "give_back"))

            async def ask(
                opened: Opened, deed: str = deed, work_id: int = work_id, worker: WorkerId = worker
            ) -> None:
                if deed == "begun":
                    await opened.queue.mark_started([work_id], worker)
                elif deed == "renew":
                    await opened.queue.renew([work_id], self.lease(worker))
                else:
                    await opened.queue.release_leases([work_id], worker, now=self.now)

            await self.both(ask)

    async def expire_leases_of(self) -> None:
        worker = self.rng.choice(WORKERS)
        await self.both(lambda opened: opened.queue.expire_leases_of(worker, now=self.now))

    async def look(self) -> None:
        names = self.rng.sample(HANDLERS, 2)

        async def ask(opened: Opened) -> list[HeldItem]:
            return list(await opened.queue.held(names, now=self.now, limit=3))

        items = await self.both(ask)
        assert isinstance(items, list)
        for item in items:
            again = self.rng.random() < 0.5

            async def decide(opened: Opened, work_id: int = item.id, again: bool = again) -> None:
                if again:
                    await opened.queue.recheck(work_id, at=self.now + SECOND, note="waits")
                else:
                    await opened.queue.release(work_id, now=self.now, note="released")

            await self.both(decide)

    async def retry(self) -> None:
        ids = self.some_ids()
        await self.both(lambda opened: opened.controls.retry(ids, now=self.now))

    async def bury(self) -> None:
        ids = self.some_ids()
        await self.both(lambda opened: opened.controls.bury(ids, "buried", now=self.now))

    async def switch(self) -> None:
        name, to = self.rng.choice(HANDLERS), self.rng.choice((*HandlerSwitch, HandlerSwitch.ON, HandlerSwitch.ON))
        await self.both(lambda opened: opened.controls.switch(name, to))

    async def pass_time(self) -> None:
        passed = self.rng.choice((SECOND / 10, SECOND, SECOND * 7, LEASE, LEASE, DAY, -SECOND * 3, -DAY))
        self.now += passed

    # --- looking

    async def compare(self) -> None:
        """Every reader sees the same in both stores, and no lane is stuck."""
        claimants = [HandlerClaim(name, LIMITS[name], PACES[name]) for name in HANDLERS]
        await self.both(lambda opened: opened.work())
        await self.both(lambda opened: opened.listed())
        await self.both(lambda opened: opened.queue.next_due(claimants, now=self.now))
        await self.both(lambda opened: opened.queue.suspects_due(claimants, now=self.now))
        await self.both(lambda opened: opened.queue.switches())
        await self.both(lambda opened: opened.reports.count_unfinished())
        await self.both(lambda opened: opened.reports.backlog(self.now))
        await self.both(lambda opened: opened.reports.waiting())
        await self.both(self.handlers)
        await self.both(self.pages)
        await self.left.check_lanes()
        for work_id in self.some_ids():
            if 0 < work_id <= self.made:
                await self.both(lambda opened, work_id=work_id: opened.reports.work_item(work_id))  # type: ignore[misc]

    @staticmethod
    async def handlers(opened: Opened) -> object:
        return list(await opened.reports.handlers())

    async def pages(self, opened: Opened) -> object:
        """Return what is known of each job's pages, but not which of several open ones the store names."""
        found = [
            await opened.queue.pages(f"j{n}", page_type="crawl.page", handlers=HANDLERS[: n + 1]) for n in range(3)
        ]
        return [(one.last_at, one.open_key is None) for one in found]

    async def run(self, length: int) -> None:
        """Do so many deeds, the usual ones more often than others."""
        usual = (self.append, self.route, self.claim, self.claim, self.settle, self.settle, self.keep)
        deeds = (*usual, *usual, *self.rare())
        for _ in range(length):
            await self.rng.choice(deeds)()
            await self.compare()

    def rare(self) -> Sequence[Callable[[], Awaitable[None]]]:
        """Return deeds that are done now and then."""
        return (self.expire_leases_of, self.look, self.retry, self.bury, self.switch, self.pass_time)


@pytest.mark.parametrize("store", ["sqlite", "postgres"], indirect=True)
@pytest.mark.parametrize("seed", range(12))
async def test_both_stores_answer_the_same(seed: int, store: Store) -> None:
    """Random stories have three workers, an operator, lost leases and a clock that jumps."""
    async with AsyncExitStack() as stack:
        left = await stack.enter_async_context(open_all(MemoryStore()))
        right = await stack.enter_async_context(open_all(store))
        await Story(seed, left, right).run(60)
