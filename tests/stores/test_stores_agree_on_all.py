"""As `test_stores_agree.py`, with the rest of a store's life.

Followers, work for later, scheduled runs, once keys, imports, replays, what is taken back, and pruning.
"""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack

import pytest

from receiver.core.activity import PruneRule
from receiver.core.bulk import Imported
from receiver.core.claims import ClaimLimits, DueRun, FollowerClaim, HandlerClaim, LaterWork, Settlement, WorkItem
from receiver.core.deliveries import Delivery
from receiver.core.ports.store import Store
from receiver.core.recorded_actions import NewAction
from receiver.core.schedules import RUN_TYPE, PlannedRun, run_key
from receiver.core.types import AttemptOutcome, DeliveryState, Origin, Trigger, WorkerId, WorkState
from receiver.core.work import Attempt, NewWork, RecordedRun
from receiver.errors import ReceiverError
from receiver.stores.memory import MemoryStore
from receiver.stores.memory.state import MemoryState
from tests.doubles import NOON, delivery
from tests.stores.conftest import open_all
from tests.stores.opened import DAY, DEAD, DONE, LEASE, MUCH, SECOND, WAITING, Opened, ended
from tests.stores.outside import PostgresTables, Tables
from tests.stores.test_stores_agree import HANDLERS, LANES, LIMITS, PACES, WORKERS, Story

_PERIOD = SECOND * 20


