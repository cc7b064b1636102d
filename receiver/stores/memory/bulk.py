"""Long readings, imports, replays and quarantine of a store in memory."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import datetime

from receiver.core.bulk import Cursor, DeliveryPlan, Imported, WorkPlan
from receiver.core.deliveries import Delivery, DeliveryFilter, Receipt, StoredDelivery
from receiver.core.quarantine import Quarantined, QuarantinedSummary, QuarantineFilter
from receiver.core.rules import as_replay
from receiver.core.types import AppendOutcome
from receiver.core.work import NewWork, RecordedRun, WorkFilter
from receiver.errors import UnknownRequest
from receiver.stores.memory.plans import planned
from receiver.stores.memory.reports import MemoryReports

_CHUNK = 500


class MemoryKeeping(MemoryReports):
    """What Reports and Controls say about many deliveries."""

    async def plan(
        self, wanted: DeliveryFilter, *, after: Cursor | None = None, by_job: bool = False
    ) -> DeliveryPlan:
        """Return what an action on the wanted deliveries would touch."""
        found = self._newest(wanted)
        return planned([summary for one, summary in found if _is_behind(after, one, by_job=by_job)])

    async def work_plan(self, wanted: WorkFilter) -> WorkPlan:
        """Return what an action on the wanted work items would touch."""
        return WorkPlan.of([one async for one in self.work_items(wanted)])

    async def work_ids(
        self, wanted: WorkFilter, plan: WorkPlan, *, newest_first: bool = False
    ) -> AsyncIterator[Sequence[int]]:
        """Yield the ids of the items that were planned for and are wanted still."""
        found = [one.id async for one in self.work_items(replace(wanted, limit=None))]
        chosen = [one for one in found if plan.first_id <= one <= plan.last_id]
        chosen = (chosen if newest_first else chosen[::-1])[: plan.count]
        for start in range(0, len(chosen), _CHUNK):
            wanted_still = {one.id async for one in self.work_items(replace(wanted, limit=None))}
            yield [one for one in chosen[start : start + _CHUNK] if one in wanted_still]

    async def quarantined_requests(self, wanted: QuarantineFilter) -> AsyncIterator[QuarantinedSummary]:
        """Yield the requests in quarantine, the newest first."""
        pairs = zip(reversed(self._refused_ids), reversed(self.quarantined), strict=True)
        found = [
            QuarantinedSummary(number, one.received_at, one.reason, one.detail, one.key, len(one.body))
            for number, one in pairs
            if (wanted.reason is None or one.reason == wanted.reason)
            and (wanted.since is None or one.received_at >= wanted.since)
            and (wanted.until is None or one.received_at < wanted.until)
        ]
        for summary in found[: wanted.limit]:
            yield summary

    async def quarantined_request(self, request_id: int) -> Quarantined:
        """Return a request in quarantine."""
        return self.quarantined[self._refused_place(request_id)]

    async def release_request(self, request_id: int, delivery: Delivery) -> Receipt:
        """Make a request in quarantine a delivery."""
        seq = self._by_key.get(delivery.key)
        if seq is not None and not self._same_body(self._deliveries[self._place(seq)], delivery):
            return Receipt(delivery.key, AppendOutcome.CONFLICT)
        place = self._refused_place(request_id)
        del self.quarantined[place], self._refused_ids[place]
        return self._append(delivery)

    async def enqueue(self, work: Sequence[NewWork], *, now: datetime) -> int:
        """Make new work items."""
        wanted = [as_replay(one) for one in work if self._has_body(one.seq)]
        for one in wanted:
            self._make(one, None, now)
        self._changes.set()
        return len(wanted)

    async def record(self, results: Sequence[RecordedRun], *, now: datetime) -> None:
        """Keep work items that have run elsewhere."""
        for one in results:
            if self._has_body(one.seq):
                self._record(one, now)

    async def iter_deliveries(
        self, wanted: DeliveryFilter, *, after: Cursor | None = None, by_job: bool = False
    ) -> AsyncIterator[StoredDelivery]:
        """Yield the wanted deliveries with their bodies."""
        found = [stored for stored, summary in self._newest(wanted) if summary.has_body]
        found.sort(key=lambda one: _order(Cursor.at(one, by_job=by_job), by_job=by_job))
        for one in found:
            if _is_behind(after, one, by_job=by_job):
                yield one

    async def import_deliveries(self, deliveries: Sequence[Imported]) -> Sequence[AppendOutcome]:
        """Store deliveries from outside whose keys are not stored."""
        return [self._bring_in(one) for one in deliveries]

    def _bring_in(self, one: Imported) -> AppendOutcome:
        delivery = replace(one.delivery, origin=one.origin)
        if delivery.key not in self._by_key:
            self._add(delivery, one.duplicates)
            return AppendOutcome.ACCEPTED
        place = self._place(self._by_key[delivery.key])
        stored = self._deliveries[place]
        if not self._same_body(stored, delivery):
            return AppendOutcome.CONFLICT
        if self._pruned.pop(stored.seq, None) is not None:
            kept = replace(stored.delivery, headers=delivery.headers, body=delivery.body)
            self._deliveries[place] = replace(stored, delivery=kept)
            self._restore_words(stored.seq, delivery.body)
        return AppendOutcome.DUPLICATE

    def _record(self, one: RecordedRun, now: datetime) -> None:
        work = self._make(NewWork(one.seq, one.handler, claim=False, trigger=one.attempt.trigger), None, now)
        work.state, work.attempts, work.last_error = one.state, 1, one.attempt.error
        work.history.append(one.attempt)

    def _has_body(self, seq: int) -> bool:
        place = self._place(seq)
        there = place < len(self._deliveries) and self._deliveries[place].seq == seq
        return there and seq not in self._pruned

    def _refused_place(self, request_id: int) -> int:
        if request_id not in self._refused_ids:
            raise UnknownRequest(f"there is no request {request_id} in quarantine")
        return self._refused_ids.index(request_id)


def _is_behind(after: Cursor | None, one: StoredDelivery, *, by_job: bool) -> bool:
    at = Cursor.at(one, by_job=by_job)
    return after is None or _order(at, by_job=by_job) > _order(after, by_job=by_job)


def _order(place: Cursor, *, by_job: bool) -> tuple[bool, str, int]:
    """Return what deliveries are ordered by: those without a job come last."""
    return by_job and place.job_id is None, place.job_id or "", place.seq
