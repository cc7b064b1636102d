"""The work items of a store in memory: the rules of queue and controls, as plainly as they can be said."""

from bisect import bisect_left
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from operator import attrgetter
from typing import TypeVar

from receiver.core.claims import (
    ClaimLimits,
    HandlerClaim,
    HeldItem,
    JobPages,
    Lease,
    RoutingBatch,
    Settlement,
    WorkItem,
)
from receiver.core.deliveries import StoredDelivery
from receiver.core.rules import Pace, initial_state, suspicious
from receiver.core.types import (
    OPEN_STATES,
    AttemptOutcome,
    DeliveryKey,
    HandlerName,
    HandlerSwitch,
    Origin,
    Trigger,
    WorkerId,
    WorkState,
)
from receiver.core.work import LOST, Attempt, NewWork
from receiver.stores.memory.once_keys import MemoryOnces

T = TypeVar("T")
_NEVER = datetime(1970, 1, 1, tzinfo=UTC)
_ID = attrgetter("id")


@dataclass(slots=True)
class WorkRow:
    """A work item as it changes."""

    id: int
    source: int
    handler: HandlerName
    state: WorkState
    due_at: datetime
    first_trigger: Trigger = Trigger.DELIVERY
    lane: str | None = None
    heads_lane: bool = False
    hold_until: datetime | None = None
    worker: WorkerId | None = None
    begun: bool = False
    attempts: int = 0
    uncounted: int = 0
    lost: int = 0
    deaths: int = 0
    suspect: bool = False
    note: str | None = None
    last_error: str | None = None
    history: list[Attempt] = field(default_factory=list)

    def held_by(self, worker: WorkerId) -> bool:
        """Tell whether this worker has the lease."""
        return self.state is WorkState.RUNNING and self.worker == worker

    def trigger(self) -> Trigger:
        """Return why the present attempt runs."""
        return self.first_trigger if self.attempts == 1 else Trigger.RETRY


