"""A store, a clock and a few workers, all moved by hand; the model of the rules gets every call."""

import random
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum

from receiver.core.claims import (
    ClaimLimits,
    FollowerClaim,
    HandlerClaim,
    HeldItem,
    Lease,
    RoutingBatch,
    Settlement,
    WorkItem,
)
from receiver.core.deliveries import Delivery
from receiver.core.ports.log import DeliveryLog
from receiver.core.ports.queue import WorkQueue
from receiver.core.ports.reports import Reports
from receiver.core.ports.store import Controls, Store
from receiver.core.retries import RetrySchedule
from receiver.core.rules import POISON_AFTER, Failed, Refused, Release, Result, Succeeded, after_attempt, check_hold
from receiver.core.types import (
    AppendOutcome,
    AttemptOutcome,
    HandlerName,
    HandlerSwitch,
    Trigger,
    WorkerId,
    WorkState,
)
from receiver.core.work import Attempt, Hold, NewWork, WorkFilter, WorkSummary
from tests.doubles import NOON, appended, delivery
from tests.flows.rules_items import Item, Policy
from tests.flows.rules_model import Rules

LEASE = timedelta(seconds=60)
MUCH = 10**9


@dataclass(slots=True)
class Worker:
    """One run of a worker process: the items that it takes for its own, and deliveries read but not routed."""

    name: WorkerId
    queue: WorkQueue
    open: AsyncExitStack
    believed: list[WorkItem] = field(default_factory=list)
    read: RoutingBatch | None = None
    frozen: bool = False


class Ending(Enum):
    """How an attempt ends: its result, and the error that is stored."""

    SUCCESS = Succeeded(), None
    FAILURE = Failed(), "ValueError: no"
    LATER = Failed(timedelta(minutes=7)), "Retry: after=0:07:00"
    GIVING_UP = Refused(), "GiveUp: no"
    POISON = Refused(), "not run again"

    def __init__(self, result: Result, error: str | None) -> None:
        self.result = result
        self.error = error


@dataclass(frozen=True, slots=True)
class Following:
    """What a worker does with the followers of an item that succeeded.

    It runs some of them, of which the last one ends as told. With `goes_on` the next one runs while these are
    recorded, if all succeeded.
    """

    runs: int = 0
    last: Ending = Ending.SUCCESS
    goes_on: bool = False

    def ends(self, item: WorkItem) -> list[tuple[WorkItem, Ending]]:
        """Return how those end that run."""
        ran = item.followers[: self.runs]
        return [(one, self.last if one is ran[-1] else Ending.SUCCESS) for one in ran]

    def next_run(self, item: WorkItem) -> WorkItem | None:
        """Return the follower that runs now, with its own followers."""
        left = item.followers[self.runs :]
        all_succeeded = self.last is Ending.SUCCESS or not self.runs
        return left[0]._replace(followers=left[1:]) if left and self.goes_on and all_succeeded else None


