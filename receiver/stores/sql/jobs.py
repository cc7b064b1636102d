"""Jobs, read from their deliveries."""

from array import array
from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from itertools import islice
from typing import Any

from receiver.core.clock import from_micros, to_micros
from receiver.core.jobs import JobArrivals, JobDetail, JobEnd, JobFilter, JobState, JobSummary, JobWork, job_of
from receiver.core.types import HandlerSwitch, WorkState
from receiver.errors import AmbiguousJob, UnknownJob
from receiver.stores.prefixes import MAX_NAMED, candidates
from receiver.stores.sql.connection import SqlConnection, SqlDatabase, Values, number
from receiver.stores.sql.rows import flag, switches
from receiver.stores.sql.statements.filters import Reads

NEWEST = 2**63 - 1
"""Above every seq and every id."""
PAGE_SIZE = 4
"""Jobs read in one go: one alone may have many thousands of deliveries."""


class JobReports:
    """The reports about jobs."""

    def __init__(self, database: SqlDatabase, reads: Reads) -> None:
        self.database = database
        self._reads = reads

    async def jobs(
        self, wanted: JobFilter, *, before: int | None = None, through: int | None = None
    ) -> AsyncIterator[JobSummary]:
        """Yield the wanted jobs, the one whose last delivery came last first."""
        most = NEWEST if wanted.limit is None else wanted.limit
        seqs = await self.database.call(
            lambda connection: _last_seqs(connection, self._reads, wanted, most, before or NEWEST, through)
        )
        for begin in range(0, len(seqs), PAGE_SIZE):
            for job in await self._jobs_at(seqs[begin : begin + PAGE_SIZE]):
                yield job

    async def resolve_job(self, prefix: str) -> str:
        """Return the one job id that begins so."""
        return await self.database.call(lambda connection: resolved(connection, self._reads, prefix))

    async def job(self, job_id: str) -> JobDetail:
        """Return all that is known of a job."""
        return await self.database.call(lambda connection: detail(connection, self._reads, job_id))

    async def _jobs_at(self, seqs: Sequence[int]) -> list[JobSummary]:
        """Return the jobs of deliveries as they are now, but for those that were pruned meanwhile."""

        def read(connection: SqlConnection) -> list[JobSummary]:
            with self._reads.dialect.snapshot(connection):
                rows = [connection.execute(self._reads.jobs.job_at, {"seq": seq}).fetchone() for seq in seqs]
                return [summary(connection, self._reads, *row) for row in rows if row is not None]

        return await self.database.call(read)


def _last_seqs(
    connection: SqlConnection, reads: Reads, wanted: JobFilter, most: int, before: int, through: int | None
) -> Sequence[int]:
    """Return the last deliveries of the wanted jobs, the newest first, in little memory for many."""
    found = array("q")
    *statements, values = job_listing(reads, wanted, before, through)
    with reads.dialect.snapshot(connection):
        if through is not None:
            values["above"] = max(through - 1, number(connection, reads.jobs.summed, {}))
        for statement in statements:
            rows = connection.execute(statement, values)
            found.extend(islice((seq for (seq,) in rows), most - len(found)))
            rows.close()
    return found


def job_listing(
    reads: Reads, wanted: JobFilter, before: int = NEWEST, through: int | None = None
) -> tuple[str, str, Values]:
    """Return the statements that find recent and older jobs. With `through`, the value `above` is still missing."""
    values: Values = {}
    pattern = reads.dialect.pattern
    if wanted.type is not None:
        values["type"] = pattern(wanted.type)
    if wanted.job_id is not None:
        values["job_id"] = wanted.job_id
    if wanted.since is not None:
        values["since"] = to_micros(wanted.since)
    if wanted.until is not None:
        values["until"] = to_micros(wanted.until)
    names = list(values)
    if wanted.state is JobState.OPEN:
        names.append("open")
    elif wanted.state is not None:
        values["ending"] = pattern("*" if wanted.state is JobState.ENDED else f"*.{wanted.state}")
        names.append("ended")
    jobs = reads.jobs
    lower = jobs.all_recent
    if through is not None:
        values["through"], lower = through, jobs.recent_through
        names.append("through")
    of_recent = " ".join(jobs.recent_conditions[name] for name in names)
    recent = jobs.recent_jobs.format(lower=lower, conditions=of_recent)
    older = jobs.older_jobs.format(conditions=" ".join(jobs.older_conditions[name] for name in names))
    return recent, older, values | {"before": before}


def summary(connection: SqlConnection, reads: Reads, last_seq: int, job_id: str) -> JobSummary:
    """Return a job whose last delivery is this one."""
    arrivals = _arrivals(connection, reads, job_id)
    this = {"job_id": job_id}
    ended = connection.execute(reads.jobs.job_end, this).fetchone()
    return job_of(
        job_id,
        arrivals,
        last_seq=last_seq,
        first_at=_arrived_at(connection, reads, min(one.first_seq for one in arrivals)),
        last_at=_arrived_at(connection, reads, last_seq),
        end=_end(ended),
        late=0 if ended is None else number(connection, reads.jobs.late_pages, {**this, "seq": ended[0]}),
        failed_lately=number(connection, reads.jobs.failed_lately, this),
    )


def detail(connection: SqlConnection, reads: Reads, job_id: str) -> JobDetail:
    """Return all that is known of a job, or raise UnknownJob."""
    with reads.dialect.snapshot(connection):
        return _detail(connection, reads, job_id)


def _detail(connection: SqlConnection, reads: Reads, job_id: str) -> JobDetail:
    this = {"job_id": job_id}
    last = connection.execute(reads.jobs.last_of_job, this).fetchone()
    if last is None:
        raise UnknownJob(f"there is no job {job_id}")
    off = switches(connection)
    counts: dict[Any, dict[WorkState, int]] = {}
    for handler, state, count in connection.execute(reads.jobs.work_of_job, this):
        counts.setdefault(handler, {})[WorkState(state)] = count
    return JobDetail(
        summary=summary(connection, reads, last[0], job_id),
        arrivals=tuple(_arrivals(connection, reads, job_id)),
        new=number(connection, reads.jobs.new_of_job, this),
        work=tuple(JobWork(name, off.get(name, HandlerSwitch.ON), counts[name]) for name in sorted(counts)),
    )


def resolved(connection: SqlConnection, reads: Reads, prefix: str) -> str:
    """Return the one job id that begins so, or is so, or raise UnknownJob."""
    found: list[str] = []
    row = connection.execute(reads.jobs.next_job, {"from_id": prefix, "known_id": ""}).fetchone()
    while row is not None and row[0].startswith(prefix) and len(found) <= MAX_NAMED:
        found.append(row[0])
        row = connection.execute(reads.jobs.next_job, {"from_id": row[0], "known_id": row[0]}).fetchone()
    if len(found) == 1 or prefix in found:
        return prefix if prefix in found else found[0]
    raise (AmbiguousJob if found else UnknownJob)(candidates(prefix, found, noun="job"))


def _arrivals(connection: SqlConnection, reads: Reads, job_id: str) -> Sequence[JobArrivals]:
    rows = connection.execute(reads.jobs.arrivals, {"job_id": job_id})
    return [JobArrivals(kind, flag(success), *numbers) for kind, success, *numbers in rows]


def _arrived_at(connection: SqlConnection, reads: Reads, seq: int) -> datetime:
    return from_micros(number(connection, reads.jobs.arrived_at, {"seq": seq}))


def _end(row: tuple[Any, ...] | None) -> JobEnd | None:
    return None if row is None else JobEnd(row[1], flag(row[2]), from_micros(row[3]))
