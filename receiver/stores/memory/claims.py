"""Claiming and settling in a store in memory."""

from collections.abc import Collection, Sequence
from datetime import datetime
from itertools import chain, compress, takewhile

from receiver.core.activity import duration_bucket, to_minute
from receiver.core.batching import BatchSize, first_batch
from receiver.core.claims import ClaimLimits, FollowerClaim, HandlerClaim, Lease, Settlement, WorkItem
from receiver.core.rules import Pace, followers_each, later_work, suspicious
from receiver.core.types import AttemptOutcome, HandlerName, HandlerSwitch, WorkState
from receiver.core.work import LOST, Attempt
from receiver.core.work_states import CLAIMABLE, LEASED, SKIPPABLE, Cause, end_cause
from receiver.stores.memory.face import MemoryFace
from receiver.stores.memory.rows import WorkRow
from receiver.stores.memory.state import NEVER


class MemoryClaims(MemoryFace):
    """A ClaimQueue."""

    most_claimed = 256

    async def claim(
        self,
        claimants: Sequence[HandlerClaim],
        wanted: ClaimLimits,
        *,
        lease: Lease,
        now: datetime,
        steady: datetime | None = None,
    ) -> Sequence[WorkItem]:
        """Claim what is due, after ending the leases of dead workers."""
        self.state.follow_clock_back(now)
        self._end_leases(now, steady or now)
        self._skip([one.handler for one in claimants])
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

    async def suspects_due(self, claimants: Sequence[HandlerClaim], *, now: datetime) -> bool:
        """Tell whether an item is due that may have killed its worker."""
        return any(
            one.suspect and one.due_at <= now
            for claimant in claimants
            for one in self._of(claimant.handler, *CLAIMABLE)
        )

    async def settle(
        self, settlements: Sequence[Settlement], followers: Sequence[FollowerClaim] = ()
    ) -> Sequence[bool]:
        """Record attempts and move their work items where the worker still has the lease."""
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
                self._count(one.work_id, one.attempt, now)
            for work in later_work(recorded):
                self.state.make(work, None, now)
            self.state.changes.set()
        return [*settled, *claimed]

    async def next_due(
        self, claimants: Sequence[HandlerClaim], *, now: datetime, steady: datetime | None = None
    ) -> datetime | None:
        """Return when there may be something to claim or to check."""
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

    def _skip(self, handlers: Sequence[HandlerName]) -> None:
        for handler in handlers:
            for one in self._skippable(handler):
                one.move(Cause.DISABLED)

    def _skippable(self, handler: HandlerName) -> list[WorkRow]:
        if self.state.switch_of(handler) is not HandlerSwitch.DISABLED:
            return []
        return [one for one in self.state.work.values() if one.handler == handler and one.state in SKIPPABLE]

    def _of(self, handler: HandlerName, *states: WorkState) -> list[WorkRow]:
        """Return the items of a handler in these states, none if it is paused or disabled."""
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
        """Return how many items may be claimed by the limits of this claimant and of all workers."""
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
        """Return the followers of each claimed item that come with it, by its id."""
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

    def _count(self, work_id: int, attempt: Attempt, now: datetime) -> None:
        handler = self.state.work[work_id].handler
        self.state.minutes[to_minute(now), handler, attempt.outcome, duration_bucket(attempt.took)] += 1
