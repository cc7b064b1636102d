"""The tables of jobs, their pages and their documents. Every function runs inside of a transaction of the state."""

import json
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from receiver.core.clock import from_micros, to_micros
from receiver.emulator.jobs.records import (
    EmulatedJobState,
    JobKind,
    JobRecord,
    Json,
    PageError,
    StoredJob,
    WaitingPage,
    plan_from_json,
    plan_to_json,
)
from receiver.emulator.state.database import pack, unpack

SCHEMA = """
CREATE TABLE IF NOT EXISTS jobs (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    kind TEXT NOT NULL,
    team TEXT NOT NULL,
    plan BLOB NOT NULL,
    state TEXT NOT NULL,
    error TEXT,
    created_at INTEGER NOT NULL,
    ended_at INTEGER,
    expires_at INTEGER NOT NULL,
    emptied INTEGER NOT NULL DEFAULT 0,
    credits INTEGER NOT NULL DEFAULT 0,
    completed INTEGER NOT NULL DEFAULT 0,
    prepared INTEGER NOT NULL DEFAULT 0,
    -- crawls and batch scrapes
    page_limit INTEGER NOT NULL DEFAULT 0,
    found INTEGER NOT NULL DEFAULT 0,
    failed INTEGER NOT NULL DEFAULT 0,
    blocked INTEGER NOT NULL DEFAULT 0,
    origin TEXT,
    -- extractions and agents
    searched INTEGER NOT NULL DEFAULT 0,
    result BLOB,
    thread TEXT NOT NULL DEFAULT '',
    turn INTEGER NOT NULL DEFAULT 1
) STRICT;
CREATE INDEX IF NOT EXISTS jobs_unended ON jobs (seq) WHERE ended_at IS NULL;
CREATE INDEX IF NOT EXISTS jobs_expiring ON jobs (expires_at);
CREATE INDEX IF NOT EXISTS jobs_of_team ON jobs (team, kind, created_at);
CREATE TABLE IF NOT EXISTS job_pages (
    job INTEGER NOT NULL,
    number INTEGER NOT NULL,
    url TEXT NOT NULL,
    depth INTEGER NOT NULL,
    waiting INTEGER NOT NULL DEFAULT 1,
    PRIMARY KEY (job, number)
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS job_keys (
    job INTEGER NOT NULL,
    key TEXT NOT NULL,
    PRIMARY KEY (job, key)
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS job_errors (
    job INTEGER NOT NULL,
    number INTEGER NOT NULL,
    id TEXT NOT NULL,
    at INTEGER NOT NULL,
    url TEXT NOT NULL,
    code TEXT NOT NULL,
    text TEXT NOT NULL,
    PRIMARY KEY (job, number)
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS job_blocked (
    job INTEGER NOT NULL,
    url TEXT NOT NULL,
    PRIMARY KEY (job, url)
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS job_documents (
    job INTEGER NOT NULL,
    position INTEGER NOT NULL,
    size INTEGER NOT NULL,
    document BLOB NOT NULL,
    PRIMARY KEY (job, position)
) STRICT;
"""

MAX_BLOCKED = 10_000
"""How many URLs a job lists that robots.txt forbids."""
_KEPT = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class FoundLink:
    """A URL that a crawl may take up."""

    url: str
    key: str
    """What is equal for URLs that count as one page."""


def insert_job(connection: sqlite3.Connection, job: StoredJob, **more: object) -> int:
    """Keep a job, with the columns that only its kind has, and return its `seq`."""
    values = {
        "id": job.id,
        "kind": job.kind,
        "team": job.team,
        "plan": pack(plan_to_json(job.plan)),
        "state": job.state,
        "created_at": to_micros(job.created_at),
        "expires_at": to_micros(job.expires_at),
        **more,
    }
    columns, marks = ", ".join(values), ", ".join("?" * len(values))
    row = connection.execute(
        f"INSERT INTO jobs ({columns}) VALUES ({marks}) RETURNING seq",  # noqa: S608 - names of ours
        tuple(values.values()),
    ).fetchone()
    return int(row[0])