class WholeStory(Story):
    """A story of everything that workers, operators and maintenance do to a store."""

    action: int | None = None

    def __init__(self, seed: int, left: Opened, right: Opened, state: MemoryState, tables: Tables | None) -> None:
        """`state` is that of the left store, and `tables` are those of the right one."""
        super().__init__(seed, left, right)
        self.state = state
        self.tables = tables

    async def both(self, ask: Callable[[Opened], Awaitable[object]]) -> object:
        """Return what both answer, also where that is the same error."""

        async def answer(opened: Opened) -> object:
            try:
                return await ask(opened)
            except ReceiverError as exc:
                return type(exc), str(exc)

        both = await super().both(answer)
        if isinstance(self.tables, PostgresTables):  # a conflict uses up a number there
            [(self.state.last_seq,)] = self.tables.select(
                "SELECT last_value FROM deliveries_seq_seq WHERE is_called"
            ) or [(0,)]
            [(self.state.last_work,)] = self.tables.select(
                "SELECT last_value FROM work_items_id_seq WHERE is_called"
            ) or [(0,)]
        return both

    # --- deeds

    async def claim_with_followers(self) -> None:
        names, worker = self.rng.sample(HANDLERS, 2), self.rng.choice(WORKERS)
        claimants = [HandlerClaim(name, LIMITS[name], PACES[name], 99, followers=True) for name in names]
        wanted = ClaimLimits(self.rng.randint(1, 9), self.rng.choice((200, MUCH)), self.rng.randint(0, 2))

        async def ask(opened: Opened) -> list[WorkItem]:
            return list(await opened.queue.claim(claimants, wanted, lease=self.lease(worker), now=self.now))

        items = await self.both(ask)
        assert isinstance(items, list)
        for item in items:
            self.running.append((item.id, worker, item.attempt))
            if item.followers:
                await self.run_followers(item, worker)

    async def run_followers(self, head: WorkItem, worker: WorkerId) -> None:
        """Run an item and those behind it, as a worker does; at times others decide, or the lease ends."""
        rest = list(head.followers)
        while rest and self.rng.random() < 0.9:
            if self.rng.random() < 0.2:
                await self.decide(self.rng.sample(rest, min(2, len(rest))))
            if self.rng.random() < 0.1:
                self.now += LEASE
            ended_now = [rest.pop(0) for _ in range(self.rng.randint(0, len(rest)))]
            ends = [self.end_of(head, worker)]
            ends += [self.end_of(one, worker)._replace(behind=head.id) for one in ended_now]
            if ended_now and self.rng.random() < 0.3:
                state = self.rng.choice((WAITING, DEAD))
                failed = ends[-1].attempt._replace(outcome=AttemptOutcome.FAILED, error="x")
                ends[-1] = ends[-1]._replace(
                    attempt=failed, state=state, holds_lane=self.rng.random() < 0.5, later=()
                )
                rest.clear()
            claims = (
                [FollowerClaim(rest[0].id, head.id, self.lease(worker), self.rng.random() < 0.5)] if rest else []
            )

            async def ask(
                opened: Opened, ends: list[Settlement] = ends, claims: list[FollowerClaim] = claims
            ) -> list[bool]:
                return await opened.settle(*ends, followers=claims)

            answer = await self.both(ask)
            assert isinstance(answer, list)
            if not claims:
                return
            head = rest.pop(0)
            if not answer[-1]:
                return
            self.running.append((head.id, worker, head.attempt))

    async def decide(self, items: Sequence[WorkItem]) -> None:
        ids = [one.id for one in items]
        await self.both(lambda opened: opened.controls.bury(ids, "decided", now=self.now))

    def end_of(self, item: WorkItem, worker: WorkerId) -> Settlement:
        end = ended(item.id, DONE, worker=worker, number=item.attempt, trigger=item.trigger, handler=item.handler)
        attempt = end.attempt._replace(started_at=self.now, ended_at=self.now)
        return end._replace(attempt=attempt, due_at=self.now, later=self.later(item.source.seq))

    def later(self, seq: int) -> tuple[LaterWork, ...]:
        names = self.rng.sample(HANDLERS, self.rng.choice((0, 0, 0, 1, 2)))
        return tuple(LaterWork(seq, name, self.now + SECOND * self.rng.randint(-1, 40)) for name in names)

    async def settle_with_later(self) -> None:
        settlements = []
        for work_id, worker, number in self.some_running():
            if work_id not in self.state.work:
                continue  # pruned since
            row = self.state.work[work_id]
            end = ended(work_id, DONE, worker=worker, number=number, handler=row.handler)
            attempt = end.attempt._replace(started_at=self.now, ended_at=self.now)
            settlements.append(end._replace(attempt=attempt, due_at=self.now, later=self.later(row.seq)))
        await self.both(lambda opened: opened.settle(*settlements))
        await self.count_made()

    async def count_made(self) -> None:
        self.made = self.state.last_work

    async def begin(self) -> None:
        async def ask(opened: Opened) -> int:
            return await opened.controls.begin_action(NewAction("retry", "test", "some", 3), now=self.now)

        number = await self.both(ask)
        assert isinstance(number, int)
        self.action = number

    async def take_back(self) -> None:
        ids, action = self.some_ids(), self.action
        await self.both(lambda opened: opened.controls.take_back(ids, "taken back", now=self.now, action=action))

    async def retry_by_action(self) -> None:
        ids, action = self.some_ids(), self.action
        await self.both(lambda opened: opened.controls.retry(ids, now=self.now, action=action))

    async def import_some(self) -> None:
        ones = []
        for _ in range(self.rng.randint(1, 4)):
            number = self.rng.randint(1, self.appended + 4)
            kind = self.rng.choice(("crawl.page", "crawl.completed"))
            body = self.rng.choice((None, None, b"another"))
            one = delivery(str(number), kind=kind, job_id=f"j{number % 3}", received_at=self.now - DAY, body=body)
            ones.append(Imported(one, self.rng.randint(0, 2)))
        for imported in ones:
            await self.both(lambda opened, one=imported: opened.controls.import_deliveries([one]))  # type: ignore[misc]
        self.appended += 4

    async def replay(self) -> None:
        work = []
        for _ in range(self.rng.randint(1, 4)):
            seq = self.rng.randint(1, self.appended + 1)
            hold = self.hold(self.state.deliveries[seq]) if seq in self.state.deliveries else None
            trigger = self.rng.choice((Trigger.DELIVERY, Trigger.BACKFILL))
            work.append(
                NewWork(seq, self.rng.choice(HANDLERS), lane=self.rng.choice(LANES), hold=hold, trigger=trigger)
            )
        action = self.action
        await self.both(lambda opened: opened.controls.enqueue(work, now=self.now, action=action, seen=len(work)))
        await self.count_made()

    async def record(self) -> None:
        state: WorkState = self.rng.choice((DONE, DEAD))
        error = "x" if state is DEAD else None
        outcome = AttemptOutcome.FAILED if error else AttemptOutcome.SUCCEEDED
        attempt = Attempt(1, Trigger.REPLAY, self.now, self.now, outcome, error)
        runs = [RecordedRun(self.rng.randint(1, self.appended + 1), self.rng.choice(HANDLERS), attempt, state)]
        await self.both(lambda opened: opened.controls.record(runs, now=self.now))
        await self.count_made()

    async def follow_and_run(self) -> None:
        """Follow the schedules, and make what is due, at times twice."""
        begin = NOON + _PERIOD * ((self.now - NOON) // _PERIOD + 1)
        plans = [PlannedRun(name, self.rng.choice(("20s", "20s", "20s", "x")), begin) for name in HANDLERS[:2]]

        async def ask(opened: Opened) -> list[object]:
            return list(await opened.queue.follow_schedules(plans, now=self.now))

        noted = await self.both(ask)
        assert isinstance(noted, list)
        for plan, moment in zip(plans, noted, strict=True):
            if moment > self.now and self.rng.random() < 0.7:
                continue
            stored = Delivery(
                run_key(plan.handler, moment), RUN_TYPE, None, None, None, moment, (), b"{}", Origin.SCHEDULE
            )
            run = DueRun(plan.handler, moment, max(moment, self.now) + _PERIOD, stored)
            for _ in range(self.rng.randint(1, 2)):
                await self.both(lambda opened, run=run: opened.queue.make_run(run, now=self.now))  # type: ignore[misc]
        await self.count_made()

    async def use_once_keys(self) -> None:
        name, key = self.rng.choice(HANDLERS), self.rng.choice("abcdef")
        until = self.rng.choice((None, self.now + SECOND, self.now + LEASE))
        await self.both(lambda opened: opened.queue.once(name, key, now=self.now, until=until))
        await self.both(lambda opened: opened.queue.available_once_keys(name, "abcdef", now=self.now))
        if self.rng.random() < 0.3:
            await self.both(lambda opened: opened.queue.set_once_expiry(name, key, until=until))

    async def prune(self) -> None:
        rule = PruneRule(
            self.now - self.rng.choice((SECOND, LEASE, DAY)),
            bodies=self.rng.random() < 0.5,
            type=self.rng.choice((None, "crawl.*", "crawl.page")),
            state=self.rng.choice((None, DeliveryState.DONE, DeliveryState.DEAD)),
        )
        limit = self.rng.choice((1, 3, 100))
        await self.both(lambda opened: opened.maintenance.prunable(rule))

        async def ask(opened: Opened) -> list[tuple[int, int]]:
            """Return what each store removed in all; the places between its steps are its own."""
            count, size, after = 0, 0, 0
            while True:
                step = await opened.maintenance.prune(rule, after=after, limit=limit, now=self.now)
                count, size = count + step.count, size + step.size
                if step.after is None:
                    return [(count, size)]
                after = step.after

        await self.both(ask)

    async def forget(self) -> None:
        before = self.now - self.rng.choice((SECOND, LEASE, DAY))

        async def ask(opened: Opened) -> None:
            while await opened.maintenance.forget(before, limit=100) == 100:
                pass
            while (await opened.maintenance.compress(limit=10)).after is not None:
                pass

        await self.both(ask)

    async def compare(self) -> None:
        """Compare also what the usual story has none of."""
        await super().compare()
        names = sorted(HANDLERS)

        async def ask(opened: Opened) -> object:
            listed = await opened.listed(with_runs=True)
            keys = [await opened.queue.available_once_keys(name, "abcdef", now=self.now) for name in names]
            action = None if self.action is None else await opened.reports.action(self.action)
            return listed, keys, action

        await self.both(ask)

    def rare(self) -> Sequence[Callable[[], Awaitable[None]]]:
        """Return more deeds than the shorter story has; followers are as usual as claims without them."""
        return (
            *super().rare(),
            self.claim_with_followers,
            self.claim_with_followers,
            self.claim_with_followers,
            self.settle_with_later,
            self.begin,
            self.take_back,
            self.retry_by_action,
            self.import_some,
            self.replay,
            self.record,
            self.follow_and_run,
            self.use_once_keys,
            self.prune,
            self.forget,
        )


@pytest.mark.parametrize("store", ["sqlite", "postgres"], indirect=True)
@pytest.mark.parametrize("seed", range(3))
async def test_both_stores_agree_on_a_whole_life(seed: int, store: Store, tables: Tables | None) -> None:
    """Nothing is asked that a worker, a command or maintenance could not ask."""
    async with AsyncExitStack() as stack:
        memory = MemoryStore()
        left = await stack.enter_async_context(open_all(memory))
        right = await stack.enter_async_context(open_all(store))
        await WholeStory(seed, left, right, memory.state, tables).run(50)
