"""Jobs, read from the deliveries of a store in memory."""

from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from itertools import islice

from receiver.core.activity import ActivityCount, MinuteRow, WorkerReport, from_minute, to_minute, whole_minutes
from receiver.core.bulk import MAX_KINDS, Cursor, DeliveryPlan
from receiver.core.deliveries import (
    Delivery,
    DeliveryDetail,
    DeliveryFilter,
    DeliverySummary,
    FeedPage,
    ListingPage,
    LookEnd,
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
from receiver.core.recorded_actions import NewAction, RecordedAction
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
from receiver.core.work import LATENCY_ITEMS, Backlog, HandlerReport, StoreFacts
from receiver.core.work_states import CLAIMABLE, LEASED, RUN_ENDS, SKIPPABLE
from receiver.errors import AmbiguousJob, UnknownAction, UnknownDelivery, UnknownJob
from receiver.stores.memory.state import (
    MemoryFace,
    delivery_summary,
    has_words,
    look_end,
    newest,
    page_until,
    work_summary,
)
from receiver.stores.prefixes import candidates


class MemoryJobs(MemoryFace):
    """A JobReader."""

    async def jobs(
        self, wanted: JobFilter, *, before: int | None = None, through: int | None = None
    ) -> AsyncIterator[JobSummary]:
        """Yield the wanted jobs, the one whose last delivery came last first."""
        for job in found(list(self.state.deliveries.values()), wanted, before=before, through=through):
            yield job

    async def resolve_job(self, prefix: str) -> str:
        """Return the one job id that begins so."""
        known = {one.delivery.job_id or "" for one in self.state.deliveries.values()}
        ids = sorted(job_id for job_id in known if job_id and job_id.startswith(prefix))
        if len(ids) == 1 or prefix in ids:
            return prefix if prefix in ids else ids[0]
        raise (AmbiguousJob if ids else UnknownJob)(candidates(prefix, ids, noun="job"))

    async def job(self, job_id: str) -> JobDetail:
        """Return all that is known of a job."""
        mine = [one for one in self.state.deliveries.values() if one.delivery.job_id == job_id]
        if not mine:
            raise UnknownJob(f"there is no job {job_id}")
        seqs = {one.seq for one in mine}
        states: dict[HandlerName, list[WorkState]] = {}
        for work in self.state.work.values():
            if work.seq in seqs:
                states.setdefault(work.handler, []).append(work.state)
        return JobDetail(
            summary=summary(job_id, mine),
            arrivals=tuple(arrivals(mine)),
            new=sum(seq > self.state.routed for seq in seqs),
            work=tuple(JobWork(name, self.state.switch_of(name), Counter(states[name])) for name in sorted(states)),
        )


def found(
    deliveries: Sequence[StoredDelivery],
    wanted: JobFilter,
    *,
    before: int | None = None,
    through: int | None = None,
) -> Iterator[JobSummary]:
    """Yield the wanted jobs, the one whose last delivery came last first."""
    by_job: dict[str, list[StoredDelivery]] = {}
    for one in deliveries:
        if one.delivery.job_id is not None:
            by_job.setdefault(one.delivery.job_id, []).append(one)
    fitting = [
        job
        for job_id, mine in by_job.items()
        if _fits_type(mine, wanted.type) and _fits(job := summary(job_id, mine), wanted)
    ]
    earlier = (job for job in fitting if before is None or job.last_seq < before)
    asked = (job for job in earlier if through is None or job.last_seq >= through)
    yield from sorted(asked, key=lambda job: -job.last_seq)[: wanted.limit]


def summary(job_id: str, mine: Sequence[StoredDelivery]) -> JobSummary:
    """Return the line of a job with these deliveries, the oldest first."""
    ended = next((one for one in mine if ends_job(one.delivery.type)), None)
    sent = [one for one in mine if one.delivery.origin is not Origin.BACKFILL]
    pages = [one for one in sent if is_page(one.delivery.type)]
    return job_of(
        job_id,
        arrivals(mine),
        last_seq=mine[-1].seq,
        first_at=mine[0].delivery.received_at,
        last_at=mine[-1].delivery.received_at,
        end=None if ended is None else _end(ended.delivery),
        late=sum(ended is not None and one.seq > ended.seq for one in pages),
        failed_lately=sum(one.delivery.success is False for one in pages[-LAST_PAGES:]),
    )


def _end(ended: Delivery) -> JobEnd:
    return JobEnd(ended.type, ended.success, ended.received_at)


def arrivals(mine: Sequence[StoredDelivery]) -> Sequence[JobArrivals]:
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


# FOLDED: What people did, in a store in memory.
class MemoryActions(MemoryFace):
    """An ActionLog and an ActionReader."""

    async def begin_action(self, action: NewAction, *, now: datetime) -> int:
        """Record that an action begins."""
        self.state.last_action += 1
        number = self.state.last_action
        self.state.actions[number] = RecordedAction(number, action, now, now)
        self.state.changes.set()
        return number

    async def advance_action(self, action: int, *, seen: int, changed: int, now: datetime) -> None:
        """Add to what it has looked at and changed."""
        self.count_for(action, seen=seen, changed=changed, now=now)

    async def end_action(self, action: int, *, now: datetime, error: str | None = None) -> None:
        """Record that it has ended."""
        if (found := self.state.actions.get(action)) is not None:
            self.state.actions[action] = replace(found, ended_at=now, error=error)
            self.state.changes.set()

    async def actions(self, *, limit: int, before: int | None = None) -> Sequence[RecordedAction]:
        """Return recorded actions, the newest first."""
        newest = reversed(self.state.actions.values())
        return list(islice((one for one in newest if before is None or one.id < before), limit))

    async def action(self, number: int) -> RecordedAction:
        """Return a recorded action."""
        if (found := self.state.actions.get(number)) is None:
            raise UnknownAction(number)
        return found

    def count_for(self, action: int | None, *, seen: int, changed: int, now: datetime) -> None:
        """Add to an action; None is no action."""
        if action is not None and (found := self.state.actions.get(action)) is not None:
            self.state.actions[action] = replace(
                found, seen=found.seen + seen, changed=found.changed + changed, seen_at=now
            )


# FOLDED: Reading deliveries from a store in memory.
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


# FOLDED: How the handlers of a store in memory do, and how much is still to be done.
class MemoryHealth(MemoryFace):
    """A HealthReader."""

    async def count_unfinished(self) -> int:
        """Return how many deliveries are NEW or WORKING."""
        return sum(one.state in OPEN_DELIVERIES for _, one in newest(self.state, DeliveryFilter(with_runs=True)))

    async def handlers(self, *, count_done: bool = True) -> Sequence[HandlerReport]:
        """Return every handler that has work items, a switch or a schedule."""
        names = {one.handler for one in self.state.work.values()}
        names |= self.state.switches.keys() | self.state.schedules.keys()
        return [self._report(name, count_done=count_done) for name in sorted(names)]

    async def handler_names(self) -> Sequence[HandlerName]:
        """Return the names of all handlers that have work items or a schedule."""
        return sorted({one.handler for one in self.state.work.values()} | self.state.schedules.keys())

    async def switches(self) -> Mapping[HandlerName, HandlerSwitch]:
        """Return the handlers that are not ON."""
        return dict(self.state.switches)

    async def waiting(self) -> Mapping[HandlerName, int]:
        """Return how many work items of each handler have not begun."""
        return Counter(one.handler for one in self.state.work.values() if one.state in SKIPPABLE)

    async def backlog(self, now: datetime) -> Backlog:
        """Return what is still to be done."""
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

    async def workers(self) -> Sequence[WorkerReport]:
        """Return the workers that have not said that they ended."""
        leased = [one for one in self.state.work.values() if one.state in LEASED]
        return [
            WorkerReport(sign, seen_at, Counter(one.handler for one in leased if one.worker == name))
            for name, (sign, seen_at) in sorted(self.state.workers.items())
        ]

    async def paces(self) -> Mapping[HandlerName, datetime]:
        """Return until when handlers with a rate are paced."""
        return dict(self.state.paced_until)

    async def activity(
        self, *, since: datetime, step: timedelta, handler: HandlerName | None = None
    ) -> Sequence[ActivityCount]:
        """Return what handlers did since a moment."""
        size, counts = whole_minutes(step), Counter[MinuteRow]()
        first = to_minute(since) // size * size
        for (minute, name, outcome, bucket), count in self.state.minutes.items():
            if minute >= first and handler in (None, name):
                counts[minute // size * size, name, outcome, bucket] += count
        return [
            ActivityCount(from_minute(minute), name, outcome, bucket, count)
            for (minute, name, outcome, bucket), count in counts.items()
        ]

    async def facts(self) -> StoreFacts:
        """Return how large the bodies are."""
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
