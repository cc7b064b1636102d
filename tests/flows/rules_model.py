"""The rules of dispatch over plain lists, written from `receiver.core.ports` and the table of work states.

The model gets every call of a store and its answer, and asserts that the rules allow the answer. Where the rules
leave a choice, the model follows the store.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta

from receiver.core.claims import (
    ClaimLimits,
    FollowerClaim,
    HandlerClaim,
    HeldItem,
    JobPages,
    Lease,
    RoutingBatch,
    Settlement,
    WorkItem,
)
from receiver.core.deliveries import Delivery
from receiver.core.types import AttemptOutcome, DeliveryKey, HandlerName, HandlerSwitch, Trigger, WorkerId
from receiver.core.work import LOST, Attempt, LaneHead, NewWork, WorkSummary
from receiver.core.work_states import BURIABLE, CLAIMABLE, OPEN, RETRYABLE, SKIPPABLE, Cause, end_cause, next_state
from tests.flows.rules_items import DEAD, DONE, HELD, QUEUED, RUNNING, SKIPPED, WAITING, Item, Policy, Rate


class Rules:
    """The state of every delivery and work item, and what may happen to them next."""

    def __init__(self, policies: Sequence[Policy]) -> None:
        self.policies = {one.name: one for one in policies}
        self.arrived: list[Delivery] = []
        self.routed = 0
        self.routed_through = 0
        self.items: dict[int, Item] = {}
        self.switches: dict[HandlerName, HandlerSwitch] = {}
        self.onces: set[tuple[HandlerName, str]] = set()
        self.rates = {one.name: Rate(one.interval) for one in policies if one.interval is not None}
        self.touched: set[int] = set()
        self.succeeded: set[int] = set()
        self.latest: datetime | None = None

    # --- the clock

    def notes(self, now: datetime) -> None:
        """Note when items are made, become due or end; the moments of less than ten seconds later are not noted."""
        if self.latest is None or now >= self.latest + timedelta(seconds=10):
            self.latest = now

    def _follow_back(self, now: datetime) -> None:
        """Let what waits wait no longer than before, if the clock was set back by a minute or more."""
        if self.latest is None or self.latest - now < timedelta(minutes=1):
            return
        by, self.latest = self.latest - now, now
        for one in self.items.values():
            if one.state is HELD or (one.state is WAITING and one.due_at > now):
                one.due_at = max(now, one.due_at - by)
            if one.state is HELD and one.hold_until is not None:
                one.hold_until = max(now, one.hold_until - by)

    # --- routing

    def wanting(self, delivery: Delivery) -> list[Policy]:
        """Return the handlers that want a delivery."""
        return [one for one in self.policies.values() if delivery.type in one.types]

    def routes(
        self, batch: RoutingBatch, work: Sequence[NewWork], ids: Sequence[int], lease: Lease, now: datetime
    ) -> list[int | None]:
        """Make work items and return the right answer."""
        self.routed += len(batch.deliveries)
        self.routed_through = batch.deliveries[-1].seq
        if work:
            self.notes(now)
        read = {one.seq: one.delivery for one in batch.deliveries}
        made = [self._make(new, read[new.seq], one, lease, now) for new, one in zip(work, ids, strict=True)]
        claimed = [one for one in made if one.state is RUNNING]
        lanes = {(one.policy.name, one.lane) for one in claimed if one.lane is not None}
        following = [one for one in made if one.state is QUEUED and (one.policy.name, one.lane) in lanes]
        return [one.id if one in claimed or one in following else None for one in made]

    def _make(self, new: NewWork, source: Delivery, work_id: int, lease: Lease, now: datetime) -> Item:
        policy = self.policies[new.handler]
        assert not any(one.source.key == source.key and one.policy is policy for one in self.items.values())
        item = Item(work_id, source, policy, new.lane, next_state(None, Cause.MADE), now, None)
        switch = self.switches.get(policy.name)
        if switch is HandlerSwitch.DISABLED:
            item.state = next_state(None, Cause.MADE_DISABLED)
        elif new.hold is not None:
            item.state = next_state(None, Cause.MADE_HELD)
            item.due_at, item.hold_until = new.hold.check_at, new.hold.until
        elif self._head(item) is not None:
            item.state = next_state(None, Cause.MADE_IN_BUSY_LANE)
        elif new.claim and switch is None:
            self._start(item, lease, begun=new.starts)
        self.items[work_id] = item
        self.touched.add(work_id)
        return item

    # --- claiming

    def claims(
        self,
        claimants: Sequence[HandlerClaim],
        wanted: ClaimLimits,
        lease: Lease,
        now: datetime,
        steady: datetime,
        answer: Sequence[WorkItem],
    ) -> None:
        """Assert that these are the items to claim, and start them."""
        self._follow_back(now)
        self._lose(now, steady)
        for claimant in claimants:
            self._skip(claimant.handler)
        left = [one.id for one in answer]
        taken = 0
        room = wanted.max_bytes
        for claimant in claimants:
            due = self._due(claimant.handler, now, suspects=wanted.suspects)
            least, most = self._limits(claimant, wanted.limit - taken, now)
            count = 0
            while left and count < min(most, len(due)) and due[count].id == left[0]:
                size = len(due[count].source.body)
                assert size <= room or taken + count == 0, "more bytes than were wanted"
                room -= size
                left.pop(0)
                count += 1
            if claimant.handler in self.rates:
                self.rates[claimant.handler].begin(count, now)
            taken += count
            if count < min(least, len(due)):
                assert taken > 0, f"{due[0]} is due and was not claimed"
                assert len(due[count].source.body) > room, f"{due[count]} is due and was not claimed"
                break
        assert not left, f"claimed {[self.items[one] for one in left]}"
        for n, one in enumerate(answer):
            self._start_claimed(one, lease, begun=n < wanted.starting)
        self._check_followers(claimants, wanted, answer)

    def _start_claimed(self, answer: WorkItem, lease: Lease, *, begun: bool) -> None:
        item = self.items[answer.id]
        self._start(item, lease, begun=begun)
        assert answer.source.delivery == item.source
        expected = (item.policy.name, item.number, item.number - 1 - item.failures, item.deaths, item.trigger)
        got = (answer.handler, answer.attempt, answer.uncounted, answer.deaths, answer.trigger)
        assert got == expected, f"{got} instead of {expected}"
        assert answer.in_lane == (item.lane is not None)

    def _check_followers(
        self, claimants: Sequence[HandlerClaim], wanted: ClaimLimits, answer: Sequence[WorkItem]
    ) -> None:
        """Assert that all heads of lanes have as many followers, as far as there are any and their bodies fit."""
        asked = {one.handler for one in claimants if one.followers and not wanted.suspects}
        heads = [one for one in answer if one.in_lane and one.handler in asked]
        each = (wanted.limit - len(answer)) // max(1, len(heads))
        room = wanted.max_bytes - sum(len(one.source.delivery.body) for one in answer)
        for head in answer:
            expected: list[Item] = []
            for item in self._queue_behind(self.items[head.id])[:each] if head in heads else ():
                if item.number or len(item.source.body) > room:
                    break
                room -= len(item.source.body)
                expected.append(item)
            assert [one.id for one in head.followers] == [one.id for one in expected]
            for follower, item in zip(head.followers, expected, strict=True):
                assert follower.source.delivery == item.source
                fresh = WorkItem(item.id, head.handler, 1, 0, 0, Trigger.DELIVERY, follower.source, in_lane=True)
                assert follower == fresh

    def _start(self, item: Item, lease: Lease, *, begun: bool) -> None:
        assert item.policy.name not in self.switches, f"{item.policy.name} is switched off and starts {item}"
        self._lease(item, Cause.CLAIMED, lease, begun=begun)

    def _lease(self, item: Item, cause: Cause, lease: Lease, *, begun: bool) -> None:
        self._begin(item)
        item.move(cause)
        item.owner, item.until, item.begun = lease.worker, lease.until, begun
        running = sum(one.state is RUNNING for one in self._of(item.policy.name))
        assert item.policy.concurrency is None or running <= item.policy.concurrency

    def _begin(self, item: Item) -> None:
        """Begin an attempt; assert that it is its turn."""
        assert item.id not in self.succeeded, f"{item} succeeded and runs again"
        for other in self._lane(item):
            assert other.state is not RUNNING, f"{other} and {item} run at one time"
            over = other.state in (DONE, SKIPPED, HELD) or (other.state is DEAD and not other.stands)
            assert other.id > item.id or over or other.late, f"{item} overtakes {other}"
        item.number += 1
        self.touched.add(item.id)

    def _lose(self, now: datetime, steady: datetime) -> None:
        """Record the attempts of all handlers that ended with their workers, or whose leases ended."""
        for one in self.items.values():
            if one.state is RUNNING and one.until is not None and one.until <= steady:
                if one.suspect:
                    one.lost_alone.add(one.number)
                if one.begun:
                    one.lost_running.add(one.number)
                if one.begun and one.owner is None:
                    one.died_running.add(one.number)
                one.history.append(Attempt(one.number, one.trigger, None, now, AttemptOutcome.LOST, LOST))
                self._end(one, Cause.LEASE_LOST, now, LOST)
                self.notes(now)

    def _skip(self, handler: HandlerName) -> None:
        """Skip what waits for a disabled handler."""
        for one in self._of(handler):
            if self.switches.get(handler) is HandlerSwitch.DISABLED and one.state in SKIPPABLE:
                one.move(Cause.DISABLED)
                self.touched.add(one.id)

    def _due(self, handler: HandlerName, now: datetime, *, suspects: bool) -> list[Item]:
        """Return what may be claimed, the longest due first, and of those the first that arrived."""
        if handler in self.switches:
            return []
        waiting = [one for one in self._of(handler) if one.state in CLAIMABLE and one.due_at <= now]
        return sorted((one for one in waiting if one.suspect is suspects), key=lambda one: (one.due_at, one.id))

    def _limits(self, claimant: HandlerClaim, limit: int, now: datetime) -> tuple[int, int]:
        """Return the least and the largest number of items that the claim may take."""
        limit = max(0, min(limit, self._room(claimant)))
        rate = self.rates.get(claimant.handler)
        return (limit, limit) if rate is None else (min(limit, rate.least(now)), min(limit, rate.most(now)))

    def _room(self, claimant: HandlerClaim) -> int:
        """Return how many items may run by the limits of the claimant and of all workers."""
        if claimant.concurrency is None:
            return claimant.most
        running = sum(one.state is RUNNING for one in self._of(claimant.handler))
        return min(claimant.most, claimant.concurrency - running)

    def suspects_due(self, claimants: Sequence[HandlerClaim], now: datetime) -> bool:
        """Tell whether an item is due that may have killed its worker."""
        return any(self._due(one.handler, now, suspects=True) for one in claimants)

    def next_due(
        self, claimants: Sequence[HandlerClaim], now: datetime, steady: datetime
    ) -> tuple[datetime, datetime] | None:
        """Return the range of right answers. All moments in the past are equal."""
        soonest = latest = [now + (one.until - steady) for one in self.items.values() if one.until is not None]
        unwanted = {one.handler for one in claimants if self._room(one) <= 0} - self.switches.keys()
        for item in (item for one in claimants for item in self._of(one.handler)):
            moment = self._comes_due(item, now)
            if moment is not None and not (item.state is WAITING and item.policy.name in unwanted):
                paced = item.state is WAITING and item.policy.name not in self.switches
                rate = self.rates.get(item.policy.name) if paced else None
                soonest = [*soonest, max(moment, rate.earliest(now)) if rate else moment]
                latest = [*latest, max(moment, rate.latest(now)) if rate else moment]
        return (max(min(soonest), now), max(min(latest), now)) if soonest else None

    def _comes_due(self, item: Item, now: datetime) -> datetime | None:
        """Return when an item can be claimed, checked or skipped."""
        match self.switches.get(item.policy.name):
            case HandlerSwitch.DISABLED:
                return now if item.state in SKIPPABLE else None
            case HandlerSwitch.PAUSED:
                return None
        return item.due_at if item.state in (WAITING, HELD) else None

    # --- leases

    def begins(self, work_ids: Iterable[int], worker: WorkerId) -> None:
        """Note that items have started."""
        for one in self._held_by(work_ids, worker):
            one.begun = True

    def absolves(self, work_ids: Iterable[int], worker: WorkerId) -> None:
        """Remove that note."""
        for one in self._held_by(work_ids, worker):
            one.begun = False

    def renews(self, work_ids: Iterable[int], lease: Lease) -> None:
        """Move the end of the lease."""
        for one in self._held_by(work_ids, lease.worker):
            one.until = lease.until

    def gives_back(self, work_ids: Iterable[int], worker: WorkerId, now: datetime) -> None:
        """Make items due and uncount the attempt."""
        for one in self._held_by(work_ids, worker):
            one.number -= 1
            self._end(one, Cause.RETURNED, now, one.error)
            self.notes(now)

    def takes_over(self, worker: WorkerId, now: datetime) -> int:
        """End the leases of a dead worker; return how many there were."""
        leased = [one for one in self.items.values() if one.is_of(worker)]
        for one in leased:
            one.until, one.owner = now, None
        return len(leased)

    def settles(
        self,
        settlement: Settlement,
        done: set[int],
        *,
        after: timedelta | None,
        refused: bool,
        now: datetime,
    ) -> bool:
        """Return whether an end must be recorded; assert that it changes the state as the rules say.

        `done` are the items for which the same call has recorded a success, and it gets one more.
        """
        item, attempt = self.items[settlement.work_id], settlement.attempt
        succeeded, cause = attempt.outcome is AttemptOutcome.SUCCEEDED, end_cause(settlement.state)
        if settlement.behind is not None:
            if not self._follows(item, settlement.behind, done):
                return False
            self._begin(item)
            if succeeded:
                cause = Cause.SUCCEEDED_BEHIND
            else:
                item.move(Cause.FOLLOWED)
        elif not item.is_of(settlement.worker) or item.number != attempt.number:
            return False
        item.history.append(attempt)
        if succeeded:
            expected = DONE
            self.succeeded.add(item.id)
            done.add(item.id)
        elif refused or item.failures > len(item.policy.pauses):
            expected = DEAD
        else:
            expected = WAITING
            pause = item.policy.pauses[item.failures - 1]
            soonest, latest = (after, after) if after is not None else (pause * 0.8, pause * 1.2)
            assert now + soonest <= settlement.due_at <= now + latest, f"{item} waits until {settlement.due_at}"
        assert settlement.state is expected, f"{item} becomes {settlement.state}"
        item.stands = expected is DEAD and item.lane is not None and item.policy.holds_when_dead
        self._end(item, cause, settlement.due_at, attempt.error)
        return True

    def goes_on(self, follower: FollowerClaim, done: set[int]) -> bool:
        """Return whether a follower must be claimed, `done` as above."""
        item = self.items[follower.work_id]
        if not self._follows(item, follower.behind, done):
            return False
        self._lease(item, Cause.FOLLOWED, follower.lease, begun=True)
        return True

    def _follows(self, item: Item, behind: int, done: set[int]) -> bool:
        """Tell whether an item is still a follower, and the one before it was the worker's until its end."""
        return behind in done and item.state is QUEUED and item.number == 0

    def _end(self, item: Item, cause: Cause, due_at: datetime, error: str | None) -> None:
        item.move(cause)
        item.due_at, item.error = due_at, error
        item.owner, item.until, item.begun = None, None, False
        self.touched.add(item.id)

    def once(self, handler: HandlerName, key: str) -> bool:
        """Return True the first time."""
        first = (handler, key) not in self.onces
        self.onces.add((handler, key))
        return first

    # --- held items

    def held(self, handlers: Sequence[HandlerName], now: datetime) -> dict[int, HeldItem]:
        """Return the held items that are due for a check."""
        return {
            one.id: HeldItem(
                one.id,
                one.policy.name,
                one.source.type,
                one.source.job_id or "",
                one.source.received_at,
                one.hold_until or now,
            )
            for name in handlers
            if name not in self.switches
            for one in self._of(name)
            if one.state is HELD and one.due_at <= now
        }

    def open_pages(self, job_id: str) -> set[DeliveryKey]:
        """Return the pages of a job that are not handled."""
        unhandled = {one.source.key for one in self.items.values() if one.state in OPEN}
        unhandled |= {one.key for one in self.arrived[self.routed :]}
        pages = {one.key for one in self.arrived if (one.job_id, one.type) == (job_id, "crawl.page")}
        return pages & unhandled

    def last_page(self, job_id: str) -> datetime | None:
        """Return when the last page of a job arrived."""
        times = [one.received_at for one in self.arrived if (one.job_id, one.type) == (job_id, "crawl.page")]
        return times[-1] if times else None

    def may_run(self, item: HeldItem, pages: JobPages, now: datetime) -> bool:
        """Tell whether a hold may end: all pages are handled and it was quiet, or the hold is over."""
        quiet_from = max(item.received_at, pages.last_at or item.received_at)
        quiet = self.items[item.id].policy.quiet or timedelta(0)
        return item.until <= now or (pages.open_key is None and quiet_from + quiet <= now)

    def releases(self, work_id: int, now: datetime, note: str) -> None:
        """Make a held item due."""
        item = self.items[work_id]
        if item.state is HELD:
            item.move(Cause.HOLD_ENDED_IN_LANE if self._head(item) else Cause.HOLD_ENDED)
            item.due_at, item.note, item.late = now, note, True
            self.notes(now)

    def looks_again(self, work_id: int, at: datetime, note: str) -> None:
        """Keep an item held until its next check."""
        item = self.items[work_id]
        if item.state is HELD:
            item.due_at, item.note = min(at, item.hold_until or at), note

    # --- what operators decide

    def retries(self, work_ids: Iterable[int], now: datetime) -> int:
        """Make items due, with a new schedule; return how many."""
        self.notes(now)
        chosen = [self.items[one] for one in work_ids if self.items[one].state in RETRYABLE]
        for one in chosen:
            one.move(Cause.RETRIED if one.lane is None or one.forward else Cause.RETRIED_IN_LANE)
            one.due_at, one.hold_until, one.stands = now, None, False
            one.asked_at, one.late = one.number, True
        return len(chosen)

    def buries(self, work_ids: Iterable[int], reason: str, now: datetime) -> int:
        """Make items dead and free their lanes; return how many."""
        self.notes(now)
        named = [self.items[one] for one in work_ids]
        chosen = [one for one in named if one.state in BURIABLE and (one.state is not DEAD or one.stands)]
        for one in chosen:
            one.error = one.error if one.stands else reason
            one.move(Cause.BURIED)
            one.stands = False
        return len(chosen)

    def switch(self, handler: HandlerName, to: HandlerSwitch) -> None:
        """Set a handler's switch."""
        self.switches[handler] = to
        if to is HandlerSwitch.ON:
            del self.switches[handler]

    def come_forward(self, now: datetime) -> None:
        """In each lane without a head, make the oldest queued item the head."""
        for item in sorted(self.items.values(), key=lambda one: one.id):
            if item.state is QUEUED and self._head(item) is None:
                item.move(Cause.LANE_FREED)
                item.due_at = now

    # --- comparing

    def summary(self, item: Item) -> WorkSummary:
        """Return the line of an item in a listing."""
        return WorkSummary(
            id=item.id,
            key=item.source.key,
            type=item.source.type,
            job_id=item.source.job_id,
            received_at=item.source.received_at,
            handler=item.policy.name,
            state=item.state,
            attempts=item.number,
            lane=item.lane,
            due_at=item.due_at if item.state in (WAITING, HELD) else None,
            last_error=item.error,
            note=item.note,
            holds_lane=item.stands,
            behind=self._behind(item),
        )

    def items_of(self, delivery: Delivery) -> list[Item]:
        """Return the work items of a delivery."""
        return [one for one in self.items.values() if one.source.key == delivery.key]

    # --- inside

    def _of(self, handler: HandlerName) -> Iterator[Item]:
        return (one for one in self.items.values() if one.policy.name == handler)

    def _lane(self, item: Item) -> list[Item]:
        if item.lane is None:
            return []
        return [one for one in self._of(item.policy.name) if one.lane == item.lane and one is not item]

    def _head(self, item: Item) -> Item | None:
        return next((one for one in self._lane(item) if one.forward), None)

    def _queue_behind(self, head: Item) -> list[Item]:
        """Return what is queued in a lane, the first that arrived first."""
        return sorted((one for one in self._lane(head) if one.state is QUEUED), key=lambda one: one.id)

    def _behind(self, item: Item) -> LaneHead | None:
        head = self._head(item) if item.state is QUEUED else None
        if head is None:
            return None
        return LaneHead(head.id, head.state, max((one.ended_at for one in head.history), default=None))

    def _held_by(self, work_ids: Iterable[int], worker: WorkerId) -> list[Item]:
        return [self.items[one] for one in set(work_ids) if self.items[one].is_of(worker)]