class MemoryQueue(MemoryOnces):
    """A WorkQueue and Controls over lists."""

    def __init__(self) -> None:
        super().__init__()
        self._work: list[WorkRow] = []
        self._last_work = 0
        self._switches: dict[HandlerName, HandlerSwitch] = {}
        self._paced_until: dict[HandlerName, datetime] = {}

    # --- WorkQueue

    async def routing_batch(self, *, limit: int, max_bytes: int) -> RoutingBatch:
        """Return the oldest deliveries that no worker has routed."""
        found = self._new()[:limit]
        backfilled = any(one.delivery.origin is Origin.BACKFILL for one in self._deliveries)
        return RoutingBatch(
            self._routed, tuple(fitting(found, max_bytes, lambda one: len(one.delivery.body))), backfilled
        )

    async def route(
        self, batch: RoutingBatch, work: Sequence[NewWork], *, lease: Lease, now: datetime
    ) -> Sequence[int | None] | None:
        """Make work items and mark the batch as routed, unless another worker was first."""
        if batch.after != self._routed:
            return None
        self._routed = batch.deliveries[-1].seq
        made = [self._make(one, lease, now) for one in work]
        self._changes.set()
        return [one.id if one.state is WorkState.RUNNING else None for one in made]

    async def claim(
        self, claimants: Sequence[HandlerClaim], wanted: ClaimLimits, *, lease: Lease, now: datetime
    ) -> Sequence[WorkItem]:
        """Claim what is due, after taking back what dead workers held."""
        self._tidy([one.handler for one in claimants], now)
        due: list[WorkRow] = []
        for one in claimants:
            due += self._due(one, wanted, now)[: wanted.limit - len(due)]
        chosen = fitting(due, wanted.max_bytes, lambda one: len(self._source(one).delivery.body))
        for one in claimants:
            begun = sum(item.handler == one.handler for item in chosen)
            if one.interval is not None and begun:
                pace = Pace(one.interval, self._paced_until.get(one.handler, _NEVER))
                self._paced_until[one.handler] = pace.after(begun, now)
        return [self._claimed(one, lease, begun=n < wanted.starting) for n, one in enumerate(chosen)]

    async def suspects_due(self, claimants: Sequence[HandlerClaim], *, now: datetime) -> bool:
        """Tell whether an item is due that may have killed its worker."""
        return any(one.suspect and one.due_at <= now for one in self._claimable(claimants, WorkState.WAITING))

    async def mark_started(self, work_ids: Sequence[int], worker: WorkerId) -> None:
        """Note that items have begun."""
        for one in self._leased(work_ids, worker):
            one.begun = True

    async def clear_started(self, work_ids: Sequence[int], worker: WorkerId) -> None:
        """Take back that items have begun."""
        for one in self._leased(work_ids, worker):
            one.begun = False

    async def renew(self, work_ids: Sequence[int], lease: Lease) -> None:
        """Move the end of the lease."""
        for one in self._leased(work_ids, lease.worker):
            one.due_at = lease.until

    async def settle(self, settlements: Sequence[Settlement]) -> Sequence[bool]:
        """Record attempts and move their work items where the worker still holds them."""
        settled = [self._settle(one) for one in settlements]
        if settlements:
            now = max(one.attempt.ended_at for one in settlements)
            self._promote([one.work_id for one, done in zip(settlements, settled, strict=True) if done], now)
            self._changes.set()
        return settled

    async def release_leases(self, work_ids: Sequence[int], worker: WorkerId, *, now: datetime) -> None:
        """Make items due at once and uncount the attempt."""
        for one in self._leased(work_ids, worker):
            one.state, one.worker, one.due_at, one.begun = WorkState.WAITING, None, now, False
            one.attempts -= 1
        self._changes.set()

    async def expire_leases_of(self, worker: WorkerId, *, now: datetime) -> int:
        """End all leases of a dead worker."""
        leased = [one for one in self._work if one.held_by(worker)]
        for one in leased:
            one.due_at = now
        return len(leased)

    async def next_due(self, claimants: Sequence[HandlerClaim], *, now: datetime) -> datetime | None:
        """Return when there may be something to claim or to look at."""
        intervals = {one.handler: one.interval for one in claimants}
        moments = [one.due_at for one in self._work if one.state is WorkState.RUNNING]
        for one in self._claimable(claimants, WorkState.WAITING, WorkState.HELD):
            interval = intervals[one.handler]
            moment = one.due_at
            if interval is not None and one.state is WorkState.WAITING:
                pace = Pace(interval, self._paced_until.get(one.handler, _NEVER))
                moment = max(moment, pace.begin_from(now))
            moments.append(moment)
        if any(self._skippable(one) for one in self._work if one.handler in intervals):
            moments.append(now)
        return min(moments, default=None)

    async def held(self, handlers: Sequence[HandlerName], *, now: datetime, limit: int) -> Sequence[HeldItem]:
        """Return held items that are due for a look."""
        claimants = [HandlerClaim(name) for name in handlers]
        due = [one for one in self._claimable(claimants, WorkState.HELD) if one.due_at <= now]
        return [self._held_item(one) for one in sorted(due, key=lambda one: one.due_at)[:limit]]

    async def backfilled(self, keys: Collection[DeliveryKey]) -> frozenset[DeliveryKey]:
        """Return those of the keys that a backfill has brought in."""
        found = [self._deliveries[self._place(self._by_key[key])] for key in keys if key in self._by_key]
        return frozenset(one.delivery.key for one in found if one.delivery.origin is Origin.BACKFILL)

    async def pages(self, job_id: str, *, page_type: str, handlers: Sequence[HandlerName]) -> JobPages:
        """Return how far these handlers have come with the pages of a job."""
        pages = [
            one for one in self._deliveries if one.delivery.job_id == job_id and one.delivery.type == page_type
        ]
        unhandled = {one.source for one in self._work if one.handler in handlers and one.state in OPEN_STATES}
        missing = [one.delivery.key for one in pages if one.seq > self._routed or one.seq in unhandled]
        return JobPages(pages[-1].delivery.received_at if pages else None, missing[-1] if missing else None)

    async def recheck(self, work_id: int, *, at: datetime, note: str) -> None:
        """Keep a held item until the next look."""
        for one in self._chosen([work_id]):
            if one.state is WorkState.HELD:
                one.due_at, one.note = at, note

    async def release(self, work_id: int, *, now: datetime, note: str) -> None:
        """Make a held item due."""
        for one in self._chosen([work_id]):
            if one.state is WorkState.HELD:
                one.state = WorkState.WAITING if one.lane is None else WorkState.QUEUED
                one.due_at, one.note = now, note
        self._promote([work_id], now)

    async def switches(self) -> Mapping[HandlerName, HandlerSwitch]:
        """Return the handlers that are not on."""
        return dict(self._switches)

    async def changed(self) -> None:
        """Return when something was appended or decided since the last call."""
        await self._changes.wait()
        self._changes.clear()

    # --- Controls

    async def retry(self, work_ids: Sequence[int], *, now: datetime) -> int:
        """Make items due at once, with a fresh schedule."""
        states = (WorkState.DEAD, WorkState.SKIPPED, WorkState.WAITING, WorkState.HELD)
        chosen = [one for one in self._chosen(work_ids) if one.state in states and one.source not in self._pruned]
        for one in chosen:
            one.state = WorkState.WAITING if one.lane is None or one.heads_lane else WorkState.QUEUED
            one.due_at, one.hold_until = now, None
            one.uncounted, one.lost, one.deaths, one.suspect = one.attempts, 0, 0, False
        self._promote(work_ids, now)
        self._changes.set()
        return len(chosen)

    async def bury(self, work_ids: Sequence[int], reason: str, *, now: datetime) -> int:
        """Make items dead, and release their lanes."""
        states = (WorkState.WAITING, WorkState.QUEUED, WorkState.HELD)
        chosen = [
            one
            for one in self._chosen(work_ids)
            if one.state in states or (one.state is WorkState.DEAD and one.heads_lane)
        ]
        for one in chosen:
            one.last_error = one.last_error if one.state is WorkState.DEAD else reason
            one.state, one.heads_lane = WorkState.DEAD, False
        self._promote(work_ids, now)
        self._changes.set()
        return len(chosen)

    async def switch(self, handler: HandlerName, to: HandlerSwitch) -> None:
        """Set a handler's switch."""
        self._switches[handler] = to
        if to is HandlerSwitch.ON:
            del self._switches[handler]
        self._changes.set()

    # --- inside

    def _source(self, work: WorkRow) -> StoredDelivery:
        return self._deliveries[self._place(work.source)]

    def _chosen(self, work_ids: Sequence[int]) -> list[WorkRow]:
        places = ((work_id, bisect_left(self._work, work_id, key=_ID)) for work_id in sorted(set(work_ids)))
        return [self._work[at] for work_id, at in places if at < len(self._work) and self._work[at].id == work_id]

    def _leased(self, work_ids: Sequence[int], worker: WorkerId) -> list[WorkRow]:
        return [one for one in self._chosen(work_ids) if one.held_by(worker)]

    def _make(self, new: NewWork, lease: Lease | None, now: datetime) -> WorkRow:
        busy = new.lane is not None and self._head(new.handler, new.lane) is not None
        state = initial_state(new, self._switches.get(new.handler, HandlerSwitch.ON), lane_busy=busy)
        holder = lease if state is WorkState.RUNNING else None
        self._last_work += 1
        work = WorkRow(
            id=self._last_work,
            first_trigger=new.trigger,
            source=new.seq,
            handler=new.handler,
            state=state,
            due_at=holder.until if holder else new.hold.look_at if new.hold else now,
            lane=new.lane,
            heads_lane=new.lane is not None and state in (WorkState.WAITING, WorkState.RUNNING),
            hold_until=new.hold.until if new.hold else None,
            note=new.hold.note if new.hold else None,
            worker=holder.worker if holder else None,
            begun=holder is not None and new.starts,
            attempts=int(holder is not None),
        )
        self._work.append(work)
        return work

    def _head(self, handler: HandlerName, lane: str) -> WorkRow | None:
        heads = (one for one in self._work if one.heads_lane and (one.handler, one.lane) == (handler, lane))
        return next(heads, None)

    def _promote(self, work_ids: Sequence[int], now: datetime) -> None:
        """Let the next ones of these items' lanes come forward where nobody is at the head."""
        for handler, lane in {(one.handler, one.lane) for one in self._chosen(work_ids)}:
            if lane is None or self._head(handler, lane) is not None:
                continue
            for one in self._work:
                if one.state is WorkState.QUEUED and (one.handler, one.lane) == (handler, lane):
                    one.state, one.heads_lane, one.due_at = WorkState.WAITING, True, now
                    break

    def _claimable(self, claimants: Sequence[HandlerClaim], *states: WorkState) -> list[WorkRow]:
        names = {one.handler for one in claimants} - self._switches.keys()
        return [one for one in self._work if one.handler in names and one.state in states]

    def _due(self, claimant: HandlerClaim, wanted: ClaimLimits, now: datetime) -> list[WorkRow]:
        limit = min(wanted.limit, claimant.most)
        if claimant.concurrency is not None:
            running = sum(one.handler == claimant.handler and one.state is WorkState.RUNNING for one in self._work)
            limit = min(limit, claimant.concurrency - running)
        if claimant.interval is not None:
            pace = Pace(claimant.interval, self._paced_until.get(claimant.handler, _NEVER))
            limit = min(limit, pace.allows(now))
        waiting = self._claimable([claimant], WorkState.WAITING)
        due = [one for one in waiting if one.due_at <= now and one.suspect == wanted.suspects]
        return sorted(due, key=lambda one: one.due_at)[: max(0, limit)]

    def _skippable(self, work: WorkRow) -> bool:
        waits = work.state in OPEN_STATES and work.state is not WorkState.RUNNING
        return waits and self._switches.get(work.handler) is HandlerSwitch.DISABLED

    def _tidy(self, handlers: Sequence[HandlerName], now: datetime) -> None:
        for one in self._work:
            if one.state is WorkState.RUNNING and one.due_at <= now:
                one.history.append(Attempt(one.attempts, one.trigger(), None, now, AttemptOutcome.LOST, LOST))
                one.lost, one.deaths = one.lost + 1, one.deaths + one.begun
                one.suspect = suspicious(lost=one.lost, deaths=one.deaths)
                one.state, one.worker, one.begun, one.last_error = WorkState.WAITING, None, False, LOST
                one.uncounted += 1
            if one.handler in handlers and self._skippable(one):
                one.state, one.heads_lane = WorkState.SKIPPED, False

    def _claimed(self, work: WorkRow, lease: Lease, *, begun: bool) -> WorkItem:
        work.state, work.worker, work.due_at, work.begun = WorkState.RUNNING, lease.worker, lease.until, begun
        work.attempts += 1
        return WorkItem(
            id=work.id,
            handler=work.handler,
            attempt=work.attempts,
            uncounted=work.uncounted,
            deaths=work.deaths,
            trigger=work.trigger(),
            source=self._source(work),
        )

    def _settle(self, settlement: Settlement) -> bool:
        leased = self._leased([settlement.work_id], settlement.worker)
        if not leased or leased[0].attempts != settlement.attempt.number:
            return False
        work = leased[0]
        work.state, work.due_at, work.worker = settlement.state, settlement.due_at, None
        work.begun = False
        work.deaths += settlement.died
        holds = settlement.state is WorkState.DEAD and settlement.holds_lane
        work.heads_lane &= settlement.state is WorkState.WAITING or holds
        work.last_error = settlement.attempt.error
        work.history.append(settlement.attempt)
        return True

    def _held_item(self, work: WorkRow) -> HeldItem:
        delivery = self._source(work).delivery
        return HeldItem(
            id=work.id,
            handler=work.handler,
            event_type=delivery.type,
            job_id=delivery.job_id or "",
            received_at=delivery.received_at,
            until=work.hold_until or delivery.received_at,
        )


def fitting(found: Sequence[T], max_bytes: int, size: Callable[[T], int]) -> list[T]:
    """Return the first ones that fit together, but always one."""
    fit: list[T] = []
    for one in found:
        max_bytes -= size(one)
        if fit and max_bytes < 0:
            break
        fit.append(one)
    return fit
