"""What is read from a store in memory."""

from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from itertools import islice, takewhile

from typing_extensions import override

from receiver.core.activity import ActivityCount, MinuteRow, WorkerReport, from_minute, to_minute, whole_minutes
from receiver.core.bulk import MAX_KINDS, Cursor, DeliveryPlan, WorkPlan
from receiver.core.deliveries import (
    DeliveryDetail,
    DeliveryFilter,
    DeliverySummary,
    FeedPage,
    ListingPage,
    LookEnd,
    Quarantined,
    QuarantinedSummary,
    QuarantineFilter,
    Row,
    StoredDelivery,
)
from receiver.core.jobs import (
    LAST_PAGES,
    JobArrivals,
    JobDetail,
    JobEnd,
    JobFilter,
    JobState,
    JobSummary,
    JobWork,
    ends_job,
    family_of,
    is_page,
    job_of,
)
from receiver.core.ports.reports import Reports
from receiver.core.recorded_actions import RecordedAction
from receiver.core.subjects import MAX_SUBJECT_BODY, SearchReach, Subject, subject_of
from receiver.core.types import (
    OPEN_DELIVERIES,
    AttemptOutcome,
    DeliveryKey,
    HandlerName,
    HandlerSwitch,
    Origin,
    WorkState,
)
from receiver.core.work import (
    LATENCY_ITEMS,
    Backlog,
    HandlerReport,
    StoreFacts,
    WorkDetail,
    WorkFilter,
    WorkSummary,
)
from receiver.core.work_states import CLAIMABLE, LEASED, RUN_ENDS, SKIPPABLE
from receiver.errors import AmbiguousJob, UnknownAction, UnknownDelivery, UnknownJob, UnknownRequest, UnknownWork
from receiver.stores.memory.state import MemoryState
from receiver.stores.prefixes import candidates

MAX_ITEMS = 500
"""Ids that are yielded together."""


