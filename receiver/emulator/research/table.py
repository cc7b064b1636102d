"""Extractions and agents as they are kept: what each has beside other jobs, its pages and its steps.

Every function that takes a connection runs inside of a transaction of the state database.
"""

import dataclasses
import json
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from receiver.core.clock import from_micros, to_micros
from receiver.emulator.jobs.records import JobKind, StoredJob
from receiver.emulator.jobs.table import add_credits, columns_of_all, rows_of_jobs
from receiver.emulator.jobs.table import insert_job as insert_stored_job
from receiver.emulator.json_text import to_json
from receiver.emulator.state.database import pack, unpack
from receiver.emulator.wire.research import ResearchPlan

Json = dict[str, Any]

SCHEMA = """
CREATE TABLE IF NOT EXISTS research_pages (
    job INTEGER NOT NULL,
    number INTEGER NOT NULL,
    key TEXT NOT NULL,
    url TEXT NOT NULL,
    score INTEGER NOT NULL,
    finding BLOB,
    PRIMARY KEY (job, number),
    UNIQUE (job, key)
) STRICT;
CREATE TABLE IF NOT EXISTS research_steps (
    job INTEGER NOT NULL,
    number INTEGER NOT NULL,
    at INTEGER NOT NULL,
    action TEXT NOT NULL,
    input TEXT NOT NULL,
    outcome TEXT NOT NULL,
    PRIMARY KEY (job, number)
) STRICT, WITHOUT ROWID;
"""

MAX_CANDIDATES = 2_000
"""Pages that one job remembers."""
_MILLISECOND = 1_000
"""A listing continues before a moment in milliseconds, so no two jobs may share one."""


class ResearchState(StrEnum):
    """Where an extraction or an agent stands."""

    PROCESSING = "processing"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class ResearchResult:
    """What an extraction or an agent found."""

    data: Any = None
    """Any JSON; None if nothing was found."""
    sources: dict[str, list[str]] = field(default_factory=dict)
    """JSON path of a value to the URLs where it was found."""
    warning: str | None = None
    """What could not be done, for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResearchRecord(StoredJob):
    """An extraction or an agent as it is now."""

    plan: ResearchPlan = field(repr=False)
    state: ResearchState
    searched: bool = False
    result: ResearchResult = field(default_factory=ResearchResult)
    """What it found; empty while it runs."""
    thread_id: str
    """UUID of the conversation that it belongs to; empty for an extraction."""
    turn: int = 1
    """Its number in that conversation."""


@dataclass(frozen=True, slots=True)
class CandidatePage:
    """A page that a job may scrape."""

    url: str
    key: str
    """What is equal for URLs that count as one page."""
    score: int
    """Higher ones come first."""
    leads_to: tuple[str, ...] = ()
    """Names of missing properties that it may have, by its words. They are not kept."""


@dataclass(frozen=True, slots=True)
class NextPage:
    """A page that a job scrapes next."""

    number: int
    """The first that was found is 1."""
    url: str
    score: int


@dataclass(frozen=True, slots=True)
class ResearchStep:
    """A step of an agent."""

    at: datetime
    action: str
    """`search` or `scrape`."""
    input: Json
    outcome: Json


@dataclass(frozen=True, slots=True)
class ResearchedPage:
    """What became of a page."""

    url: str
    data: Any = None
    warning: str | None = None
    error: str | None = None
    credits: int = 0


def insert_job(connection: sqlite3.Connection, job: ResearchRecord) -> ResearchRecord:
    """Keep a job, and return it as it is kept: each is at least a millisecond younger than the one before."""
    (newest,) = connection.execute(
        "SELECT coalesce(max(created_at), 0) FROM jobs WHERE kind IN (?, ?)", (JobKind.EXTRACT, JobKind.AGENT)
    ).fetchone()
    created = max(to_micros(job.created_at) // _MILLISECOND * _MILLISECOND, int(newest) + _MILLISECOND)
    seq = insert_stored_job(connection, job, created_at=created, thread=job.thread_id, turn=job.turn)
    return job_by_seq(connection, seq)


def job_by_seq(connection: sqlite3.Connection, seq: int) -> ResearchRecord:
    """Return a job that is there."""
    (job,) = _jobs(connection, "seq = ?", seq)
    return job


def jobs_before(
    connection: sqlite3.Connection, kind: str, team: str, moment: datetime | None, count: int
) -> list[ResearchRecord]:
    """Return a team's jobs of a kind that were started before a moment, newest first."""
    before = (1 << 62) if moment is None else to_micros(moment)
    where = "kind = ? AND team = ? AND created_at < ? ORDER BY created_at DESC, seq DESC LIMIT ?"
    return _jobs(connection, where, kind, team, before, count)


def jobs_of_thread(connection: sqlite3.Connection, team: str, thread_id: str) -> list[ResearchRecord]:
    """Return the jobs of a conversation in their order."""
    return _jobs(connection, "team = ? AND thread = ? ORDER BY turn LIMIT 1000", team, thread_id)


def thread_turns(connection: sqlite3.Connection, team: str, thread_id: str) -> int:
    """Return how many jobs of a team belong to a conversation."""
    query = "SELECT count(*) FROM jobs WHERE team = ? AND thread = ?"
    return int(connection.execute(query, (team, thread_id)).fetchone()[0])


