"""Jobs, read from the deliveries of a store in memory."""

from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from fnmatch import fnmatchcase

from receiver.core.deliveries import Delivery, StoredDelivery
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
from receiver.core.types import HandlerName, Origin, WorkState
from receiver.errors import AmbiguousJob, UnknownJob
from receiver.stores.memory.face import MemoryFace
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
