"""A store with all its faces open, and short words for the calls of the contract."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from receiver.core.claims import ClaimLimits, FollowerClaim, HandlerClaim, Lease, Settlement, WorkItem
from receiver.core.deliveries import Delivery, DeliveryFilter, DeliverySummary
from receiver.core.ports.log import DeliveryLog
from receiver.core.ports.queue import WorkQueue
from receiver.core.ports.reports import Reports
from receiver.core.ports.store import Controls, Maintenance
from receiver.core.types import (
    AppendOutcome,
    AttemptOutcome,
    DeliveryKey,
    DeliveryState,
    HandlerName,
    HandlerSwitch,
    Trigger,
    WorkerId,
    WorkState,
)
from receiver.core.work import Attempt, Hold, NewWork, WorkFilter, WorkSummary
from tests.doubles import NOON, appended, delivery, soon

A, B, C = WorkerId("worker-a"), WorkerId("worker-b"), WorkerId("worker-c")
ONE, TWO = HandlerName("one"), HandlerName("two")
NOTHING = timedelta(0)
MICROSECOND = timedelta(microseconds=1)
SECOND = timedelta(seconds=1)
DAY = timedelta(days=1)
LEASE = timedelta(seconds=60)
AFTER = NOON + LEASE
"""When a lease taken at noon has ended."""
MUCH = 10**9
EVERYTHING = ClaimLimits(1_000, MUCH)
SUSPECTS = ClaimLimits(1_000, MUCH, suspects=True)

DONE, DEAD, HELD = WorkState.DONE, WorkState.DEAD, WorkState.HELD
QUEUED, RUNNING, SKIPPED, WAITING = WorkState.QUEUED, WorkState.RUNNING, WorkState.SKIPPED, WorkState.WAITING


class Opened:
    """A store with its faces open; `queue` and `other` are two workers'. Moments are given as time after noon."""

    def __init__(
        self,
        log: DeliveryLog,
        queue: WorkQueue,
        other: WorkQueue,
        controls: Controls,
        reports: Reports,
        maintenance: Maintenance,
    ) -> None:
        self.log, self.queue, self.other, self.controls, self.reports = log, queue, other, controls, reports
        self.maintenance = maintenance
        self._made = 0

    async def add(self, *deliveries: Delivery) -> list[AppendOutcome]:
        """Append all in one batch and return what became of each."""
        receipts = await soon(asyncio.gather(*[appended(self.log, one) for one in deliveries]))
        assert [receipt.key for receipt in receipts] == [one.key for one in deliveries]
        return [receipt.outcome for receipt in receipts]

    async def route(
        self,
        *handlers: HandlerName,
        worker: WorkerId = A,
        now: timedelta = NOTHING,
        claim: bool = True,
        starts: bool = False,
        lane: str | None = None,
        hold: Hold | None = None,
    ) -> list[int]:
        """Bind everything that is new for these handlers; return the ids of the work items, claimed or not."""
        batch = await self.queue.routing_batch(limit=10_000, max_bytes=MUCH)
        work = [NewWork(one.seq, name, claim, starts, lane, hold) for one in batch.deliveries for name in handlers]
        claimed = await self.queue.route(batch, work, lease=Lease(worker, NOON + now + LEASE), now=NOON + now)
        assert claimed is not None
        ids = [one.id for one in reversed(await self.work(limit=len(work)))]
        assert [one for one in zip(claimed, ids, strict=True) if one[0] not in (None, one[1])] == []
        return ids

    async def items(
        self,
        count: int,
        handler: HandlerName = ONE,
        *,
        worker: WorkerId = A,
        now: timedelta = NOTHING,
        claim: bool = False,
        starts: bool = False,
        lane: str | None = None,
        hold: Hold | None = None,
        body: bytes | None = None,
    ) -> list[int]:
        """Append new deliveries and bind them for this handler; without `claim` they wait, due at once."""
        keys = [f"item-{self._made + n}" for n in range(count)]
        self._made += count
        await self.add(*[delivery(key, body=body, received_at=NOON + now) for key in keys])
        return await self.route(handler, worker=worker, now=now, claim=claim, starts=starts, lane=lane, hold=hold)

    async def in_state(self, state: WorkState, handler: HandlerName = ONE, *, lane: str | None = None) -> int:
        """Append a delivery and bring its work item for this handler into a state; return its id.

        One that is to be queued stands behind another, in a lane of its own unless that is given.
        """
        hold = Hold(after_noon(SECOND), AFTER) if state is HELD else None
        if state is SKIPPED:
            await self.controls.switch(handler, HandlerSwitch.DISABLED)
        if state is QUEUED:
            lane = lane or f"lane-{self._made}"
            await self.items(1, handler, lane=lane)
        claim = state in (RUNNING, DONE, DEAD)
        (work_id,) = await self.items(1, handler, claim=claim, lane=lane, hold=hold)
        if state in (DONE, DEAD):
            await self.settle(ended(work_id, state, error="no" if state is DEAD else None))
        if state is SKIPPED:
            await self.controls.switch(handler, HandlerSwitch.ON)
        assert await self.states(work_id) == [state]
        return work_id

    async def claim(
        self,
        worker: WorkerId = A,
        claimants: Sequence[HandlerName | HandlerClaim] = (ONE,),
        *,
        now: timedelta = NOTHING,
        wanted: ClaimLimits = EVERYTHING,
    ) -> list[WorkItem]:
        """Claim for the usual time; worker B has a connection of its own."""
        moment = NOON + now
        named = [one if isinstance(one, HandlerClaim) else HandlerClaim(one) for one in claimants]
        queue = self.other if worker == B else self.queue
        return list(await queue.claim(named, wanted, lease=Lease(worker, moment + LEASE), now=moment))

    async def claimed(
        self,
        worker: WorkerId = A,
        claimants: Sequence[HandlerName | HandlerClaim] = (ONE,),
        *,
        now: timedelta = NOTHING,
        wanted: ClaimLimits = EVERYTHING,
    ) -> list[int]:
        """Claim, and return the ids."""
        return [item.id for item in await self.claim(worker, claimants, now=now, wanted=wanted)]

    async def settle(self, *settlements: Settlement, followers: Sequence[FollowerClaim] = ()) -> list[bool]:
        """Settle in one batch, and claim followers with it."""
        return list(await self.queue.settle(settlements, followers))

    async def next_due(self, *claimants: HandlerName | HandlerClaim, now: timedelta = NOTHING) -> timedelta | None:
        """Return how long after noon there may be something."""
        named = [one if isinstance(one, HandlerClaim) else HandlerClaim(one) for one in claimants]
        moment = await self.queue.next_due(named, now=NOON + now)
        return None if moment is None else moment - NOON

    async def seen(self, work_id: int) -> WorkSummary:
        """Return a work item as readers see it."""
        return (await self.reports.work_item(work_id)).summary

    async def states(self, *work_ids: int) -> list[WorkState]:
        """Return the states of work items."""
        return [(await self.seen(work_id)).state for work_id in work_ids]

    async def untouched(self, *work_ids: int) -> bool:
        """Tell whether nobody has attempted these items."""
        return not any([(await self.seen(one)).attempts or await self.history(one) for one in work_ids])

    async def history(self, work_id: int) -> list[Attempt]:
        """Return the attempts of a work item that have ended."""
        return list((await self.reports.work_item(work_id)).attempts)

    async def work(self, **wanted: object) -> list[WorkSummary]:
        """Return a listing of work items."""
        filters = replace(WorkFilter(), **wanted)  # type: ignore[arg-type]
        return [one async for one in self.reports.work_items(filters)]

    async def listed(self, **wanted: object) -> list[DeliverySummary]:
        """Return a listing of deliveries."""
        filters = replace(DeliveryFilter(), **wanted)  # type: ignore[arg-type]
        return [one async for one in self.reports.deliveries(filters)]

    async def keys(self, **wanted: object) -> list[str]:
        """Return the keys of a listing of deliveries."""
        return [one.key for one in await self.listed(**wanted)]

    async def detail_state(self, key: str) -> DeliveryState:
        """Return the state of a delivery, whatever it is."""
        return (await self.reports.detail(DeliveryKey(key))).summary.state

    async def work_of(self, key: str = "k") -> WorkSummary:
        """Return the only work item of a delivery."""
        (work,) = (await self.reports.detail(DeliveryKey(key))).work
        return work

    async def check_lanes(self) -> None:
        """No lane has two items that may run, and where one is queued another is before it to wait for."""
        lanes: dict[tuple[str, str], list[WorkSummary]] = {}
        for one in await self.work():
            if one.lane is not None:
                lanes.setdefault((one.handler, one.lane), []).append(one)
        for lane, items in lanes.items():
            heads = [one for one in items if one.state in (WAITING, RUNNING) or one.holds_lane]
            assert len(heads) <= 1, f"{lane} has two heads"
            assert heads or not [one for one in items if one.state is QUEUED], f"{lane} is stuck"


def ended(
    work_id: int,
    state: WorkState = DONE,
    *,
    worker: WorkerId = A,
    number: int = 1,
    error: str | None = None,
    due: timedelta = NOTHING,
    at: timedelta = SECOND,
    holds_lane: bool = False,
    trigger: Trigger = Trigger.DELIVERY,
    handler: HandlerName = ONE,
    in_lane: bool = True,
    behind: int | None = None,
) -> Settlement:
    """Return the end of an attempt that took a second."""
    outcome = AttemptOutcome.SUCCEEDED if error is None else AttemptOutcome.FAILED
    trace = error and f"Traceback: {error}"
    attempt = Attempt(number, trigger, after_noon(at) - SECOND, after_noon(at), outcome, error, trace)
    due_at = after_noon(due)
    return Settlement(work_id, handler, worker, attempt, state, due_at, in_lane, holds_lane, behind=behind)


def going_on(work_id: int, behind: int, *, worker: WorkerId = A, until: timedelta = LEASE) -> FollowerClaim:
    """Return the claim of a follower that runs now."""
    return FollowerClaim(work_id, behind, Lease(worker, after_noon(until)))


def after_noon(passed: timedelta) -> datetime:
    """Return the moment this long after noon."""
    return NOON + passed
