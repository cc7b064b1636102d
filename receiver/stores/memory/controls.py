"""What operators decide in a store in memory, and what keeps it small."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from typing_extensions import override

from receiver.core.activity import PruneRule, Step, to_minute
from receiver.core.bulk import DeliveryPlan, Imported
from receiver.core.deliveries import Delivery, DeliverySummary, Receipt
from receiver.core.ports.store import Controls, Maintenance
from receiver.core.recorded_actions import NewAction, RecordedAction
from receiver.core.rules import as_replay
from receiver.core.types import AppendOutcome, HandlerName, HandlerSwitch, WorkState
from receiver.core.work import NewWork, RecordedRun
from receiver.core.work_states import BURIABLE, RETRACTABLE, RETRYABLE, Cause, record_cause
from receiver.errors import UnknownRequest
from receiver.stores.memory.reports import plan_of
from receiver.stores.memory.state import MemoryState, WorkRow


@dataclass(eq=False)
class MemoryControls(Controls):
    """Decisions of operators, and the record of them."""

    state: MemoryState

    @override
    async def begin_action(self, action: NewAction, *, now: datetime) -> int:
        self.state.last_action += 1
        number = self.state.last_action
        self.state.actions[number] = RecordedAction(number, action, now, now)
        self.state.changes.set()
        return number

    @override
    async def advance_action(self, action: int, *, seen: int, changed: int, now: datetime) -> None:
        self.state.count_for(action, seen=seen, changed=changed, now=now)

    @override
    async def end_action(self, action: int, *, now: datetime, error: str | None = None) -> None:
        if (found := self.state.actions.get(action)) is not None:
            self.state.actions[action] = replace(found, ended_at=now, error=error)
            self.state.changes.set()

    @override
    async def retry(self, work_ids: Sequence[int], *, now: datetime, action: int | None = None) -> int:
        chosen = [
            one for one in self.state.chosen(work_ids) if one.state in RETRYABLE and self.state.has_body(one.seq)
        ]
        for one in chosen:
            one.move(Cause.RETRIED if one.lane is None or one.heads_lane else Cause.RETRIED_IN_LANE)
            one.due_at, one.hold_until = now, None
            one.uncounted, one.lost, one.deaths, one.suspect = one.attempts, 0, 0, False
            one.action_id = action
        return self._decided(work_ids, chosen, now, action)

    @override
    async def bury(self, work_ids: Sequence[int], reason: str, *, now: datetime, action: int | None = None) -> int:
        chosen = [
            one
            for one in self.state.chosen(work_ids)
            if one.state in BURIABLE and (one.state is not WorkState.DEAD or one.heads_lane)
        ]
        for one in chosen:
            was_dead = one.state is WorkState.DEAD
            one.last_error = one.last_error if was_dead else reason
            one.action_id = None if was_dead else action
            one.move(Cause.BURIED)
        return self._decided(work_ids, chosen, now, action)

    @override
    async def take_back(
        self, work_ids: Sequence[int], reason: str, *, now: datetime, action: int | None = None
    ) -> int:
        chosen = [one for one in self.state.chosen(work_ids) if one.state in RETRACTABLE and one.is_untried()]
        for one in chosen:
            one.last_error = one.last_error if one.last_error is not None else reason
            one.action_id = action
            one.move(Cause.BURIED)
        return self._decided(work_ids, chosen, now, action)

    @override
    async def switch(self, handler: HandlerName, to: HandlerSwitch) -> None:
        self.state.switches[handler] = to
        if to is HandlerSwitch.ON:
            del self.state.switches[handler]
        self.state.changes.set()

    @override
    async def import_deliveries(self, deliveries: Sequence[Imported]) -> Sequence[AppendOutcome]:
        return [self._import(one) for one in deliveries]

    @override
    async def enqueue(
        self, work: Sequence[NewWork], *, now: datetime, action: int | None = None, seen: int = 0
    ) -> int:
        wanted = [as_replay(one) for one in work if self.state.has_body(one.seq)]
        for one in wanted:
            self.state.make(one, None, now).action_id = action
        self.state.count_for(action, seen=seen, changed=len(wanted), now=now)
        self.state.changes.set()
        return len(wanted)

    @override
    async def record(
        self, results: Sequence[RecordedRun], *, now: datetime, action: int | None = None, seen: int = 0
    ) -> None:
        wanted = [one for one in results if self.state.has_body(one.seq)]
        for one in wanted:
            new = NewWork(one.seq, one.handler, claim=False, trigger=one.attempt.trigger)
            row = self.state.new_row(new, now)
            row.move(record_cause(one.state))
            row.attempts, row.last_error = 1, one.attempt.error
            row.history.append(one.attempt)
        self.state.count_for(action, seen=seen, changed=len(wanted), now=now)

    @override
    async def release_request(self, request_id: int, delivery: Delivery) -> Receipt:
        state = self.state
        seq = state.seqs.get(delivery.key)
        if seq is not None and not state.has_same_body(state.deliveries[seq], delivery):
            return Receipt(delivery.key, AppendOutcome.CONFLICT)
        if request_id not in state.quarantined:
            raise UnknownRequest(request_id)
        del state.quarantined[request_id]
        return state.append(delivery)

    def _decided(
        self, work_ids: Sequence[int], changed: Sequence[WorkRow], now: datetime, action: int | None
    ) -> int:
        """Free the lanes of these items, and count for the action; return how many items were changed."""
        self.state.note_time(now)
        self.state.free_lanes(work_ids, now)
        self.state.count_for(action, seen=len(work_ids), changed=len(changed), now=now)
        self.state.changes.set()
        return len(changed)

    def _import(self, one: Imported) -> AppendOutcome:
        delivery, state = one.delivery._replace(origin=one.origin), self.state
        seq = state.seqs.get(delivery.key)
        if seq is None:
            state.add(delivery, one.duplicates)
            return AppendOutcome.ACCEPTED
        stored = state.deliveries[seq]
        if not state.has_same_body(stored, delivery):
            return AppendOutcome.CONFLICT
        if seq in state.pruned:
            state.restore_body(seq, delivery)
        return AppendOutcome.DUPLICATE


@dataclass(eq=False)
class MemoryMaintenance(Maintenance):
    """Pruning. The process gets memory back by itself: there is nothing to compress or to shrink."""

    state: MemoryState

    @override
    async def prunable(self, rule: PruneRule) -> DeliveryPlan:
        return plan_of(self._prunable(rule))

    @override
    async def prune(self, rule: PruneRule, *, after: int, limit: int, now: datetime) -> Step:
        found = sorted((one for one in self._prunable(rule) if one.seq > after), key=lambda one: one.seq)
        chosen = found[:limit]
        for one in chosen:
            if rule.bodies:
                self.state.remove_body(one.seq)
            else:
                self.state.remove(one.seq)
        goes_on = chosen[-1].seq if len(found) > limit else None
        return Step(len(chosen), sum(one.size for one in chosen), goes_on)

    @override
    async def forget(self, before: datetime, *, limit: int) -> int:
        old = [used for used, (at, _) in self.state.once_keys.items() if at < before][:limit]
        for used in old:
            del self.state.once_keys[used]
        return len(old)

    @override
    async def forget_workers(self, before: datetime) -> None:
        for name in [name for name, (_, seen_at) in self.state.workers.items() if seen_at < before]:
            del self.state.workers[name]

    @override
    async def forget_activity(self, before: datetime) -> int:
        old = [row for row in self.state.minutes if row[0] < to_minute(before)]
        for row in old:
            del self.state.minutes[row]
        return len(old)

    @override
    async def forget_actions(self, before: datetime, *, keep: int, limit: int) -> int:
        last = self.state.last_action - keep
        old = [one.id for one in self.state.actions.values() if one.began_at < before or one.id <= last][:limit]
        for number in old:
            del self.state.actions[number]
        return len(old)

    @override
    async def compress(self, *, limit: int) -> Step:
        return Step(0, 0, None)

    @override
    async def reclaim(self, limit: int) -> int:
        return 0

    def _prunable(self, rule: PruneRule) -> list[DeliverySummary]:
        found = [summary for _, summary in self.state.newest(rule.chosen())]
        return [
            one
            for one in found
            if (one.has_body or not rule.bodies) and not any(row.heads_lane for row in self.state.work_of(one.seq))
        ]