class World:
    """Everything that can happen. Each method acts on the store and the model, and compares them."""

    def __init__(self, store: Store, policies: Sequence[Policy]) -> None:
        self.now = self.steady = NOON
        self.rules = Rules(policies)
        self.workers: list[Worker] = []
        self._store = store
        self._runs = 0
        self._rng = random.Random(3)
        self._open = AsyncExitStack()
        self._log: DeliveryLog
        self._controls: Controls
        self.reports: Reports

    async def begin(self, workers: int) -> None:
        """Open the store and start workers."""
        self._log = await self._open.enter_async_context(self._store.log())
        self._controls = await self._open.enter_async_context(self._store.controls())
        self.reports = await self._open.enter_async_context(self._store.reports())
        for _ in range(workers):
            self.workers.append(await self._worker())

    async def aclose(self) -> None:
        """Close everything."""
        for worker in self.workers:
            await worker.open.aclose()
        await self._open.aclose()

    async def _worker(self) -> Worker:
        self._runs += 1
        opened = AsyncExitStack()
        queue = await opened.enter_async_context(self._store.queue())
        return Worker(WorkerId(f"worker-{self._runs}"), queue, opened)

    def pass_time(self, by: timedelta) -> None:
        """Let time pass."""
        self.now += by
        self.steady += by

    def set_clock(self, by: timedelta) -> None:
        """Set the clock forward, or back. The clock of leases goes on as before."""
        self.now += by
        if by < timedelta(0):
            for rate in self.rules.rates.values():
                rate.set_back()

    # --- deliveries

    async def arrive(self, kind: str, job_id: str | None, *, size: int) -> None:
        """Let a delivery arrive."""
        key = f"delivery-{len(self.rules.arrived) + 1}"
        new = delivery(key, kind=kind, job_id=job_id, body=b"x" * size, received_at=self.now)
        assert (await appended(self._log, new)).outcome is AppendOutcome.ACCEPTED
        self.rules.arrived.append(new)

    async def arrive_again(self, number: int, *, size: int) -> None:
        """Let a delivery arrive once more, perhaps with another body."""
        known = self.rules.arrived[number]
        again = delivery(known.key, kind=known.type, job_id=known.job_id, body=b"x" * size, received_at=self.now)
        expected = AppendOutcome.DUPLICATE if again.body == known.body else AppendOutcome.CONFLICT
        assert (await appended(self._log, again)).outcome is expected

    # --- workers

    async def read(self, worker: Worker, limit: int, max_bytes: int = MUCH) -> None:
        """Read a batch for routing. The worker may route it much later."""
        worker.read = await worker.queue.routing_batch(limit=limit, max_bytes=max_bytes)
        expected: list[Delivery] = []
        room = max_bytes
        for one in self.rules.arrived[self.rules.routed :][:limit]:
            room -= len(one.body)
            if expected and room < 0:
                break
            expected.append(one)
        assert worker.read.after == self.rules.routed_through
        assert [one.delivery for one in worker.read.deliveries] == expected

    async def route(self, worker: Worker, answers: Sequence[tuple[bool, bool]]) -> None:
        """Route the batch that was read; `answers` say in turn whether an item is claimed, and starts at once."""
        batch, worker.read = worker.read, None
        if batch is None or not batch.deliveries:
            return
        work: list[NewWork] = []
        for stored in batch.deliveries:
            for policy in self.rules.wanting(stored.delivery):
                claim, starts = (False, False) if policy.limited else answers[len(work) % len(answers)]
                lane = policy.lane(stored.delivery)
                hold = _hold(policy, stored.delivery.type, stored.delivery.job_id, stored.delivery.received_at)
                work.append(NewWork(stored.seq, policy.name, claim, claim and starts, lane, hold))
        lease = Lease(worker.name, self.steady + LEASE)
        ids = await worker.queue.route(batch, work, lease=lease, now=self.now)
        if batch.after != self.rules.routed_through:
            assert ids is None, "deliveries are routed twice"
            return
        assert ids is not None, "deliveries are not routed"
        made = sorted(one.id for one in await self.listing() if one.id not in self.rules.items)
        assert list(ids) == self.rules.routes(batch, work, made, lease, self.now)
        read = {one.seq: one for one in batch.deliveries}
        lanes: dict[tuple[HandlerName, object], list[WorkItem]] = {}
        for work_id, new in zip(ids, work, strict=True):
            if work_id is not None:
                item = WorkItem(
                    work_id, new.handler, 1, 0, 0, Trigger.DELIVERY, read[new.seq], new.lane is not None
                )
                lanes.setdefault((new.handler, work_id if new.lane is None else new.lane), []).append(item)
        worker.believed += [first._replace(followers=tuple(rest)) for first, *rest in lanes.values()]

    def claimants(
        self, first: int, most: int = 2**31, without: int = 0, *, followers: bool = False
    ) -> list[HandlerClaim]:
        """Return the handlers from number `first` on, without the first `without` of them.

        Workers ask for no followers of a handler with a rate, as a claim uses it up.
        """
        policies = list(self.rules.policies.values())
        first %= len(policies)
        chosen = [*policies[first:], *policies[:first]][without:]
        return [
            HandlerClaim(one.name, one.concurrency, one.interval, most, followers and one.interval is None)
            for one in chosen
        ]

    async def claim(self, worker: Worker, claimants: Sequence[HandlerClaim], wanted: ClaimLimits) -> list[WorkItem]:
        """Claim, and return what was claimed."""
        lease = Lease(worker.name, self.steady + LEASE)
        items = list(await worker.queue.claim(claimants, wanted, lease=lease, now=self.now, steady=self.steady))
        self.rules.claims(claimants, wanted, lease, self.now, self.steady, items)
        worker.believed += items
        return items

    async def ask(self, worker: Worker, claimants: Sequence[HandlerClaim]) -> datetime | None:
        """Ask whether there are suspects, and when there is something to do; return the latter."""
        suspects = await worker.queue.suspects_due(claimants, now=self.now)
        assert suspects == self.rules.suspects_due(claimants, self.now)
        due = await worker.queue.next_due(claimants, now=self.now, steady=self.steady)
        between = self.rules.next_due(claimants, self.now, self.steady)
        assert (due is None) == (between is None)
        if due is not None and between is not None:
            assert between[0] <= max(due, self.now) <= between[1]
        return due

    async def mark(self, worker: Worker, items: Sequence[WorkItem]) -> None:
        """Note that items have started."""
        ids = [one.id for one in items]
        await worker.queue.mark_started(ids, worker.name)
        self.rules.begins(ids, worker.name)

    async def clear_started(self, worker: Worker, items: Sequence[WorkItem]) -> None:
        """Remove that note: the worker is about to die of something else."""
        ids = [one.id for one in items]
        await worker.queue.clear_started(ids, worker.name)
        self.rules.absolves(ids, worker.name)

    async def renew(self, worker: Worker, items: Sequence[WorkItem]) -> None:
        """Renew leases."""
        ids, lease = [one.id for one in items], Lease(worker.name, self.steady + LEASE)
        await worker.queue.renew(ids, lease)
        self.rules.renews(ids, lease)

    async def settle(
        self,
        worker: Worker,
        ends: Sequence[tuple[WorkItem, Ending]],
        following: Sequence[Following] = (Following(),),
    ) -> None:
        """Record how attempts ended, and those of followers. The leases may have ended before.

        `following` says in turn what the worker has done with the followers. Nothing follows an item of which two
        attempts end at once.
        """
        if not ends:
            return
        told: list[tuple[Settlement, Ending]] = []
        run_now: list[tuple[WorkItem, FollowerClaim]] = []
        lease = Lease(worker.name, self.steady + LEASE)
        attempts = Counter(item.id for item, _ in ends)
        for n, (item, ending) in enumerate(ends):
            worker.believed.remove(item)
            if item.deaths >= POISON_AFTER:
                deaths = self.rules.items[item.id].died_running
                assert len(deaths) >= 2, "buried as poison, though no two workers died while it ran"
                ending = Ending.POISON
            told.append((self._settlement(worker, item, ending), ending))
            if ending is Ending.SUCCESS and attempts[item.id] == 1:
                then = following[n % len(following)]
                for one, its_ending in then.ends(item):
                    told.append((self._settlement(worker, one, its_ending)._replace(behind=item.id), its_ending))
                if (running := then.next_run(item)) is not None:
                    run_now.append((running, FollowerClaim(running.id, item.id, lease)))
        claims = [claim for _, claim in run_now]
        answers = await worker.queue.settle([settlement for settlement, _ in told], claims)
        done: set[int] = set()
        expected = [
            self.rules.settles(
                settlement,
                done,
                after=ending.result.after if isinstance(ending.result, Failed) else None,
                refused=isinstance(ending.result, Refused),
                now=self.now,
            )
            for settlement, ending in told
        ]
        expected += [self.rules.goes_on(one, done) for one in claims]
        assert list(answers) == expected
        worker.believed += [one for one, _ in run_now]  # it runs to its end, even if it is not ours
        if any(answers):
            self.rules.notes(self.now)
        self.rules.come_forward(self.now)

    def _settlement(self, worker: Worker, item: WorkItem, ending: Ending) -> Settlement:
        policy = self.rules.policies[item.handler]
        state, due_at = after_attempt(
            ending.result,
            attempt=item.attempt - item.uncounted,
            schedule=RetrySchedule(policy.pauses),
            now=self.now,
            rng=self._rng,
        )
        outcome = AttemptOutcome.FAILED if ending.error else AttemptOutcome.SUCCEEDED
        attempt = Attempt(item.attempt, item.trigger, self.now, self.now, outcome, ending.error)
        holds = state is WorkState.DEAD and policy.holds_when_dead
        return Settlement(item.id, item.handler, worker.name, attempt, state, due_at, item.in_lane, holds)

    async def release_leases(self, worker: Worker, items: Sequence[WorkItem]) -> None:
        """Return items."""
        for one in items:
            worker.believed.remove(one)
        ids = [one.id for one in items]
        await worker.queue.release_leases(ids, worker.name, now=self.now)
        self.rules.gives_back(ids, worker.name, self.now)

    async def restart(self, worker: Worker, *, taken_over: bool) -> None:
        """Let a worker die and start a new one, which may end the leases of the old one."""
        await worker.open.aclose()
        new = self.workers[self.workers.index(worker)] = await self._worker()
        if taken_over:
            leased = await new.queue.expire_leases_of(worker.name, now=self.steady)
            assert leased == self.rules.takes_over(worker.name, self.steady)

    async def once(self, worker: Worker, handler: HandlerName, key: str) -> None:
        """Use a once key."""
        assert await worker.queue.once(handler, key, now=self.now) == self.rules.once(handler, key)

    async def look(self, worker: Worker) -> None:
        """Check the held items that are due."""
        names = list(self.rules.policies)
        found = await worker.queue.held(names, now=self.now, limit=100)
        assert {one.id: one for one in found} == self.rules.held(names, self.now)
        for item in found:
            await self._look_at(worker, item)

    async def _look_at(self, worker: Worker, item: HeldItem) -> None:
        policy = self.rules.policies[item.handler]
        readers = [one.name for one in self.rules.policies.values() if "crawl.page" in one.types]
        pages = await worker.queue.pages(item.job_id, page_type="crawl.page", handlers=readers)
        unhandled = self.rules.open_pages(item.job_id)
        assert pages.last_at == self.rules.last_page(item.job_id)
        assert pages.open_key in unhandled if unhandled else pages.open_key is None
        decision = check_hold(item, pages, quiet=policy.quiet or timedelta(0), now=self.now)
        assert isinstance(decision, Release) == self.rules.may_run(item, pages, self.now)
        if isinstance(decision, Release):
            await worker.queue.release(item.id, now=self.now, note=decision.note)
            self.rules.releases(item.id, self.now, decision.note)
        else:
            assert self.now < decision.at <= item.until
            await worker.queue.recheck(item.id, at=decision.at, note=decision.note)
            self.rules.looks_again(item.id, decision.at, decision.note)

    # --- operators

    async def retry(self, work_ids: Sequence[int]) -> None:
        """Make items due, with a new schedule."""
        assert await self._controls.retry(work_ids, now=self.now) == self.rules.retries(work_ids, self.now)
        self.rules.come_forward(self.now)

    async def bury(self, work_ids: Sequence[int]) -> None:
        """Make items dead, and free their lanes."""
        reason = "nobody wants them"
        buried = await self._controls.bury(work_ids, reason, now=self.now)
        assert buried == self.rules.buries(work_ids, reason, self.now)
        self.rules.come_forward(self.now)

    async def switch(self, handler: HandlerName, to: HandlerSwitch) -> None:
        """Pause, resume or disable."""
        await self._controls.switch(handler, to)
        self.rules.switch(handler, to)

    # --- comparing

    async def listing(self) -> list[WorkSummary]:
        """Return the listing of all work items."""
        return [one async for one in self.reports.work_items(WorkFilter())]

    async def compare(self) -> None:
        """Assert that the store and the model agree, and that lanes and limits are kept."""
        listing = await self.listing()
        assert [one.id for one in listing] == sorted(self.rules.items, reverse=True)
        for one in listing:
            expected = self.rules.summary(self.rules.items[one.id])
            assert one == expected, f"{one} instead of {expected}"
        running = [(one.handler, one.lane) for one in listing if one.state is WorkState.RUNNING]
        lanes = [one for one in running if one[1] is not None]
        assert len(lanes) == len(set(lanes)), f"two of one lane run: {lanes}"
        for policy in self.rules.policies.values():
            count = sum(name == policy.name for name, _ in running)
            assert policy.concurrency is None or count <= policy.concurrency
        for work_id in self.rules.touched:
            await self.compare_history(self.rules.items[work_id])
        self.rules.touched.clear()

    async def compare_history(self, item: Item) -> None:
        """Assert that the attempts of an item are recorded, and that only the last one may be a success."""
        detail = await self.reports.work_item(item.id)
        assert list(detail.attempts) == item.history
        assert [one.number for one in detail.attempts] == list(range(1, len(item.history) + 1))
        successes = [one for one in detail.attempts if one.outcome is AttemptOutcome.SUCCEEDED]
        assert len(successes) == (item.state is WorkState.DONE)


def _hold(policy: Policy, kind: str, job_id: str | None, received_at: datetime) -> Hold | None:
    if policy.quiet is None or kind != "crawl.completed" or job_id is None:
        return None
    until = received_at + policy.at_most
    return Hold(min(received_at + policy.quiet, until), until)
