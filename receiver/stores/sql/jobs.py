"""Jobs, read from their deliveries."""

from array import array
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from itertools import islice
from typing import Any

from receiver.core.clock import from_micros, to_micros
from receiver.core.jobs import JobArrivals, JobDetail, JobEnd, JobFilter, JobState, JobSummary, JobWork, job_of
from receiver.core.types import HandlerSwitch, WorkState
from receiver.errors import AmbiguousJob, UnknownJob
from receiver.stores.prefixes import MAX_NAMED, candidates
from receiver.stores.sql.connection import SqlConnection, SqlDatabase, Values, number
from receiver.stores.sql.rows import flag
from receiver.stores.sql.statements.deliveries import LAST_DELIVERY
from receiver.stores.sql.statements.reads import Reads
from receiver.stores.sql.switches import switches

NEWEST = 2**63 - 1
"""Above every seq and every id."""
PAGE_SIZE = 20
"""Jobs read in one go: one alone may have many thousands of deliveries."""
SCAN_LIMIT = 20_000
"""Deliveries in which a page of jobs is searched before going from job to job."""


class JobReports:
    """The reports about jobs. The first `scan_limit` deliveries are searched before going from job to job."""

    def __init__(self, database: SqlDatabase, reads: Reads, *, scan_limit: int = SCAN_LIMIT) -> None:
        self.database = database
        self._reads = reads
        self._scan_limit = scan_limit

    async def jobs(self, wanted: JobFilter) -> AsyncIterator[JobSummary]:
        """Yield the wanted jobs, the one whose last delivery came last first."""
        recent, older, values = job_listing(self._reads, wanted)
        before = await self.database.call(lambda connection: number(connection, LAST_DELIVERY, {})) + 1
        left = NEWEST if wanted.limit is None else wanted.limit
        while left > 0:
            size = min(PAGE_SIZE, left)
            bounds = {"before": before, "floor": before - self._scan_limit, "rows": size}
            seqs = await self._last_seqs(recent, values | bounds, size)
            for job in await self._jobs_at(seqs):
                yield job
            left -= len(seqs)
            if len(seqs) < size:
                break
            before = seqs[-1]
        rest = await self._last_seqs(older, {**values, "floor": before - self._scan_limit}, left)
        for begin in range(0, len(rest), PAGE_SIZE):
            for job in await self._jobs_at(rest[begin : begin + PAGE_SIZE]):
                yield job

    async def resolve_job(self, prefix: str) -> str:
        """Return the one job id that begins so."""
        return await self.database.call(lambda connection: resolved(connection, self._reads, prefix))

    async def job(self, job_id: str) -> JobDetail:
        """Return all that is known of a job."""
        return await self.database.call(lambda connection: detail(connection, self._reads, job_id))

    async def _last_seqs(self, statement: str, values: Values, most: int) -> Sequence[int]:
        """Return the last deliveries of jobs, the newest first, in little memory for many."""
        if most == 0:
            return ()
        return await self.database.call(
            lambda connection: array("q", (seq for (seq,) in islice(connection.execute(statement, values), most)))
        )

    async def _jobs_at(self, seqs: Sequence[int]) -> list[JobSummary]:
        """Return the jobs of deliveries as they are now, but for those that were pruned meanwhile."""

        def read(connection: SqlConnection) -> list[JobSummary]:
            with _snapshot(connection, self._reads):
                rows = [connection.execute(self._reads.jobs.job_at, {"seq": seq}).fetchone() for seq in seqs]
                return [summary(connection, self._reads, *row) for row in rows if row is not None]

        return await self.database.call(read)


def job_listing(reads: Reads, wanted: JobFilter) -> tuple[str, str, Values]:
    """Return the statements that find recent and older jobs; `floor`, `before` and `rows` are still missing."""
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
    conditions = " ".join(reads.jobs.conditions[name] for name in names)
    listings = (reads.jobs.last_of_jobs, reads.jobs.older_jobs)
    recent, older = (listing.format(conditions=conditions) for listing in listings)
    return recent, older, values


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
    with _snapshot(connection, reads):
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


@contextmanager
def _snapshot(connection: SqlConnection, reads: Reads) -> Iterator[None]:
    """Let the statements of a block see the same state: a job may be pruned meanwhile."""
    connection.execute(reads.dialect.snapshot)
    try:
        yield
    finally:
        connection.execute("COMMIT")


def _arrivals(connection: SqlConnection, reads: Reads, job_id: str) -> Sequence[JobArrivals]:
    rows = connection.execute(reads.jobs.arrivals, {"job_id": job_id})
    return [JobArrivals(kind, flag(success), *numbers) for kind, success, *numbers in rows]


def _arrived_at(connection: SqlConnection, reads: Reads, seq: int) -> datetime:
    return from_micros(number(connection, reads.jobs.arrived_at, {"seq": seq}))


def _end(row: tuple[Any, ...] | None) -> JobEnd | None:
    return None if row is None else JobEnd(row[1], flag(row[2]), from_micros(row[3]))
