"""Jobs, read from their deliveries. No body is touched, and nothing is kept but an index of what ends jobs."""

import sqlite3
from array import array
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any

from receiver.core.clock import from_micros, to_micros
from receiver.core.jobs import (
    LAST_PAGES,
    PAGE,
    JobArrivals,
    JobDetail,
    JobEnd,
    JobFilter,
    JobState,
    JobSummary,
    JobWork,
    job_of,
)
from receiver.core.types import HandlerSwitch, WorkState
from receiver.errors import UnknownJob
from receiver.stores.prefixes import MAX_NAMED, candidates
from receiver.stores.sqlite import statements
from receiver.stores.sqlite.claims import switches
from receiver.stores.sqlite.database import Database
from receiver.stores.sqlite.filters import as_glob
from receiver.stores.sqlite.report_statements import LAST_DELIVERY
from receiver.stores.sqlite.rows import flag

_NEWEST = 2**63 - 1
_PAGE = 20
"""Jobs read in one go: one alone may have many thousands of deliveries."""
_LOOKED_AT = 20_000
"""Deliveries among which a page of jobs is looked for before going from job to job."""

# As in the index job_ends, to the letter: SQLite uses a partial index only then (its manual, Partial Indexes).
_ENDS_JOB = "(type GLOB '*.completed' OR type GLOB '*.failed' OR type GLOB '*.cancelled')"

_END_TYPE = f"(SELECT e.type FROM deliveries AS e WHERE e.job_id = d.job_id AND {_ENDS_JOB} ORDER BY e.seq LIMIT 1)"

# A job has its place by its last delivery. Looking from the newest one on for those that are the last of their
# job finds a page at once where many jobs have few deliveries each.
LAST_OF_JOBS = """
SELECT d.seq FROM deliveries AS d
WHERE d.seq < :before AND d.seq >= :floor AND d.job_id IS NOT NULL
    AND NOT EXISTS (SELECT 1 FROM deliveries AS n WHERE n.job_id = d.job_id AND n.seq > d.seq) {conditions}
ORDER BY d.seq DESC LIMIT :rows
"""

# Going from one job id to the next in their index takes no longer for jobs with many deliveries, or if few fit.
OLDER_JOBS = """
WITH RECURSIVE jobs (id) AS (
    SELECT min(job_id) FROM deliveries WHERE job_id IS NOT NULL
    UNION ALL
    SELECT (SELECT min(n.job_id) FROM deliveries AS n WHERE n.job_id > jobs.id) FROM jobs WHERE jobs.id IS NOT NULL
)
SELECT d.seq FROM jobs
CROSS JOIN deliveries AS d
    ON d.seq = (SELECT max(latest.seq) FROM deliveries AS latest WHERE latest.job_id = jobs.id)
WHERE d.seq < :floor {conditions} ORDER BY d.seq DESC
"""

JOB_AT = "SELECT max(seq), job_id FROM deliveries WHERE job_id = (SELECT job_id FROM deliveries WHERE seq = ?)"

_CONDITIONS = {
    "type": """AND EXISTS (
        SELECT 1 FROM deliveries AS t WHERE t.job_id = d.job_id
            AND (t.type GLOB :type OR substr(t.type, 1, instr(t.type || '.', '.') - 1) GLOB :type)
    )""",
    "job_id": "AND d.job_id = :job_id",
    "since": "AND d.received_at >= :since",
    "until": """AND (
        SELECT f.received_at FROM deliveries AS f WHERE f.job_id = d.job_id ORDER BY f.seq LIMIT 1
    ) < :until""",
    "open": f"AND {_END_TYPE} IS NULL",
    "ended": f"AND {_END_TYPE} GLOB :ending",
}

LAST_OF_JOB = "SELECT seq FROM deliveries WHERE job_id = ? ORDER BY seq DESC LIMIT 1"

ARRIVALS = """
SELECT type, success, count(*), sum(duplicates), min(seq), sum(origin = 'backfill') FROM deliveries
WHERE job_id = ? GROUP BY type, success ORDER BY min(seq)
"""

ARRIVED_AT = "SELECT received_at FROM deliveries WHERE seq = ?"

JOB_END = f"""
SELECT seq, type, success, received_at FROM deliveries
WHERE job_id = ? AND {_ENDS_JOB} ORDER BY seq LIMIT 1
"""

_SENT_PAGE = f"(type GLOB '*.{PAGE}' AND origin <> 'backfill')"

LATE_PAGES = f"SELECT count(*) FROM deliveries WHERE job_id = ? AND seq > ? AND {_SENT_PAGE}"

FAILED_LATELY = f"""
SELECT count(*) FROM (
    SELECT success FROM deliveries WHERE job_id = ? AND {_SENT_PAGE} ORDER BY seq DESC LIMIT {LAST_PAGES}
) WHERE success = 0
"""

NEXT_JOB = "SELECT job_id FROM deliveries WHERE job_id >= ? AND job_id <> ? ORDER BY job_id LIMIT 1"

NEW_OF_JOB = f"SELECT count(*) FROM deliveries WHERE job_id = ? AND seq > ({statements.ROUTED})"

WORK_OF_JOB = """
SELECT w.handler, w.state, count(*) FROM deliveries AS d JOIN work_items AS w ON w.delivery_seq = d.seq
WHERE d.job_id = ? GROUP BY w.handler, w.state
"""


