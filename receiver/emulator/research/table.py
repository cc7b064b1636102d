"""The tables of extractions and agents. Every function runs inside of a transaction of the state database."""

import json
import sqlite3
from collections.abc import Iterable
from datetime import datetime

from receiver.core.clock import from_micros, to_micros
from receiver.emulator.research.records import (
    CandidatePage,
    NextPage,
    ResearchedPage,
    ResearchRecord,
    ResearchResult,
    ResearchState,
    ResearchStep,
    page_from_json,
    page_to_json,
    plan_from_json,
    plan_to_json,
    result_from_json,
    result_to_json,
)
from receiver.emulator.state.database import pack, unpack

SCHEMA = """
CREATE TABLE IF NOT EXISTS research_jobs (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    kind TEXT NOT NULL,
    team TEXT NOT NULL,
    plan BLOB NOT NULL,
    state TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    ended_at INTEGER,
    expires_at INTEGER NOT NULL,
    credits INTEGER NOT NULL DEFAULT 0,
    scraped INTEGER NOT NULL DEFAULT 0,
    prepared INTEGER NOT NULL DEFAULT 0,
    searched INTEGER NOT NULL DEFAULT 0,
    result BLOB,
    error TEXT,
    thread TEXT NOT NULL DEFAULT '',
    turn INTEGER NOT NULL DEFAULT 1
) STRICT;
CREATE INDEX IF NOT EXISTS research_unended ON research_jobs (seq) WHERE ended_at IS NULL;
CREATE INDEX IF NOT EXISTS research_expiring ON research_jobs (expires_at);
CREATE INDEX IF NOT EXISTS research_of_team ON research_jobs (team, kind, created_at);
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
"""A listing goes on before a moment in milliseconds, so no two jobs may share one."""


def insert_job(connection: sqlite3.Connection, job: ResearchRecord) -> ResearchRecord:
    """Keep a job, and return it as it is kept: each is at least a millisecond younger than the one before."""
    newest = connection.execute("SELECT coalesce(max(created_at), 0) FROM research_jobs").fetchone()[0]
    created = max(to_micros(job.created_at) // _MILLISECOND * _MILLISECOND, int(newest) + _MILLISECOND)
    connection.execute(
        "INSERT INTO research_jobs (id, kind, team, plan, state, created_at, expires_at, thread, turn)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            job.id,
            job.plan.kind,
            job.team,
            pack(plan_to_json(job.plan)),
            job.state,
            created,
            to_micros(job.expires_at),
            job.thread_id,
            job.turn,
        ),
    )
    (kept,) = _records(connection, "id = ?", job.id)
    return kept


def find_job(connection: sqlite3.Connection, kind: str, job_id: str) -> ResearchRecord | None:
    """Return the job of a kind with an id."""
    return next(iter(_records(connection, "kind = ? AND id = ?", kind, job_id)), None)


def job_by_seq(connection: sqlite3.Connection, seq: int) -> ResearchRecord:
    """Return a job that is there."""
    (job,) = _records(connection, "seq = ?", seq)
    return job


def unended_jobs(connection: sqlite3.Connection) -> list[ResearchRecord]:
    """Return the jobs that have not ended, oldest first."""
    return _records(connection, "ended_at IS NULL ORDER BY seq")


def jobs_before(
    connection: sqlite3.Connection, kind: str, team: str, moment: datetime | None, count: int
) -> list[ResearchRecord]:
    """Return a team's jobs of a kind that were started before a moment, newest first."""
    before = (1 << 62) if moment is None else to_micros(moment)
    where = "kind = ? AND team = ? AND created_at < ? ORDER BY created_at DESC, seq DESC LIMIT ?"
    return _records(connection, where, kind, team, before, count)


def thread_turns(connection: sqlite3.Connection, team: str, thread_id: str) -> int:
    """Return how many jobs of a team belong to a conversation."""
    query = "SELECT count(*) FROM research_jobs WHERE team = ? AND thread = ?"
    return int(connection.execute(query, (team, thread_id)).fetchone()[0])


def is_running(connection: sqlite3.Connection, seq: int) -> bool:
    """Tell whether a job has not ended."""
    row = connection.execute("SELECT 1 FROM research_jobs WHERE seq = ? AND ended_at IS NULL", (seq,)).fetchone()
    return row is not None


def note_prepared(connection: sqlite3.Connection, seq: int) -> None:
    """Note that the pages to begin with are there."""
    connection.execute("UPDATE research_jobs SET prepared = 1 WHERE seq = ?", (seq,))