def rows_of_jobs(connection: sqlite3.Connection, where: str, *values: object) -> list[sqlite3.Row]:
    """Return the rows of jobs for which a condition holds."""
    return connection.execute(f"SELECT * FROM jobs WHERE {where}", values).fetchall()  # noqa: S608 - a text of ours


def columns_of_all(row: sqlite3.Row) -> Json:
    """Return what a job of any kind has, but its state."""
    kind = JobKind(row["kind"])
    same = ("seq", "id", "team", "error", "credits", "completed")
    return {
        **{name: row[name] for name in same},
        "kind": kind,
        "plan": plan_from_json(kind, unpack(row["plan"])),
        "created_at": from_micros(row["created_at"]),
        "ended_at": None if row["ended_at"] is None else from_micros(row["ended_at"]),
        "expires_at": from_micros(row["expires_at"]),
        "prepared": bool(row["prepared"]),
    }


def job_of(row: sqlite3.Row) -> JobRecord:
    """Return a crawl or a batch scrape."""
    own = {name: row[name] for name in ("found", "failed", "blocked", "origin")}
    return JobRecord(**columns_of_all(row), **own, state=EmulatedJobState(row["state"]))


def job_by_seq(connection: sqlite3.Connection, seq: int) -> JobRecord:
    """Return a crawl or a batch scrape that is there."""
    (row,) = rows_of_jobs(connection, "seq = ?", seq)
    return job_of(row)


def note_prepared(connection: sqlite3.Connection, seq: int) -> None:
    """Note that the pages to begin with are known."""
    connection.execute("UPDATE jobs SET prepared = 1 WHERE seq = ?", (seq,))


def add_credits(connection: sqlite3.Connection, seq: int, amount: int) -> None:
    """Add to what a job has cost."""
    if amount:
        connection.execute("UPDATE jobs SET credits = credits + ? WHERE seq = ?", (amount, seq))


def end_job(
    connection: sqlite3.Connection,
    seq: int,
    state: str,
    now: datetime,
    *,
    error: str | None = None,
    result: bytes | None = None,
) -> bool:
    """End a job, whose results so far stay; False if it has ended before."""
    ended = connection.execute(
        "UPDATE jobs SET state = ?, error = ?, ended_at = ?, result = ? WHERE seq = ? AND ended_at IS NULL",
        (state, error, to_micros(now), result, seq),
    )
    return ended.rowcount == 1


def expire(connection: sqlite3.Connection, kinds: Sequence[JobKind], now: datetime) -> list[int]:
    """Return the `seq` of jobs that have expired since the last time. What only they have is the caller's."""
    marks = ", ".join("?" * len(kinds))
    expired = f"expires_at <= ? AND ended_at IS NOT NULL AND NOT emptied AND kind IN ({marks})"
    rows = connection.execute(
        f"UPDATE jobs SET emptied = 1, result = NULL WHERE {expired} RETURNING seq",  # noqa: S608 - marks alone
        (to_micros(now), *kinds),
    )
    return [row[0] for row in rows.fetchall()]


def add_pages(connection: sqlite3.Connection, seq: int, urls: Sequence[str]) -> None:
    """Take up pages, whatever their keys and the limit of the job."""
    found = connection.execute("SELECT found FROM jobs WHERE seq = ?", (seq,)).fetchone()[0]
    connection.executemany(
        "INSERT INTO job_pages (job, number, url, depth) VALUES (?, ?, ?, 0)",
        ((seq, number, url) for number, url in enumerate(urls, start=found + 1)),
    )
    connection.execute("UPDATE jobs SET found = found + ? WHERE seq = ?", (len(urls), seq))


def take_key(connection: sqlite3.Connection, seq: int, key: str) -> bool:
    """Note that a job has a page with this key; False if it had one before."""
    return connection.execute("INSERT OR IGNORE INTO job_keys VALUES (?, ?)", (seq, key)).rowcount == 1


