"""Reading requests in quarantine from a store in memory."""

from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from itertools import islice

from receiver.core.bulk import Imported
from receiver.core.deliveries import Delivery, Quarantined, QuarantinedSummary, QuarantineFilter, Receipt
from receiver.core.rules import as_replay
from receiver.core.types import AppendOutcome, HandlerName, HandlerSwitch, WorkState
from receiver.core.work import NewWork, RecordedRun
from receiver.core.work_states import BURIABLE, RETRACTABLE, RETRYABLE, Cause, record_cause
from receiver.errors import UnknownRequest
from receiver.stores.memory.reports import MemoryActions
from receiver.stores.memory.state import MemoryFace, WorkRow, add, append, restore_words, same_body


class MemoryQuarantine(MemoryFace):
    """A QuarantineReader."""

    async def quarantined_requests(
        self, wanted: QuarantineFilter, *, before: int | None = None
    ) -> AsyncIterator[QuarantinedSummary]:
        """Yield the requests in quarantine, the newest first."""
        found = (
            QuarantinedSummary(number, one.received_at, one.reason, one.detail, one.key, len(one.body))
            for number, one in reversed(list(self.state.quarantined.items()))
            if (before is None or number < before)
            and (wanted.reason is None or one.reason == wanted.reason)
            and (wanted.since is None or one.received_at >= wanted.since)
            and (wanted.until is None or one.received_at < wanted.until)
        )
        for summary in islice(found, wanted.limit):
            yield summary

    async def quarantined_request(self, request_id: int) -> Quarantined:
        """Return a request in quarantine."""
        if request_id not in self.state.quarantined:
            raise UnknownRequest(request_id)
        return self.state.quarantined[request_id]


# FOLDED: What operators decide, in a store in memory.
class MemoryControls(MemoryActions):
    """Controls."""

    async def retry(self, work_ids: Sequence[int], *, now: datetime, action: int | None = None) -> int:
        """Make items due at once, with a fresh schedule."""
        chosen = [
            one for one in self.state.chosen(work_ids) if one.state in RETRYABLE and self.state.has_body(one.seq)
        ]
        for one in chosen:
            one.move(Cause.RETRIED if one.lane is None or one.heads_lane else Cause.RETRIED_IN_LANE)
            one.due_at, one.hold_until = now, None
            one.uncounted, one.lost, one.deaths, one.suspect = one.attempts, 0, 0, False
            one.action_id = action
        return self._decided(work_ids, chosen, now, action)

    async def bury(self, work_ids: Sequence[int], reason: str, *, now: datetime, action: int | None = None) -> int:
        """Make items dead, and free their lanes."""
        chosen = [one for one in self.state.chosen(work_ids) if _is_buriable(one)]
        for one in chosen:
            was_dead = one.state is WorkState.DEAD
            one.last_error = one.last_error if was_dead else reason
            one.action_id = None if was_dead else action
            one.move(Cause.BURIED)
        return self._decided(work_ids, chosen, now, action)

    async def take_back(
        self, work_ids: Sequence[int], reason: str, *, now: datetime, action: int | None = None
    ) -> int:
        """Make items dead that nobody has attempted."""
        chosen = [one for one in self.state.chosen(work_ids) if one.state in RETRACTABLE and one.is_untried()]
        for one in chosen:
            one.last_error = one.last_error if one.last_error is not None else reason
            one.action_id = action
            one.move(Cause.BURIED)
        return self._decided(work_ids, chosen, now, action)

    async def switch(self, handler: HandlerName, to: HandlerSwitch) -> None:
        """Set a handler's switch."""
        self.state.switches[handler] = to
        if to is HandlerSwitch.ON:
            del self.state.switches[handler]
        self.state.changes.set()

    async def import_deliveries(self, deliveries: Sequence[Imported]) -> Sequence[AppendOutcome]:
        """Store deliveries from outside whose keys are not stored."""
        return [self._import(one) for one in deliveries]

    async def enqueue(
        self, work: Sequence[NewWork], *, now: datetime, action: int | None = None, seen: int = 0
    ) -> int:
        """Make new work items."""
        wanted = [as_replay(one) for one in work if self.state.has_body(one.seq)]
        for one in wanted:
            self.state.make(one, None, now).action_id = action
        self.count_for(action, seen=seen, changed=len(wanted), now=now)
        self.state.changes.set()
        return len(wanted)

    async def record(
        self, results: Sequence[RecordedRun], *, now: datetime, action: int | None = None, seen: int = 0
    ) -> None:
        """Keep work items that have run elsewhere."""
        wanted = [one for one in results if self.state.has_body(one.seq)]
        for one in wanted:
            new = NewWork(one.seq, one.handler, claim=False, trigger=one.attempt.trigger)
            row = self.state.new_row(new, now)
            row.move(record_cause(one.state))
            row.attempts, row.last_error = 1, one.attempt.error
            row.history.append(one.attempt)
        self.count_for(action, seen=seen, changed=len(wanted), now=now)

    async def release_request(self, request_id: int, delivery: Delivery) -> Receipt:
        """Make a request in quarantine a delivery."""
        state = self.state
        seq = state.seqs.get(delivery.key)
        if seq is not None and not same_body(state, state.deliveries[seq], delivery):
            return Receipt(delivery.key, AppendOutcome.CONFLICT)
        if request_id not in state.quarantined:
            raise UnknownRequest(request_id)
        del state.quarantined[request_id]
        return append(state, delivery)

    def _decided(
        self, work_ids: Sequence[int], changed: Sequence[WorkRow], now: datetime, action: int | None
    ) -> int:
        """Let the next ones of the lanes come forward, and count; return how many items were changed."""
        self.state.note_time(now)
        self.state.free_lanes(work_ids, now)
        self.count_for(action, seen=len(work_ids), changed=len(changed), now=now)
        self.state.changes.set()
        return len(changed)

    def _import(self, one: Imported) -> AppendOutcome:
        delivery, state = one.delivery._replace(origin=one.origin), self.state
        seq = state.seqs.get(delivery.key)
        if seq is None:
            add(state, delivery, one.duplicates)
            return AppendOutcome.ACCEPTED
        stored = state.deliveries[seq]
        if not same_body(state, stored, delivery):
            return AppendOutcome.CONFLICT
        if state.pruned.pop(seq, None) is not None:
            restored = stored.delivery._replace(headers=delivery.headers, body=delivery.body)
            state.deliveries[seq] = stored._replace(delivery=restored)
            restore_words(state, seq, delivery.body)
        return AppendOutcome.DUPLICATE


def _is_buriable(row: WorkRow) -> bool:
    return row.state in BURIABLE and (row.state is not WorkState.DEAD or row.heads_lane)