def note_searched(connection: sqlite3.Connection, seq: int) -> None:
    """Note that the job has searched."""
    connection.execute("UPDATE research_jobs SET searched = 1 WHERE seq = ?", (seq,))


def add_credits(connection: sqlite3.Connection, seq: int, amount: int) -> None:
    """Add to what a job has cost."""
    connection.execute("UPDATE research_jobs SET credits = credits + ? WHERE seq = ?", (amount, seq))


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


def settle_page(connection: sqlite3.Connection, seq: int, number: int, finding: ResearchedPage) -> bool:
    """Note what became of a page; False if its job has ended, or the page was settled before."""
    if not is_running(connection, seq):
        return False
    cursor = connection.execute(
        "UPDATE research_pages SET finding = ? WHERE job = ? AND number = ? AND finding IS NULL",
        (pack(page_to_json(finding)), seq, number),
    )
    if cursor.rowcount != 1:
        return False
    scraped = finding.error is None
    connection.execute("UPDATE research_jobs SET scraped = scraped + ? WHERE seq = ?", (scraped, seq))
    add_credits(connection, seq, finding.credits)
    return True


def findings(connection: sqlite3.Connection, seq: int) -> list[ResearchedPage]:
    """Return what became of the pages of a job, the most trusted pages first."""
    rows = connection.execute(
        "SELECT finding FROM research_pages WHERE job = ? AND finding IS NOT NULL ORDER BY score DESC, number",
        (seq,),
    )
    return [page_from_json(unpack(row[0])) for row in rows]


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


def jobs_of_thread(connection: sqlite3.Connection, team: str, thread_id: str) -> list[ResearchRecord]:
    """Return the jobs of a conversation in their order."""
    return _records(connection, "team = ? AND thread = ? ORDER BY turn LIMIT 1000", team, thread_id)


def count_settled(connection: sqlite3.Connection, seq: int) -> int:
    """Return how many pages of a job were scraped, or could not be."""
    query = "SELECT count(*) FROM research_pages WHERE job = ? AND finding IS NOT NULL"
    return int(connection.execute(query, (seq,)).fetchone()[0])


def end_job(
    connection: sqlite3.Connection,
    seq: int,
    state: ResearchState,
    moment: datetime,
    *,
    result: ResearchResult | None = None,
    error: str | None = None,
) -> bool:
    """End a job; False if it has ended before."""
    cursor = connection.execute(
        "UPDATE research_jobs SET state = ?, ended_at = ?, result = ?, error = ?"
        " WHERE seq = ? AND ended_at IS NULL",
        (state, to_micros(moment), None if result is None else pack(result_to_json(result)), error, seq),
    )
    if cursor.rowcount != 1:
        return False
    connection.execute("DELETE FROM research_pages WHERE job = ?", (seq,))
    return True


def expire(connection: sqlite3.Connection, moment: datetime) -> None:
    """Delete the results of jobs that have expired."""
    expired = "expires_at <= ? AND ended_at IS NOT NULL"
    connection.execute(
        f"DELETE FROM research_steps WHERE job IN (SELECT seq FROM research_jobs WHERE {expired})",  # noqa: S608 - ours
        (to_micros(moment),),
    )
    connection.execute(f"UPDATE research_jobs SET result = NULL WHERE {expired}", (to_micros(moment),))  # noqa: S608


def _records(connection: sqlite3.Connection, where: str, *values: object) -> list[ResearchRecord]:
    rows = connection.execute(f"SELECT * FROM research_jobs WHERE {where}", values)  # noqa: S608 - a text of ours
    return [_record(row) for row in rows]


def _record(row: sqlite3.Row) -> ResearchRecord:
    return ResearchRecord(
        seq=row["seq"],
        id=row["id"],
        team=row["team"],
        plan=plan_from_json(unpack(row["plan"])),
        state=ResearchState(row["state"]),
        created_at=from_micros(row["created_at"]),
        ended_at=None if row["ended_at"] is None else from_micros(row["ended_at"]),
        expires_at=from_micros(row["expires_at"]),
        credits=row["credits"],
        scraped=row["scraped"],
        prepared=bool(row["prepared"]),
        searched=bool(row["searched"]),
        result=ResearchResult() if row["result"] is None else result_from_json(unpack(row["result"])),
        error=row["error"],
        thread_id=row["thread"],
        turn=row["turn"],
    )