def add_links(connection: sqlite3.Connection, seq: int, links: Iterable[FoundLink], depth: int) -> int:
    """Take up the links that are new, first come, first served, and return how many were looked at.

    There was no place for the others: the job is at its limit, or no longer scrapes.
    """
    row = connection.execute("SELECT found, failed, page_limit, state FROM jobs WHERE seq = ?", (seq,)).fetchone()
    if row is None or row["state"] != EmulatedJobState.SCRAPING:
        return 0
    free = row["page_limit"] + row["failed"] - row["found"]  # a page that failed has given its place back
    taken: list[FoundLink] = []
    looked_at = 0
    for link in links:
        if len(taken) >= free:
            break
        looked_at += 1
        if take_key(connection, seq, link.key):
            taken.append(link)
    connection.executemany(
        "INSERT INTO job_pages (job, number, url, depth) VALUES (?, ?, ?, ?)",
        ((seq, number, link.url, depth) for number, link in enumerate(taken, start=row["found"] + 1)),
    )
    connection.execute("UPDATE jobs SET found = found + ? WHERE seq = ?", (len(taken), seq))
    return looked_at


def add_blocked(connection: sqlite3.Connection, seq: int, urls: Iterable[str]) -> None:
    """List URLs that robots.txt forbids."""
    blocked = connection.execute("SELECT blocked FROM jobs WHERE seq = ?", (seq,)).fetchone()
    if blocked is None:
        return
    added = 0
    for url in urls:
        if blocked[0] + added >= MAX_BLOCKED:
            break
        added += connection.execute("INSERT OR IGNORE INTO job_blocked VALUES (?, ?)", (seq, url)).rowcount
    connection.execute("UPDATE jobs SET blocked = blocked + ? WHERE seq = ?", (added, seq))


def waiting_pages(connection: sqlite3.Connection, seq: int, after: int, limit: int) -> list[WaitingPage]:
    """Return pages after a number that still wait, in the order in which they were found."""
    rows = connection.execute(
        "SELECT number, url, depth FROM job_pages WHERE job = ? AND number > ? AND waiting ORDER BY number LIMIT ?",
        (seq, after, limit),
    )
    return [WaitingPage(*row) for row in rows]


def end_page(connection: sqlite3.Connection, seq: int, number: int) -> bool:
    """Note that a page no longer waits; False if it did not wait, or is forgotten."""
    ended = connection.execute(
        "UPDATE job_pages SET waiting = 0 WHERE job = ? AND number = ? AND waiting", (seq, number)
    )
    return ended.rowcount == 1


def count_completed(connection: sqlite3.Connection, seq: int, cost: int, document: bytes) -> None:
    """Count a page that was scraped, and keep its document."""
    (position,) = connection.execute(
        "UPDATE jobs SET completed = completed + 1, credits = credits + ? WHERE seq = ? RETURNING completed",
        (cost, seq),
    ).fetchone()
    row = (seq, position, len(document), pack(document))
    connection.execute("INSERT INTO job_documents VALUES (?, ?, ?, ?)", row)


def move_to(connection: sqlite3.Connection, seq: int, origin: str | None) -> None:
    """Keep where a crawl has moved to; None changes nothing."""
    if origin is not None:
        connection.execute("UPDATE jobs SET origin = ? WHERE seq = ?", (origin, seq))


def count_failed(connection: sqlite3.Connection, seq: int, number: int, error: PageError | None) -> None:
    """Count a page that was not scraped, and list its error, if there is one to be listed."""
    connection.execute("UPDATE jobs SET failed = failed + 1 WHERE seq = ?", (seq,))
    if error is not None:
        connection.execute(
            "INSERT INTO job_errors VALUES (?, ?, ?, ?, ?, ?, ?)",
            (seq, number, error.id, to_micros(error.at), error.url, error.code, error.text),
        )


def cancel(connection: sqlite3.Connection, seq: int) -> bool:
    """Cancel a job; False if it has ended."""
    cancelled = connection.execute(
        "UPDATE jobs SET state = ? WHERE seq = ? AND state IN (?, ?)",
        (EmulatedJobState.CANCELLED, seq, EmulatedJobState.SCRAPING, EmulatedJobState.CANCELLED),
    )
    return cancelled.rowcount == 1


def complete_job(connection: sqlite3.Connection, seq: int, now: datetime) -> bool:
    """End a crawl or a batch scrape of which no page is left; False if pages have come."""
    ended = connection.execute(
        "UPDATE jobs SET ended_at = ?, state = CASE state WHEN 'scraping' THEN 'completed' ELSE state END"
        " WHERE seq = ? AND ended_at IS NULL AND completed + failed = found",
        (to_micros(now), seq),
    )
    return ended.rowcount == 1


