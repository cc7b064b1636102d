"""Reports of a store in memory."""

from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from itertools import islice

from receiver.core.deliveries import DeliveryDetail, DeliveryFilter, DeliverySummary, FeedPage, StoredDelivery
from receiver.core.types import (
    OPEN_DELIVERIES,
    OPEN_STATES,
    AttemptOutcome,
    DeliveryKey,
    DeliveryState,
    HandlerName,
    HandlerSwitch,
    WorkState,
)
from receiver.core.work import Backlog, HandlerReport, WorkDetail, WorkFilter, WorkSummary
from receiver.errors import UnknownDelivery, UnknownWork
from receiver.stores.memory.queue import MemoryQueue, WorkRow
from receiver.stores.prefixes import candidates


class MemoryReports(MemoryQueue):
    """What listings, health and tools need, over the lists."""

    async def deliveries(self, wanted: DeliveryFilter) -> AsyncIterator[DeliverySummary]:
        """Yield the wanted deliveries, the newest first."""
        for _, summary in self._newest(wanted):
            yield summary

    async def failed_handlers(self, seq: int) -> frozenset[HandlerName]:
        """Return the handlers that failed with a delivery."""
        return frozenset(
            one.handler
            for one in self._work
            if one.source == seq and (one.state is WorkState.DEAD or one.last_error is not None)
        )

    async def since(self, wanted: DeliveryFilter, *, after: int, limit: int) -> FeedPage:
        """Return the wanted ones of the next deliveries, the oldest first."""
        looked_at = [one.seq for one in self._deliveries if one.seq > after][:limit]
        through = looked_at[-1] if looked_at else after
        fitting = [one for _, one in self._newest(replace(wanted, limit=None)) if after < one.seq <= through]
        return FeedPage(tuple(reversed(fitting)), through)

    async def by_seqs(self, wanted: DeliveryFilter, seqs: Sequence[int]) -> Sequence[DeliverySummary]:
        """Return the wanted ones of the deliveries with these seqs, the oldest first."""
        fitting = [one for _, one in self._newest(replace(wanted, limit=None)) if one.seq in seqs]
        return fitting[::-1]

    async def open_seqs(self, *, limit: int) -> Sequence[int]:
        """Return the seqs of deliveries that are NEW or WORKING, the newest first."""
        newest = (one for _, one in self._newest(DeliveryFilter()))
        return list(islice((one.seq for one in newest if one.state in OPEN_DELIVERIES), limit))

    async def resolve(self, prefix: str) -> DeliveryKey:
        """Return the one key that begins so."""
        keys = [key for key in self._by_key if key.startswith(prefix)]
        if len(keys) == 1 or prefix in keys:
            return DeliveryKey(prefix) if prefix in keys else keys[0]
        raise UnknownDelivery(candidates(prefix, keys))

    async def detail(self, key: DeliveryKey) -> DeliveryDetail:
        """Return all that is known of a delivery."""
        if key not in self._by_key:
            raise UnknownDelivery(f"there is no delivery {key}")
        stored = self._deliveries[self._place(self._by_key[key])]
        work = tuple(self._summary_of(one) for one in self._work if one.source == stored.seq)
        body = None if stored.seq in self._pruned else stored.delivery.body
        return DeliveryDetail(self._summary(stored), stored.delivery.headers, body, work)

    async def count_unfinished(self) -> int:
        """Return how many deliveries are NEW or WORKING."""
        return len(await self.open_seqs(limit=len(self._deliveries)))

    async def work_items(self, wanted: WorkFilter) -> AsyncIterator[WorkSummary]:
        """Yield the wanted work items, the newest first."""
        found = (self._summary_of(work) for work in reversed(self._work))
        for number, summary in enumerate(one for one in found if _wanted_work(one, wanted)):
            if number == wanted.limit:
                return
            yield summary

    async def work_item(self, work_id: int) -> WorkDetail:
        """Return a work item with its attempts."""
        for one in self._chosen([work_id]):
            return WorkDetail(self._summary_of(one), tuple(one.history))
        raise UnknownWork(f"there is no work item {work_id}")

    async def handlers(self) -> Sequence[HandlerReport]:
        """Return every handler that has work items or a switch."""
        names = {one.handler for one in self._work} | self._switches.keys()
        return [self._report(name) for name in sorted(names)]

    async def waiting(self) -> Mapping[HandlerName, int]:
        """Return how many work items of each handler wait, are queued or held."""
        states = OPEN_STATES - {WorkState.RUNNING}
        return Counter(one.handler for one in self._work if one.state in states)

    async def backlog(self, now: datetime) -> Backlog:
        """Return what is still to be done."""
        states = [one.state for one in self._work if one.state in OPEN_STATES]
        running = states.count(WorkState.RUNNING)
        since = [one.due_at for one in self._work if one.state is WorkState.WAITING]
        since += [one.delivery.received_at for one in self._new()[:1]]
        oldest = min(since, default=None)
        return Backlog(
            new=len(self._new()),
            waiting=len(states) - running,
            running=running,
            oldest_waiting=None if oldest is None else max(timedelta(0), now - oldest),
            paused=tuple(sorted(name for name, to in self._switches.items() if to is HandlerSwitch.PAUSED)),
            lost=sum(attempt.outcome is AttemptOutcome.LOST for one in self._work for attempt in one.history),
        )

    # --- inside

    def _newest(self, wanted: DeliveryFilter) -> Iterator[tuple[StoredDelivery, DeliverySummary]]:
        """Yield the wanted deliveries, the newest first."""
        self._check_words(wanted)
        found = ((stored, self._summary(stored)) for stored in reversed(self._deliveries))
        fitting = (one for one in found if self._is_wanted(one[1], wanted))
        return islice(fitting, wanted.limit)

    def _is_wanted(self, summary: DeliverySummary, wanted: DeliveryFilter) -> bool:
        seq = summary.seq
        return _wanted(summary, wanted) and self._has_work(seq, wanted) and self._has_words(seq, wanted)

    def _has_work(self, seq: int, wanted: DeliveryFilter) -> bool:
        if wanted.handler is None and not wanted.failed:
            return True
        return any(
            one.source == seq
            and fnmatchcase(one.handler, wanted.handler or "*")
            and (not wanted.failed or one.state is WorkState.DEAD or one.last_error is not None)
            for one in self._work
        )

    def _summary(self, stored: StoredDelivery) -> DeliverySummary:
        one = stored.delivery
        return DeliverySummary(
            seq=stored.seq,
            key=one.key,
            type=one.type,
            job_id=one.job_id,
            webhook_id=one.webhook_id,
            success=one.success,
            received_at=one.received_at,
            size=self._pruned.get(stored.seq, len(one.body)),
            duplicates=stored.duplicates,
            state=self._state(stored.seq),
            origin=one.origin,
            has_body=stored.seq not in self._pruned,
        )

    def _state(self, seq: int) -> DeliveryState:
        if seq > self._routed:
            return DeliveryState.NEW
        states = {one.state for one in self._work if one.source == seq}
        if states & OPEN_STATES:
            return DeliveryState.WORKING
        return DeliveryState.DEAD if WorkState.DEAD in states else DeliveryState.DONE

    def _summary_of(self, work: WorkRow) -> WorkSummary:
        delivery = self._source(work).delivery
        return WorkSummary(
            id=work.id,
            key=delivery.key,
            type=delivery.type,
            job_id=delivery.job_id,
            received_at=delivery.received_at,
            handler=work.handler,
            state=work.state,
            attempts=work.attempts,
            lane=work.lane,
            due_at=work.due_at if work.state in (WorkState.WAITING, WorkState.HELD) else None,
            last_error=work.last_error,
            note=work.note,
            holds_lane=work.heads_lane and work.state is WorkState.DEAD,
        )

    def _report(self, name: HandlerName) -> HandlerReport:
        mine = [one for one in self._work if one.handler == name]
        ended = [one for one in mine if one.state in (WorkState.DONE, WorkState.DEAD)]
        times = sorted(
            attempt.ended_at - attempt.started_at
            for one in ended[-100:]
            for attempt in one.history
            if attempt.started_at is not None
        )
        states = [one.state for one in mine]
        return HandlerReport(
            name=name,
            switch=self._switches.get(name, HandlerSwitch.ON),
            counts={state: states.count(state) for state in set(states)},
            last_error=next((one.last_error for one in reversed(mine) if one.last_error is not None), None),
            latency=times[len(times) // 2] if times else None,
        )


def _wanted(summary: DeliverySummary, wanted: DeliveryFilter) -> bool:
    return _fits(summary, wanted) and (wanted.state is None or summary.state == wanted.state)


def _wanted_work(summary: WorkSummary, wanted: WorkFilter) -> bool:
    return (
        _fits(summary, wanted)
        and (wanted.handler is None or fnmatchcase(summary.handler, wanted.handler))
        and (wanted.state is None or summary.state == wanted.state)
        and (not wanted.among or summary.state in wanted.among)
        and (not wanted.stuck or summary.state is not WorkState.DEAD or summary.holds_lane)
    )


def _fits(summary: DeliverySummary | WorkSummary, wanted: DeliveryFilter | WorkFilter) -> bool:
    return (
        (wanted.type is None or fnmatchcase(summary.type, wanted.type))
        and (wanted.job_id is None or summary.job_id == wanted.job_id)
        and (wanted.since is None or summary.received_at >= wanted.since)
        and (wanted.until is None or summary.received_at < wanted.until)
    )