class JobReports:
    """The reports about jobs."""

    _database: Database

    async def jobs(self, wanted: JobFilter) -> AsyncIterator[JobSummary]:
        """Yield the wanted jobs, the one whose last delivery came last first."""
        recent, older, values = job_listing(wanted)
        before = await self._database.call(lambda connection: _number(connection, LAST_DELIVERY)) + 1
        left = _NEWEST if wanted.limit is None else wanted.limit
        while left > 0:
            size = min(_PAGE, left)
            bounds = {"before": before, "floor": before - _LOOKED_AT, "rows": size}
            seqs = await self._last_seqs(recent, values | bounds, size)
            for job in await self._jobs_at(seqs):
                yield job
            left -= len(seqs)
            if len(seqs) < size:
                break
            before = seqs[-1]
        rest = await self._last_seqs(older, {**values, "floor": before - _LOOKED_AT}, left)
        for begin in range(0, len(rest), _PAGE):
            for job in await self._jobs_at(rest[begin : begin + _PAGE]):
                yield job

    async def resolve_job(self, prefix: str) -> str:
        """Return the one job id that begins so."""
        return await self._database.call(lambda connection: resolved(connection, prefix))

    async def job(self, job_id: str) -> JobDetail:
        """Return all that is known of a job."""
        return await self._database.call(lambda connection: detail(connection, job_id))

    async def _last_seqs(self, statement: str, values: dict[str, object], most: int) -> Sequence[int]:
        """Return the last deliveries of jobs, the newest first, in little memory for many."""
        if most == 0:
            return ()
        return await self._database.call(
            lambda connection: array("q", (seq for (seq,) in islice(connection.execute(statement, values), most)))
        )

    async def _jobs_at(self, seqs: Sequence[int]) -> list[JobSummary]:
        """Return the jobs of deliveries as they are now, but for those that were pruned meanwhile."""

        def read(connection: sqlite3.Connection) -> list[JobSummary]:
            with _snapshot(connection):
                rows = [connection.execute(JOB_AT, (seq,)).fetchone() for seq in seqs]
                return [summary(connection, *row) for row in rows if row != (None, None)]

        return await self._database.call(read)


def job_listing(wanted: JobFilter) -> tuple[str, str, dict[str, object]]:
    """Return the statements that find recent and older jobs; `floor`, `before` and `rows` are still missing."""
    values: dict[str, object] = {}
    if wanted.type is not None:
        values["type"] = as_glob(wanted.type)
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
        values["ending"] = "*" if wanted.state is JobState.ENDED else f"*.{wanted.state}"
        names.append("ended")
    conditions = " ".join(_CONDITIONS[name] for name in names)
    return LAST_OF_JOBS.format(conditions=conditions), OLDER_JOBS.format(conditions=conditions), values


def summary(connection: sqlite3.Connection, last_seq: int, job_id: str) -> JobSummary:
    """Return a job whose last delivery is this one."""
    arrivals = _arrivals(connection, job_id)
    ended = connection.execute(JOB_END, (job_id,)).fetchone()
    return job_of(
        job_id,
        arrivals,
        last_seq=last_seq,
        first_at=_arrived_at(connection, min(one.first_seq for one in arrivals)),
        last_at=_arrived_at(connection, last_seq),
        end=_end(ended),
        late=0 if ended is None else _number(connection, LATE_PAGES, job_id, ended[0]),
        failed_lately=_number(connection, FAILED_LATELY, job_id),
    )


def detail(connection: sqlite3.Connection, job_id: str) -> JobDetail:
    """Return all that is known of a job, or raise UnknownJob."""
    with _snapshot(connection):
        return _detail(connection, job_id)


def _detail(connection: sqlite3.Connection, job_id: str) -> JobDetail:
    last = connection.execute(LAST_OF_JOB, (job_id,)).fetchone()
    if last is None:
        raise UnknownJob(f"there is no job {job_id}")
    off = switches(connection)
    counts: dict[Any, dict[WorkState, int]] = {}
    for handler, state, count in connection.execute(WORK_OF_JOB, (job_id,)):
        counts.setdefault(handler, {})[WorkState(state)] = count
    return JobDetail(
        summary=summary(connection, last[0], job_id),
        arrivals=tuple(_arrivals(connection, job_id)),
        new=_number(connection, NEW_OF_JOB, job_id),
        work=tuple(JobWork(name, off.get(name, HandlerSwitch.ON), counts[name]) for name in sorted(counts)),
    )


def resolved(connection: sqlite3.Connection, prefix: str) -> str:
    """Return the one job id that begins so, or is so, or raise UnknownJob."""
    found: list[str] = []
    row = connection.execute(NEXT_JOB, (prefix, "")).fetchone()
    while row is not None and row[0].startswith(prefix) and len(found) <= MAX_NAMED:
        found.append(row[0])
        row = connection.execute(NEXT_JOB, (row[0], row[0])).fetchone()
    if len(found) == 1 or prefix in found:
        return prefix if prefix in found else found[0]
    raise UnknownJob(candidates(prefix, found, noun="job"))


@contextmanager
def _snapshot(connection: sqlite3.Connection) -> Iterator[None]:
    """Let the statements of a block see the same state: a job may be pruned meanwhile."""
    connection.execute("BEGIN")
    try:
        yield
    finally:
        connection.execute("COMMIT")


def _arrivals(connection: sqlite3.Connection, job_id: str) -> Sequence[JobArrivals]:
    rows = connection.execute(ARRIVALS, (job_id,))
    return [JobArrivals(kind, flag(success), *numbers) for kind, success, *numbers in rows]


def _arrived_at(connection: sqlite3.Connection, seq: int) -> Any:
    return from_micros(_number(connection, ARRIVED_AT, seq))


def _end(row: tuple[Any, ...] | None) -> JobEnd | None:
    return None if row is None else JobEnd(row[1], flag(row[2]), from_micros(row[3]))


def _number(connection: sqlite3.Connection, statement: str, *values: object) -> int:
    return int(connection.execute(statement, values).fetchone()[0])
