"""Reading deliveries from a store in memory."""

from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import islice

from receiver.core.activity import from_minute, to_minute
from receiver.core.bulk import MAX_KINDS, Cursor, DeliveryPlan
from receiver.core.deliveries import DeliveryDetail, DeliveryFilter, DeliverySummary, FeedPage, StoredDelivery
from receiver.core.listing_pages import ListingPage, LookEnd
from receiver.core.search import SearchReach
from receiver.core.subjects import MAX_SUBJECT_BODY, Subject, subject_of
from receiver.core.types import OPEN_DELIVERIES, DeliveryKey, HandlerName, Origin
from receiver.errors import UnknownDelivery
from receiver.stores.memory.face import MemoryFace
from receiver.stores.memory.listing import delivery_summary, look_end, newest, page_until, work_summary
from receiver.stores.memory.search import has_words
from receiver.stores.prefixes import candidates


class MemoryDeliveries(MemoryFace):
    """A DeliveryReader."""

    async def deliveries(
        self, wanted: DeliveryFilter, *, before: int | None = None
    ) -> AsyncIterator[DeliverySummary]:
        """Yield the wanted deliveries, the newest first."""
        for _, summary in newest(self.state, wanted, before=before):
            yield summary

    async def delivery_page(
        self, wanted: DeliveryFilter, *, examine: int, before: int | None = None
    ) -> ListingPage[DeliverySummary]:
        """Return the newest wanted deliveries that a short look finds."""
        found = (summary for _, summary in newest(self.state, wanted, before=before))
        examined = (one for one in self.state.deliveries.values() if has_words(self.state, one.seq, wanted))
        end = look_end({one.seq: one.delivery.received_at for one in examined}, before, examine)
        return page_until(end, found, wanted.limit, lambda one: one.seq)

    async def look_end(self, *, examine: int, before: int | None = None) -> LookEnd | None:
        """Return the last of the newest deliveries."""
        received = {seq: one.delivery.received_at for seq, one in self.state.deliveries.items()}
        return look_end(received, before, examine)

    async def plan(
        self, wanted: DeliveryFilter, *, after: Cursor | None = None, by_job: bool = False
    ) -> DeliveryPlan:
        """Return what an action on the wanted deliveries would touch."""
        found = newest(self.state, wanted)
        return plan_of([summary for one, summary in found if _is_behind(after, one, by_job=by_job)])

    async def iter_deliveries(
        self, wanted: DeliveryFilter, *, after: Cursor | None = None, by_job: bool = False
    ) -> AsyncIterator[StoredDelivery]:
        """Yield the wanted deliveries with their bodies."""
        found = [stored for stored, summary in newest(self.state, wanted) if summary.has_body]
        found.sort(key=lambda one: _order(Cursor.at(one, by_job=by_job), by_job=by_job))
        for one in found:
            if _is_behind(after, one, by_job=by_job):
                yield one

    async def failed_handlers(self, seq: int) -> frozenset[HandlerName]:
        """Return the handlers that failed with a delivery."""
        return frozenset(one.handler for one in self.state.work_of(seq) if one.failed())

    async def resolve(self, prefix: str) -> DeliveryKey:
        """Return the one key that begins with this prefix."""
        keys = [key for key in self.state.seqs if key.startswith(prefix)]
        if len(keys) == 1 or prefix in keys:
            return DeliveryKey(prefix) if prefix in keys else keys[0]
        raise UnknownDelivery(candidates(prefix, keys))

    async def detail(self, key: DeliveryKey) -> DeliveryDetail:
        """Return all that is known of a delivery."""
        state = self.state
        if key not in state.seqs:
            raise UnknownDelivery(f"there is no delivery {key}")
        stored = state.deliveries[state.seqs[key]]
        work = tuple(work_summary(state, one) for one in state.work_of(stored.seq))
        body = stored.delivery.body if state.has_body(stored.seq) else None
        return DeliveryDetail(delivery_summary(state, stored), stored.delivery.headers, body, work)

    async def subjects(self, seqs: Sequence[int]) -> Mapping[int, Subject]:
        """Return what deliveries are about, as far as their bodies are there and not long."""
        there = [self.state.deliveries[seq] for seq in seqs if self.state.has_body(seq)]
        bodies = {one.seq: one.delivery for one in there if len(one.delivery.body) <= MAX_SUBJECT_BODY}
        return {seq: subject_of(one.type, one.job_id, one.body) for seq, one in bodies.items()}

    async def search_reach(self) -> SearchReach | None:
        """Return how far the index reaches, None without one."""
        state = self.state
        if state.words is None:
            return None
        through = [one.delivery.received_at for seq, one in state.deliveries.items() if seq <= state.indexed]
        return SearchReach(
            sum(seq > state.indexed and state.has_body(seq) for seq in state.deliveries),
            through[-1] if through else None,
        )


class MemoryFeed(MemoryFace):
    """A FeedReader."""

    async def since(self, wanted: DeliveryFilter, *, after: int, limit: int) -> FeedPage:
        """Return the wanted ones of the next deliveries, the oldest first."""
        looked_at = [seq for seq in self.state.deliveries if seq > after][:limit]
        through = looked_at[-1] if looked_at else after
        found = newest(self.state, replace(wanted, limit=None))
        fitting = [one for _, one in found if after < one.seq <= through]
        return FeedPage(tuple(reversed(fitting)), through)

    async def arrivals(self, since: datetime) -> Mapping[datetime, int]:
        """Count the deliveries since a moment by the minute of their arrival."""
        found = (one.delivery for one in self.state.deliveries.values())
        minutes = Counter(to_minute(one.received_at) for one in found if one.origin is not Origin.SCHEDULE)
        return {from_minute(minute): count for minute, count in minutes.items() if minute >= to_minute(since)}

    async def by_seqs(self, wanted: DeliveryFilter, seqs: Sequence[int]) -> Sequence[DeliverySummary]:
        """Return the wanted ones of the deliveries with these seqs, the oldest first."""
        fitting = [one for _, one in newest(self.state, replace(wanted, limit=None)) if one.seq in seqs]
        return fitting[::-1]

    async def open_seqs(self, *, limit: int) -> Sequence[int]:
        """Return the seqs of deliveries that are NEW or WORKING, the newest first."""
        found = (one for _, one in newest(self.state, DeliveryFilter(with_runs=True)))
        return list(islice((one.seq for one in found if one.state in OPEN_DELIVERIES), limit))

    async def changed(self) -> None:
        """Return when something has changed since the last call."""
        await self.state.changed()

    async def require_present(self) -> None:
        """Return: nothing can replace what is in memory."""


def plan_of(found: Sequence[DeliverySummary]) -> DeliveryPlan:
    """Return the plan of an action on these deliveries."""
    types = Counter(one.type for one in found)
    most = dict(sorted(types.items(), key=lambda one: (-one[1], one[0]))[:MAX_KINDS])
    return DeliveryPlan(
        count=len(found),
        size=sum(one.size for one in found),
        first_at=min((one.received_at for one in found), default=None),
        last_at=max((one.received_at for one in found), default=None),
        types=most,
        others=len(found) - sum(most.values()),
        without_body=sum(not one.has_body for one in found),
    )


def _is_behind(after: Cursor | None, one: StoredDelivery, *, by_job: bool) -> bool:
    at = Cursor.at(one, by_job=by_job)
    return after is None or _order(at, by_job=by_job) > _order(after, by_job=by_job)


def _order(place: Cursor, *, by_job: bool) -> tuple[bool, str, int]:
    """Return what deliveries are ordered by: those without a job come last."""
    return by_job and place.job_id is None, place.job_id or "", place.seq
