"""The work queue of a store in memory."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain, compress, takewhile

from typing_extensions import override

from receiver.core.activity import WorkerSign, duration_bucket, to_minute
from receiver.core.batches import BatchSize, first_batch
from receiver.core.claims import (
    ClaimLimits,
    DueRun,
    FollowerClaim,
    HandlerClaim,
    HeldItem,
    JobPages,
    Lease,
    RoutingBatch,
    Settlement,
    WorkItem,
)
from receiver.core.ports.queue import WorkQueue
from receiver.core.rules import Pace, followers_each, later_work, suspicious, with_worker
from receiver.core.schedules import FORGOTTEN_AFTER, KEPT_RUNS, PlannedRun, RunOutcome, counts_still, run_keys
from receiver.core.types import (
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
from receiver.core.work_states import CLAIMABLE, LEASED, OPEN, SKIPPABLE, Cause, end_cause
from receiver.stores.memory.state import NEVER, MemoryState, WorkRow


@dataclass(eq=False)
class MemoryQueue(WorkQueue):
    """A work queue of workers that all live in this process."""

    state: MemoryState
    most_claimed: int = 256

    @override
    async def changed(self) -> None:
        await self.state.changed()

    @override
    async def routing_batch(self, *, limit: int, max_bytes: int) -> RoutingBatch:
        found = first_batch(self.state.unrouted(), limit, max_bytes, lambda one: len(one.delivery.body))
        backfilled = any(one.delivery.origin is Origin.BACKFILL for one in self.state.deliveries.values())
        return RoutingBatch(self.state.routed, tuple(found), backfilled)

    @override
    async def route(
        self, batch: RoutingBatch, work: Sequence[NewWork], *, lease: Lease, now: datetime
    ) -> Sequence[int | None] | None:
        if batch.after != self.state.routed:
            return None
        self.state.routed = batch.deliveries[-1].seq
        made = [self.state.make(one, lease, now) for one in work]
        self.state.changes.set()
        ours = with_worker(work, [one.state for one in made])
        return [one.id if is_ours else None for one, is_ours in zip(made, ours, strict=True)]

    @override
    async def backfilled(self, keys: Collection[DeliveryKey]) -> frozenset[DeliveryKey]:
        found = [self.state.deliveries[self.state.seqs[key]] for key in keys if key in self.state.seqs]
        return frozenset(one.delivery.key for one in found if one.delivery.origin is Origin.BACKFILL)

    @override
    async def switches(self) -> Mapping[HandlerName, HandlerSwitch]:
        return dict(self.state.switches)

    @override
    async def claim(
        self,
        claimants: Sequence[HandlerClaim],
        wanted: ClaimLimits,
        *,
        lease: Lease,
        now: datetime,
        steady: datetime | None = None,
    ) -> Sequence[WorkItem]:
        self.state.follow_clock_back(now)
        self._end_leases(now, steady or now)
        for skipped in [row for one in claimants for row in self._skippable(one.handler)]:
            skipped.move(Cause.DISABLED)
        due: list[WorkRow] = []
        for one in claimants:
            due += self._due(one, wanted, now)[: wanted.limit - len(due)]
        chosen = first_batch(due, wanted.limit, wanted.max_bytes, self._size)
        for one in claimants:
            starts = sum(item.handler == one.handler for item in chosen)
            if (pace := self._pace(one)) is not None and starts:
                self.state.paced_until[one.handler] = pace.after(starts, now)
        for n, row in enumerate(chosen):
            row.move(Cause.CLAIMED)
            row.lease(lease.worker, lease.until, started=n < wanted.starting)
        followers = self._followers(claimants, chosen, wanted)
        return [self._item(row, followers.get(row.id, ())) for row in chosen]

    @override
    async def suspects_due(self, claimants: Sequence[HandlerClaim], *, now: datetime) -> bool:
        return any(
            one.suspect and one.due_at <= now
            for claimant in claimants
            for one in self._of(claimant.handler, *CLAIMABLE)
        )

    @override
    async def settle(
        self, settlements: Sequence[Settlement], followers: Sequence[FollowerClaim] = ()
    ) -> Sequence[bool]:
        succeeded: set[int] = set()
        settled = []
        alone = list(chain.from_iterable([one.apart() for one in settlements]))
        for one in alone:
            settled.append(self._settle(one, succeeded))
            if settled[-1] and one.state is WorkState.DONE:
                succeeded.add(one.work_id)
        claimed = [self._follow(one, succeeded) for one in followers]
        if recorded := list(compress(alone, settled)):
            now = max(one.attempt.ended_at for one in recorded)
            self.state.note_time(now)
            self.state.free_lanes([one.work_id for one in recorded], now)
            for one in recorded:
                handler, attempt = self.state.work[one.work_id].handler, one.attempt
                self.state.minutes[to_minute(now), handler, attempt.outcome, duration_bucket(attempt.took)] += 1
            for work in later_work(recorded):
                self.state.make(work, None, now)
            self.state.changes.set()
        return [*settled, *claimed]

    @override
    async def next_due(
        self, claimants: Sequence[HandlerClaim], *, now: datetime, steady: datetime | None = None
    ) -> datetime | None:
        ends = [one.lease_until for one in self.state.work.values() if one.lease_until is not None]
        moments = [now + (end - (steady or now)) for end in ends]
        for claimant in claimants:
            if self._skippable(claimant.handler):
                moments.append(now)
            pace = self._pace(claimant)
            earliest = NEVER if pace is None else pace.begin_from(now)
            waiting = self._of(claimant.handler, *CLAIMABLE) if self._room(claimant) > 0 else []
            moments += [max(one.due_at, earliest) for one in waiting]
            held = self._of(claimant.handler, WorkState.HELD)
            moments += [one.recheck_at for one in held if one.recheck_at is not None]
        return min(moments, default=None)

    def _end_leases(self, now: datetime, steady: datetime) -> None:
        for one in self.state.work.values():
            if one.state in LEASED and one.lease_until is not None and one.lease_until <= steady:
                one.history.append(Attempt(one.attempts, one.trigger(), None, now, AttemptOutcome.LOST, LOST))
                one.lost, one.uncounted = one.lost + 1, one.uncounted + (not one.suspect)
                one.deaths += one.started and one.worker is None
                one.suspect = suspicious(suspect=one.suspect, started=one.started, lost=one.lost)
                one.last_error, one.due_at = LOST, now
                self.state.note_time(now)
                one.move(Cause.LEASE_LOST)
                one.end_lease()

    def _skippable(self, handler: HandlerName) -> list[WorkRow]:
        if self.state.switch_of(handler) is not HandlerSwitch.DISABLED:
            return []
        return [one for one in self.state.work.values() if one.handler == handler and one.state in SKIPPABLE]

    def _of(self, handler: HandlerName, *states: WorkState) -> list[WorkRow]:
        """Return the items of a handler in these states; none if it is paused or disabled."""
        if handler in self.state.switches:
            return []
        return [one for one in self.state.work.values() if one.handler == handler and one.state in states]

    def _due(self, claimant: HandlerClaim, wanted: ClaimLimits, now: datetime) -> list[WorkRow]:
        limit = min(wanted.limit, self._room(claimant))
        if (pace := self._pace(claimant)) is not None:
            limit = min(limit, pace.allows(now))
        waiting = self._of(claimant.handler, *CLAIMABLE)
        due = [one for one in waiting if one.due_at <= now and one.suspect == wanted.suspects]
        return sorted(due, key=lambda one: one.due_at)[: max(0, limit)]

    def _room(self, claimant: HandlerClaim) -> int:
        """Return how many items may be claimed within the limits of this claimant and of all workers."""
        if claimant.concurrency is None:
            return claimant.most
        return min(claimant.most, claimant.concurrency - len(self._of(claimant.handler, *LEASED)))

    def _pace(self, claimant: HandlerClaim) -> Pace | None:
        if claimant.interval is None:
            return None
        return Pace(claimant.interval, self.state.paced_until.get(claimant.handler, NEVER))

    def _size(self, row: WorkRow) -> int:
        return len(self.state.deliveries[row.seq].delivery.body)

    def _followers(
        self, claimants: Sequence[HandlerClaim], claimed: Sequence[WorkRow], wanted: ClaimLimits
    ) -> dict[int, Sequence[WorkRow]]:
        """Return the followers that are claimed with each item, by its id."""
        wanting = {one.handler for one in claimants if one.followers}
        heads = [one for one in claimed if one.lane is not None and one.handler in wanting]
        each = followers_each(wanted, len(claimed), len(heads))
        taken = BatchSize(wanted.limit, wanted.max_bytes, len(claimed), sum(map(self._size, claimed)))
        return {
            head.id: list(
                takewhile(
                    lambda row: row.follows() and taken.take(self._size(row)), self.state.queue_behind(head)[:each]
                )
            )
            for head in heads
        }

    def _item(self, row: WorkRow, followers: Sequence[WorkRow] = ()) -> WorkItem:
        return WorkItem(
            id=row.id,
            handler=row.handler,
            attempt=max(row.attempts, 1),
            uncounted=row.uncounted,
            deaths=row.deaths,
            trigger=row.trigger() if row.attempts else row.first_trigger,
            source=self.state.deliveries[row.seq],
            in_lane=row.lane is not None,
            followers=tuple(self._item(one) for one in followers),
        )

    def _follow(self, follower: FollowerClaim, succeeded: Collection[int]) -> bool:
        row = self.state.work.get(follower.work_id)
        if row is None or follower.behind not in succeeded or not row.follows():
            return False
        row.move(Cause.FOLLOWED)
        row.lease(follower.lease.worker, follower.lease.until, started=follower.started)
        return True

    def _settle(self, settlement: Settlement, succeeded: Collection[int]) -> bool:
        row = self.state.work.get(settlement.work_id)
        if row is None:
            return False
        if settlement.behind is not None:
            if settlement.behind not in succeeded or not row.follows():
                return False
            if settlement.state is WorkState.DONE:
                row.move(Cause.SUCCEEDED_BEHIND)
                row.attempts, row.last_error = 1, None
                row.history.append(settlement.attempt)
                return True
            row.move(Cause.FOLLOWED)
            row.lease(settlement.worker, settlement.attempt.ended_at, started=True)
        if not row.leased_by(settlement.worker) or row.attempts != settlement.attempt.number:
            return False
        was_head = row.heads_lane
        row.move(end_cause(settlement.state))
        row.end_lease()
        row.heads_lane |= was_head and settlement.state is WorkState.DEAD and settlement.holds_lane
        row.due_at = settlement.due_at
        row.deaths += settlement.died
        row.last_error = settlement.attempt.error
        row.history.append(settlement.attempt)
        return True

    @override
    async def enlist(self, worker: WorkerId) -> None:
        """Do nothing: all workers live in this process."""

    @override
    async def sign_on(self, sign: WorkerSign, *, now: datetime) -> None:
        self.state.workers[sign.name] = sign, now

    @override
    async def sign_off(self, worker: WorkerId) -> None:
        self.state.workers.pop(worker, None)

    @override
    async def expire_dead(self, worker: WorkerId, *, steady: datetime) -> Sequence[WorkerId]:
        return ()

    @override
    async def mark_started(self, work_ids: Sequence[int], worker: WorkerId) -> None:
        for one in self._leased(work_ids, worker):
            one.started = True

    @override
    async def clear_started(self, work_ids: Sequence[int], worker: WorkerId) -> None:
        for one in self._leased(work_ids, worker):
            one.started = False

    @override
    async def renew(self, work_ids: Sequence[int], lease: Lease) -> None:
        for one in self._leased(work_ids, lease.worker):
            one.lease_until = lease.until

    @override
    async def release_leases(self, work_ids: Sequence[int], worker: WorkerId, *, now: datetime) -> None:
        for one in self._leased(work_ids, worker):
            self.state.note_time(now)
            one.move(Cause.RETURNED)
            one.end_lease()
            one.due_at = now
            one.attempts -= 1
        self.state.changes.set()

    @override
    async def expire_leases_of(self, worker: WorkerId, *, now: datetime) -> int:
        leased = [one for one in self.state.work.values() if one.leased_by(worker)]
        for one in leased:
            one.lease_until, one.worker = now, None
        return len(leased)

    def _leased(self, work_ids: Sequence[int], worker: WorkerId) -> list[WorkRow]:
        return [one for one in self.state.chosen(work_ids) if one.leased_by(worker)]

    @override
    async def held(self, handlers: Sequence[HandlerName], *, now: datetime, limit: int) -> Sequence[HeldItem]:
        names = set(handlers) - self.state.switches.keys()
        due = [
            (one.recheck_at, one.id)
            for one in self.state.work.values()
            if one.handler in names
            and one.state is WorkState.HELD
            and one.recheck_at is not None
            and one.recheck_at <= now
        ]
        return [self._held_item(self.state.work[work_id]) for _, work_id in sorted(due)[:limit]]

    @override
    async def pages(self, job_id: str, *, page_type: str, handlers: Sequence[HandlerName]) -> JobPages:
        state = self.state
        pages = [
            one
            for one in state.deliveries.values()
            if (one.delivery.job_id, one.delivery.type) == (job_id, page_type)
        ]
        unhandled = {
            one.seq
            for one in state.work.values()
            if one.handler in handlers and one.state in OPEN and one.first_trigger is not Trigger.LATER
        }
        missing = [one.delivery.key for one in pages if one.seq > state.routed or one.seq in unhandled]
        return JobPages(pages[-1].delivery.received_at if pages else None, missing[-1] if missing else None)

    @override
    async def recheck(self, work_id: int, *, at: datetime, note: str) -> None:
        if (one := self._held(work_id)) is not None:
            one.recheck_at, one.note = min(at, one.hold_until or at), note

    @override
    async def release(self, work_id: int, *, now: datetime, note: str) -> None:
        if (one := self._held(work_id)) is not None:
            one.move(Cause.HOLD_ENDED if one.lane is None else Cause.HOLD_ENDED_IN_LANE)
            one.due_at, one.note = now, note
            self.state.note_time(now)
            self.state.free_lanes([work_id], now)

    def _held(self, work_id: int) -> WorkRow | None:
        one = self.state.work.get(work_id)
        return one if one is not None and one.state is WorkState.HELD else None

    def _held_item(self, row: WorkRow) -> HeldItem:
        delivery = self.state.deliveries[row.seq].delivery
        return HeldItem(
            id=row.id,
            handler=row.handler,
            event_type=delivery.type,
            job_id=delivery.job_id or "",
            received_at=delivery.received_at,
            until=row.hold_until or delivery.received_at,
        )

    @override
    async def once(self, handler: HandlerName, key: str, *, now: datetime, until: datetime | None = None) -> bool:
        first = self._is_available(handler, key, now)
        if first:
            self.state.once_keys[handler, key] = now, until
        return first

    @override
    async def available_once_keys(
        self, handler: HandlerName, keys: Collection[str], *, now: datetime
    ) -> frozenset[str]:
        return frozenset(key for key in keys if self._is_available(handler, key, now))

    @override
    async def set_once_expiry(self, handler: HandlerName, key: str, *, until: datetime | None) -> None:
        if (used := self.state.once_keys.get((handler, key))) is not None:
            self.state.once_keys[handler, key] = used[0], until

    def _is_available(self, handler: HandlerName, key: str, now: datetime) -> bool:
        _, until = self.state.once_keys.get((handler, key), (now, now))
        return until is not None and until <= now

    @override
    async def follow_schedules(self, planned: Sequence[PlannedRun], *, now: datetime) -> Sequence[datetime]:
        schedules = self.state.schedules
        for name in [name for name, (_, next_at) in schedules.items() if next_at < now - FORGOTTEN_AFTER]:
            del schedules[name]
        for one in planned:
            if one.handler not in schedules or not counts_still(one, *schedules[one.handler]):
                schedules[one.handler] = one.schedule, one.next_at
        return [schedules[one.handler][1] for one in planned]

    @override
    async def make_run(self, run: DueRun, *, now: datetime) -> RunOutcome:
        state, handler = self.state, run.handler
        schedule, noted = state.schedules.get(handler, ("", None))
        if noted != run.noted:
            return RunOutcome.TAKEN
        state.schedules[handler] = schedule, run.next_at
        if state.switch_of(handler) is HandlerSwitch.DISABLED:
            return RunOutcome.DISABLED
        if any(self._is_open(seq, handler) for seq in self._runs(handler)):
            return RunOutcome.UNFINISHED
        if run.delivery.key in state.seqs:
            return RunOutcome.TAKEN
        state.add(run.delivery)
        state.make(NewWork(state.last_seq, handler, claim=False, trigger=Trigger.SCHEDULE), None, now)
        ended = [seq for seq in self._runs(handler) if seq <= state.routed and not self._is_open(seq)]
        for seq in ended[:-KEPT_RUNS]:
            state.remove(seq)
        state.changes.set()
        return RunOutcome.MADE

    def _runs(self, handler: HandlerName) -> list[int]:
        """Return the seqs of a handler's runs, in the order in which they were due."""
        begin = run_keys(handler)
        found = {
            one.delivery.key: seq
            for seq, one in self.state.deliveries.items()
            if one.delivery.origin is Origin.SCHEDULE and one.delivery.key.startswith(begin)
        }
        return [found[key] for key in sorted(found)]

    def _is_open(self, seq: int, handler: HandlerName | None = None) -> bool:
        return any(one.state in OPEN and handler in (None, one.handler) for one in self.state.work_of(seq))