def reopen(connection: sqlite3.Connection, seq: int, urls: Sequence[str]) -> bool:
    """Add pages to a job, and resume it if it was completed; False if it was cancelled or failed."""
    reopened = connection.execute(
        "UPDATE jobs SET state = ?, ended_at = NULL WHERE seq = ? AND state IN (?, ?)",
        (EmulatedJobState.SCRAPING, seq, EmulatedJobState.SCRAPING, EmulatedJobState.COMPLETED),
    )
    if reopened.rowcount:
        add_pages(connection, seq, urls)
    return reopened.rowcount == 1


def page_errors(connection: sqlite3.Connection, seq: int) -> list[PageError]:
    """Return the errors of a job's pages, in the order of the pages."""
    rows = connection.execute("SELECT * FROM job_errors WHERE job = ? ORDER BY number", (seq,))
    return [
        PageError(id=row["id"], at=from_micros(row["at"]), url=row["url"], code=row["code"], text=row["text"])
        for row in rows
    ]


def blocked_urls(connection: sqlite3.Connection, seq: int) -> list[str]:
    """Return the URLs of a job that robots.txt forbids."""
    return [row[0] for row in connection.execute("SELECT url FROM job_blocked WHERE job = ? ORDER BY url", (seq,))]


def last_completed(connection: sqlite3.Connection, team: str) -> datetime | None:
    """Return when a crawl or batch scrape of the team was last completed."""
    row = connection.execute(
        "SELECT max(ended_at) FROM jobs WHERE team = ? AND kind IN (?, ?) AND state = ?",
        (team, JobKind.CRAWL, JobKind.BATCH, EmulatedJobState.COMPLETED),
    ).fetchone()
    return None if row[0] is None else from_micros(row[0])


MAX_DOCUMENTS = 100
"""How many documents one answer has, unless the call asks for another number."""
MAX_BYTES = 10 * 1024 * 1024
"""How many bytes of documents one answer has; one document is always in it."""


@dataclass(frozen=True, slots=True)
class ResultsPage:
    """Some documents of a job."""

    texts: list[bytes]
    """The documents as JSON, in the order in which their pages were scraped."""
    last: int
    """The position of the last one: the first of all documents has 1."""

    @property
    def documents(self) -> list[Json]:
        """The documents."""
        return [json.loads(text) for text in self.texts]


def read_documents(
    connection: sqlite3.Connection, job: int, skip: int, limit: int, max_bytes: int = MAX_BYTES
) -> ResultsPage:
    """Return documents from a position on: at most `limit`, and no more than `max_bytes`, but at least one."""
    texts: list[bytes] = []
    position, budget = skip, max_bytes
    rows = connection.execute(
        "SELECT position, size, document FROM job_documents WHERE job = ? AND position > ?"
        " ORDER BY position LIMIT ?",
        (job, skip, limit),
    )
    for row in rows:
        budget -= row["size"]
        if budget < 0 and texts:
            break
        texts.append(unpack(row["document"]))
        position = row["position"]
    return ResultsPage(texts, position)


def forget_results(connection: sqlite3.Connection, jobs: Sequence[int]) -> None:
    """Delete the pages, documents and errors of jobs."""
    for name in ("job_pages", "job_keys", "job_errors", "job_blocked", "job_documents"):
        connection.executemany(f"DELETE FROM {name} WHERE job = ?", ((seq,) for seq in jobs))  # noqa: S608 - constants


def forget_expired(connection: sqlite3.Connection, now: datetime) -> None:
    """Delete crawls and batch scrapes that expired a week ago: until then, their status says so."""
    connection.execute(
        "DELETE FROM jobs WHERE expires_at <= ? AND ended_at IS NOT NULL AND kind IN (?, ?)",
        (to_micros(now - _KEPT), JobKind.CRAWL, JobKind.BATCH),
    )


def delete_job(connection: sqlite3.Connection, job_id: str) -> None:
    """Delete a job with all that it has, if it is there."""
    rows = connection.execute("DELETE FROM jobs WHERE id = ? RETURNING seq", (job_id,)).fetchall()
    forget_results(connection, [row[0] for row in rows])