@dataclass(eq=False)
class MemoryReports(Reports):
    """Reads deliveries, work items, jobs, requests in quarantine and actions, and how the handlers do."""

    state: MemoryState

    @override
    async def deliveries(
        self, wanted: DeliveryFilter, *, before: int | None = None
    ) -> AsyncIterator[DeliverySummary]:
        for _, summary in self.state.newest(wanted, before=before):
            yield summary

    @override
    async def delivery_page(
        self, wanted: DeliveryFilter, *, examine: int, before: int | None = None
    ) -> ListingPage[DeliverySummary]:
        found = (summary for _, summary in self.state.newest(wanted, before=before))
        examined = (one for one in self.state.deliveries.values() if self.state.has_words(one.seq, wanted))
        end = _look_end({one.seq: one.delivery.received_at for one in examined}, before, examine)
        return _page_until(end, found, wanted.limit, lambda one: one.seq)

    @override
    async def look_end(self, *, examine: int, before: int | None = None) -> LookEnd | None:
        received = {seq: one.delivery.received_at for seq, one in self.state.deliveries.items()}
        return _look_end(received, before, examine)

    @override
    async def plan(
        self, wanted: DeliveryFilter, *, after: Cursor | None = None, by_job: bool = False
    ) -> DeliveryPlan:
        found = self.state.newest(wanted)
        return plan_of([summary for one, summary in found if _is_behind(after, one, by_job=by_job)])

    @override
    async def iter_deliveries(
        self, wanted: DeliveryFilter, *, after: Cursor | None = None, by_job: bool = False
    ) -> AsyncIterator[StoredDelivery]:
        found = [stored for stored, summary in self.state.newest(wanted) if summary.has_body]
        found.sort(key=lambda one: _order(Cursor.at(one, by_job=by_job), by_job=by_job))
        for one in found:
            if _is_behind(after, one, by_job=by_job):
                yield one

    @override
    async def failed_handlers(self, seq: int) -> frozenset[HandlerName]:
        return frozenset(one.handler for one in self.state.work_of(seq) if one.failed())

    @override
    async def resolve(self, prefix: str) -> DeliveryKey:
        keys = [key for key in self.state.seqs if key.startswith(prefix)]
        if len(keys) == 1 or prefix in keys:
            return DeliveryKey(prefix) if prefix in keys else keys[0]
        raise UnknownDelivery(candidates(prefix, keys))

    @override
    async def detail(self, key: DeliveryKey) -> DeliveryDetail:
        state = self.state
        if key not in state.seqs:
            raise UnknownDelivery(f"there is no delivery {key}")
        stored = state.deliveries[state.seqs[key]]
        work = tuple(state.work_summary(one) for one in state.work_of(stored.seq))
        body = stored.delivery.body if state.has_body(stored.seq) else None
        return DeliveryDetail(state.delivery_summary(stored), stored.delivery.headers, body, work)

    @override
    async def subjects(self, seqs: Sequence[int]) -> Mapping[int, Subject]:
        there = [self.state.deliveries[seq] for seq in seqs if self.state.has_body(seq)]
        bodies = {one.seq: one.delivery for one in there if len(one.delivery.body) <= MAX_SUBJECT_BODY}
        return {seq: subject_of(one.type, one.job_id, one.body) for seq, one in bodies.items()}

    @override
    async def search_reach(self) -> SearchReach | None:
        state = self.state
        if state.words is None:
            return None
        through = [one.delivery.received_at for seq, one in state.deliveries.items() if seq <= state.indexed]
        return SearchReach(
            sum(seq > state.indexed and state.has_body(seq) for seq in state.deliveries),
            through[-1] if through else None,
        )

    @override
    async def since(self, wanted: DeliveryFilter, *, after: int, limit: int) -> FeedPage:
        looked_at = [seq for seq in self.state.deliveries if seq > after][:limit]
        through = looked_at[-1] if looked_at else after
        found = self.state.newest(replace(wanted, limit=None))
        fitting = [one for _, one in found if after < one.seq <= through]
        return FeedPage(tuple(reversed(fitting)), through)

    @override
    async def arrivals(self, since: datetime) -> Mapping[datetime, int]:
        found = (one.delivery for one in self.state.deliveries.values())
        minutes = Counter(to_minute(one.received_at) for one in found if one.origin is not Origin.SCHEDULE)
        return {from_minute(minute): count for minute, count in minutes.items() if minute >= to_minute(since)}

    @override
    async def by_seqs(self, wanted: DeliveryFilter, seqs: Sequence[int]) -> Sequence[DeliverySummary]:
        fitting = [one for _, one in self.state.newest(replace(wanted, limit=None)) if one.seq in seqs]
        return fitting[::-1]

    @override
    async def open_seqs(self, *, limit: int) -> Sequence[int]:
        found = (one for _, one in self.state.newest(DeliveryFilter(with_runs=True)))
        return list(islice((one.seq for one in found if one.state in OPEN_DELIVERIES), limit))

    @override
    async def changed(self) -> None:
        await self.state.changed()

    @override
    async def require_present(self) -> None:
        """Return: nothing can replace what is in memory."""

    @override
    async def work_items(self, wanted: WorkFilter, *, before: int | None = None) -> AsyncIterator[WorkSummary]:
        for one in self.state.newest_work(wanted, before=before):
            yield one

    @override
    async def work_page(
        self, wanted: WorkFilter, *, examine: int, before: int | None = None
    ) -> ListingPage[WorkSummary]:
        state = self.state
        received = {one.id: state.deliveries[one.seq].delivery.received_at for one in state.work.values()}
        end = _look_end(received, before, examine)
        return _page_until(end, state.newest_work(wanted, before=before), wanted.limit, lambda one: one.id)

    @override
    async def work_item(self, work_id: int) -> WorkDetail:
        if work_id not in self.state.work:
            raise UnknownWork(work_id)
        row = self.state.work[work_id]
        return WorkDetail(self.state.work_summary(row), tuple(row.history))

    @override
    async def work_plan(self, wanted: WorkFilter) -> WorkPlan:
        return WorkPlan.of(list(self.state.newest_work(wanted)))

    @override
    async def work_ids(
        self, wanted: WorkFilter, plan: WorkPlan, *, newest_first: bool = False
    ) -> AsyncIterator[Sequence[int]]:
        unlimited = replace(wanted, limit=None)
        found = [one.id for one in self.state.newest_work(unlimited)]
        planned = [work_id for work_id in found if plan.first_id <= work_id <= plan.last_id]
        planned = (planned if newest_first else planned[::-1])[: plan.count]
        for start in range(0, len(planned), MAX_ITEMS):
            still = {one.id for one in self.state.newest_work(unlimited)}
            yield [work_id for work_id in planned[start : start + MAX_ITEMS] if work_id in still]

    @override
    async def quarantined_requests(
        self, wanted: QuarantineFilter, *, before: int | None = None
    ) -> AsyncIterator[QuarantinedSummary]:
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

    @override
    async def quarantined_request(self, request_id: int) -> Quarantined:
        if request_id not in self.state.quarantined:
            raise UnknownRequest(request_id)
        return self.state.quarantined[request_id]

    @override
    async def jobs(
        self, wanted: JobFilter, *, before: int | None = None, through: int | None = None
    ) -> AsyncIterator[JobSummary]:
        by_job: dict[str, list[StoredDelivery]] = {}
        for one in self.state.deliveries.values():
            if one.delivery.job_id is not None:
                by_job.setdefault(one.delivery.job_id, []).append(one)
        fitting = [
            job
            for job_id, mine in by_job.items()
            if _fits_type(mine, wanted.type) and _fits(job := _summary(job_id, mine), wanted)
        ]
        asked = (
            job
            for job in fitting
            if (before is None or job.last_seq < before) and (through is None or job.last_seq >= through)
        )
        for job in sorted(asked, key=lambda job: -job.last_seq)[: wanted.limit]:
            yield job

    @override
    async def resolve_job(self, prefix: str) -> str:
        known = {one.delivery.job_id or "" for one in self.state.deliveries.values()}
        ids = sorted(job_id for job_id in known if job_id and job_id.startswith(prefix))
        if len(ids) == 1 or prefix in ids:
            return prefix if prefix in ids else ids[0]
        raise (AmbiguousJob if ids else UnknownJob)(candidates(prefix, ids, noun="job"))

    @override
    async def job(self, job_id: str) -> JobDetail:
        mine = [one for one in self.state.deliveries.values() if one.delivery.job_id == job_id]
        if not mine:
            raise UnknownJob(f"there is no job {job_id}")
        seqs = {one.seq for one in mine}
        states: dict[HandlerName, list[WorkState]] = {}
        for work in self.state.work.values():
            if work.seq in seqs:
                states.setdefault(work.handler, []).append(work.state)
        return JobDetail(
            summary=_summary(job_id, mine),
            arrivals=tuple(_arrivals(mine)),
            new=sum(seq > self.state.routed for seq in seqs),
            work=tuple(JobWork(name, self.state.switch_of(name), Counter(states[name])) for name in sorted(states)),
        )

    @override
    async def count_unfinished(self) -> int:
        return sum(one.state in OPEN_DELIVERIES for _, one in self.state.newest(DeliveryFilter(with_runs=True)))

    @override
    async def handlers(self, *, count_done: bool = True) -> Sequence[HandlerReport]:
        names = {one.handler for one in self.state.work.values()}
        names |= self.state.switches.keys() | self.state.schedules.keys()
        return [self._report(name, count_done=count_done) for name in sorted(names)]

    @override
    async def handler_names(self) -> Sequence[HandlerName]:
        return sorted({one.handler for one in self.state.work.values()} | self.state.schedules.keys())

    @override
    async def switches(self) -> Mapping[HandlerName, HandlerSwitch]:
        return dict(self.state.switches)

    @override
    async def waiting(self) -> Mapping[HandlerName, int]:
        return Counter(one.handler for one in self.state.work.values() if one.state in SKIPPABLE)

    @override
    async def backlog(self, now: datetime) -> Backlog:
        work, unrouted = self.state.work.values(), self.state.unrouted()
        since = [one.due_at for one in work if one.state in CLAIMABLE]
        since += [one.delivery.received_at for one in unrouted[:1]]
        oldest = min(since, default=None)
        return Backlog(
            new=len(unrouted),
            waiting=sum(one.state in SKIPPABLE for one in work),
            running=sum(one.state in LEASED for one in work),
            oldest_waiting=None if oldest is None else max(timedelta(0), now - oldest),
            paused=tuple(sorted(name for name, to in self.state.switches.items() if to is HandlerSwitch.PAUSED)),
            lost=sum(attempt.outcome is AttemptOutcome.LOST for one in work for attempt in one.history),
            next_runs={name: moment for name, (_, moment) in self.state.schedules.items()},
        )

    @override
    async def workers(self) -> Sequence[WorkerReport]:
        leased = [one for one in self.state.work.values() if one.state in LEASED]
        return [
            WorkerReport(sign, seen_at, Counter(one.handler for one in leased if one.worker == name))
            for name, (sign, seen_at) in sorted(self.state.workers.items())
        ]

    @override
    async def paces(self) -> Mapping[HandlerName, datetime]:
        return dict(self.state.paced_until)

    @override
    async def activity(
        self, *, since: datetime, step: timedelta, handler: HandlerName | None = None
    ) -> Sequence[ActivityCount]:
        size, counts = whole_minutes(step), Counter[MinuteRow]()
        first = to_minute(since) // size * size
        for (minute, name, outcome, bucket), count in self.state.minutes.items():
            if minute >= first and handler in (None, name):
                counts[minute // size * size, name, outcome, bucket] += count
        return [
            ActivityCount(from_minute(minute), name, outcome, bucket, count)
            for (minute, name, outcome, bucket), count in counts.items()
        ]

    @override
    async def facts(self) -> StoreFacts:
        return StoreFacts(sum(len(one.delivery.body) for one in self.state.deliveries.values()))

    def _report(self, name: HandlerName, *, count_done: bool) -> HandlerReport:
        mine = [one for one in self.state.work.values() if one.handler == name]
        ended = [one for one in mine if one.state in RUN_ENDS]
        times = sorted(
            attempt.ended_at - attempt.started_at
            for one in ended[-LATENCY_ITEMS:]
            for attempt in one.history
            if attempt.started_at is not None
        )
        states = (one.state for one in mine if count_done or one.state is not WorkState.DONE)
        counts: Counter[WorkState] = Counter(states)
        newest_first = sorted(mine, key=lambda one: (one.seq, one.id), reverse=True)
        failed = next((one for one in newest_first if one.last_error is not None), None)
        schedule, next_run = self.state.schedules.get(name, (None, None))
        return HandlerReport(
            name=name,
            switch=self.state.switch_of(name),
            counts=dict(counts),
            last_error=None if failed is None else failed.last_error,
            latency=times[len(times) // 2] if times and count_done else None,
            failed_id=None if failed is None else failed.id,
            schedule=schedule,
            next_run=next_run,
        )

    @override
    async def actions(self, *, limit: int, before: int | None = None) -> Sequence[RecordedAction]:
        newest = reversed(self.state.actions.values())
        return list(islice((one for one in newest if before is None or one.id < before), limit))

    @override
    async def action(self, number: int) -> RecordedAction:
        if (found := self.state.actions.get(number)) is None:
            raise UnknownAction(number)
        return found


def _look_end(received: Mapping[int, datetime], before: int | None, examine: int) -> LookEnd | None:
    """Return where an examination of that many rows, the newest first, ends; None if it reaches the oldest."""
    places = sorted((one for one in received if before is None or one < before), reverse=True)
    if len(places) <= examine:
        return None
    return LookEnd(places[examine - 1], received[places[examine - 1]])


def _page_until(
    end: LookEnd | None, found: Iterable[Row], limit: int | None, place: Callable[[Row], int]
) -> ListingPage[Row]:
    """Return the rows up to where the examination ends. `found` has no more than `limit`."""
    rows = tuple(takewhile(lambda one: end is None or place(one) >= end.place, found))
    return ListingPage(rows, None if len(rows) == limit else end)


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
    """Return the sort key of a delivery: those without a job come last."""
    return by_job and place.job_id is None, place.job_id or "", place.seq


def _summary(job_id: str, mine: Sequence[StoredDelivery]) -> JobSummary:
    """Return a job with these deliveries, the oldest first, as a listing shows it."""
    end = next((one for one in mine if ends_job(one.delivery.type)), None)
    sent = [one for one in mine if one.delivery.origin is not Origin.BACKFILL]
    pages = [one for one in sent if is_page(one.delivery.type)]
    return job_of(
        job_id,
        _arrivals(mine),
        last_seq=mine[-1].seq,
        first_at=mine[0].delivery.received_at,
        last_at=mine[-1].delivery.received_at,
        end=None if end is None else JobEnd(end.delivery.type, end.delivery.success, end.delivery.received_at),
        late=sum(end is not None and one.seq > end.seq for one in pages),
        failed_lately=sum(one.delivery.success is False for one in pages[-LAST_PAGES:]),
    )


def _arrivals(mine: Sequence[StoredDelivery]) -> Sequence[JobArrivals]:
    """Return deliveries counted by type and success, in the order of their first arrival."""
    kinds: dict[tuple[str, bool | None], list[StoredDelivery]] = {}
    for one in mine:
        kinds.setdefault((one.delivery.type, one.delivery.success), []).append(one)
    return [
        JobArrivals(
            kind,
            success,
            len(them),
            sum(one.duplicates for one in them),
            them[0].seq,
            sum(one.delivery.origin is Origin.BACKFILL for one in them),
        )
        for (kind, success), them in kinds.items()
    ]


def _fits_type(mine: Sequence[StoredDelivery], glob: str | None) -> bool:
    types = {one.delivery.type for one in mine}
    return glob is None or any(fnmatchcase(name, glob) for kind in types for name in (kind, family_of(kind)))


def _fits(job: JobSummary, wanted: JobFilter) -> bool:
    ended = wanted.state is JobState.ENDED and job.end is not None
    return (
        (wanted.job_id is None or job.job_id == wanted.job_id)
        and (wanted.since is None or job.last_at >= wanted.since)
        and (wanted.until is None or job.first_at < wanted.until)
        and (wanted.state is None or job.state is wanted.state or ended)
    )