def is_running(connection: sqlite3.Connection, seq: int) -> bool:
    """Return whether a job has not ended."""
    row = connection.execute("SELECT 1 FROM jobs WHERE seq = ? AND ended_at IS NULL", (seq,)).fetchone()
    return row is not None


def note_searched(connection: sqlite3.Connection, seq: int) -> None:
    """Note that the job has searched."""
    connection.execute("UPDATE jobs SET searched = 1 WHERE seq = ?", (seq,))


def add_candidates(connection: sqlite3.Connection, seq: int, pages: Iterable[CandidatePage]) -> None:
    """Note pages that are not known yet. A known one that waits keeps the higher of its scores."""
    query = "SELECT count(*) FROM research_pages WHERE job = ?"
    count = int(connection.execute(query, (seq,)).fetchone()[0])
    for page in pages:
        if count >= MAX_CANDIDATES:
            return
        done = connection.execute(
            "INSERT INTO research_pages (job, number, key, url, score) VALUES (?, ?, ?, ?, ?)"
            " ON CONFLICT (job, key) DO UPDATE SET score = max(score, excluded.score) RETURNING number",
            (seq, count + 1, page.key, page.url, page.score),
        ).fetchone()
        count += int(done[0]) == count + 1


def next_pages(connection: sqlite3.Connection, seq: int, count: int) -> list[NextPage]:
    """Return the pages that wait, the best first."""
    rows = connection.execute(
        "SELECT number, url, score FROM research_pages WHERE job = ? AND finding IS NULL"
        " ORDER BY score DESC, number LIMIT ?",
        (seq, count),
    )
    return [NextPage(int(row[0]), str(row[1]), int(row[2])) for row in rows]


def count_settled(connection: sqlite3.Connection, seq: int) -> int:
    """Return how many pages of a job were scraped, or could not be."""
    query = "SELECT count(*) FROM research_pages WHERE job = ? AND finding IS NOT NULL"
    return int(connection.execute(query, (seq,)).fetchone()[0])


def settle_page(connection: sqlite3.Connection, seq: int, number: int, finding: ResearchedPage) -> bool:
    """Note what became of a page; False if its job has ended, or the page was settled before."""
    if not is_running(connection, seq):
        return False
    cursor = connection.execute(
        "UPDATE research_pages SET finding = ? WHERE job = ? AND number = ? AND finding IS NULL",
        (pack(to_json(dataclasses.asdict(finding))), seq, number),
    )
    if cursor.rowcount != 1:
        return False
    connection.execute("UPDATE jobs SET completed = completed + ? WHERE seq = ?", (finding.error is None, seq))
    add_credits(connection, seq, finding.credits)
    return True


def findings(connection: sqlite3.Connection, seq: int) -> list[ResearchedPage]:
    """Return what became of the pages of a job, the most trusted pages first."""
    rows = connection.execute(
        "SELECT finding FROM research_pages WHERE job = ? AND finding IS NOT NULL ORDER BY score DESC, number",
        (seq,),
    )
    return [ResearchedPage(**json.loads(unpack(row[0]))) for row in rows]


def add_step(connection: sqlite3.Connection, seq: int, step: ResearchStep) -> None:
    """Note a step of an agent."""
    connection.execute(
        "INSERT INTO research_steps (job, number, at, action, input, outcome)"
        " SELECT ?, count(*) + 1, ?, ?, ?, ? FROM research_steps WHERE job = ?",
        (seq, to_micros(step.at), step.action, json.dumps(step.input), json.dumps(step.outcome), seq),
    )


def steps(connection: sqlite3.Connection, seq: int) -> list[ResearchStep]:
    """Return the steps of an agent in their order."""
    rows = connection.execute("SELECT * FROM research_steps WHERE job = ? ORDER BY number", (seq,))
    return [
        ResearchStep(from_micros(row["at"]), row["action"], json.loads(row["input"]), json.loads(row["outcome"]))
        for row in rows
    ]


def forget_pages(connection: sqlite3.Connection, seq: int) -> None:
    """Delete the pages of a job that has ended."""
    connection.execute("DELETE FROM research_pages WHERE job = ?", (seq,))


def forget_steps(connection: sqlite3.Connection, jobs: Sequence[int]) -> None:
    """Delete the steps of agents."""
    connection.executemany("DELETE FROM research_steps WHERE job = ?", ((seq,) for seq in jobs))


def packed_result(result: ResearchResult) -> bytes:
    """Return a result for the state. Its texts are those of pages, which may hold anything."""
    return pack(to_json(dataclasses.asdict(result)))


def job_of(row: sqlite3.Row) -> ResearchRecord:
    """Return an extraction or an agent."""
    result = ResearchResult() if row["result"] is None else ResearchResult(**json.loads(unpack(row["result"])))
    return ResearchRecord(
        **columns_of_all(row),
        state=ResearchState(row["state"]),
        searched=bool(row["searched"]),
        result=result,
        thread_id=row["thread"],
        turn=row["turn"],
    )


def _jobs(connection: sqlite3.Connection, where: str, *values: object) -> list[ResearchRecord]:
    return [job_of(row) for row in rows_of_jobs(connection, where, *values)]
