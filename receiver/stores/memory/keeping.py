"""Plans, long readings and imports of a store in memory."""

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

from receiver.keeping import MOST_TYPES, Cursor, DeliveryPlan, Imported
from receiver.records import DeliveryFilter, StoredDelivery
from receiver.stores.memory.reports import MemoryReports
from receiver.types import Outcome


class MemoryKeeping(MemoryReports):
    """What Reports and Controls say about many deliveries."""

    async def plan(self, wanted: DeliveryFilter) -> DeliveryPlan:
        """Return what an action on the wanted deliveries would touch."""
        found = [summary for _, summary in self._newest(wanted)]
        types = Counter(one.type for one in found)
        most = dict(sorted(types.items(), key=lambda one: (-one[1], one[0]))[:MOST_TYPES])
        return DeliveryPlan(
            count=len(found),
            size=sum(one.size for one in found),
            first_at=min((one.received_at for one in found), default=None),
            last_at=max((one.received_at for one in found), default=None),
            types=most,
            others=len(found) - sum(most.values()),
            without_body=sum(not one.has_body for one in found),
        )

    async def stored(
        self, wanted: DeliveryFilter, *, after: Cursor | None = None, by_job: bool = False
    ) -> AsyncIterator[StoredDelivery]:
        """Yield the wanted deliveries with their bodies."""
        found = [stored for stored, summary in self._newest(wanted) if summary.has_body]
        found.sort(key=lambda one: _order(Cursor.at(one, by_job=by_job), by_job=by_job))
        for one in found:
            if after is None or _order(Cursor.at(one, by_job=by_job), by_job=by_job) > _order(after, by_job=by_job):
                yield one

    async def bring_in(self, deliveries: Sequence[Imported]) -> Sequence[Outcome]:
        """Store deliveries from outside whose keys are not stored."""
        return [self._bring_in(one) for one in deliveries]

    def _bring_in(self, one: Imported) -> Outcome:
        delivery = replace(one.delivery, origin=one.origin)
        if delivery.key not in self._by_key:
            self._add(delivery, one.duplicates)
            return Outcome.ACCEPTED
        place = self._place(self._by_key[delivery.key])
        stored = self._deliveries[place]
        if not self._same_body(stored, delivery):
            return Outcome.CONFLICT
        if self._pruned.pop(stored.seq, None) is not None:
            kept = replace(stored.delivery, headers=delivery.headers, body=delivery.body)
            self._deliveries[place] = replace(stored, delivery=kept)
        return Outcome.DUPLICATE


def _order(place: Cursor, *, by_job: bool) -> tuple[bool, str, int]:
    """Return what deliveries are ordered by: those without a job come last."""
    return by_job and place.job_id is None, place.job_id or "", place.seq
