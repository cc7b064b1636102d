"""The facts about each job, in a small SQLite file. A delivery counts once, and the order does not matter.

The work per delivery does not grow with the job. The last moments before a power cut may be missing; a replay of
the job's deliveries restores them. The file may be deleted: then the counts of each job start at zero.
"""

import json
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

SCHEMA = """
pragma journal_mode = wal;
pragma synchronous = normal;
create table if not exists jobs (
    job text primary key, family text not null, job_id text not null, metadata text not null
) strict, without rowid;
create table if not exists deliveries (
    job text not null, delivery text not null, primary key (job, delivery)
) strict, without rowid;
create table if not exists arrivals (
    job text not null, type text not null, deliveries integer not null,
    first_at text not null, last_at text not null, error text,
    primary key (job, type)
) strict, without rowid;
create table if not exists pages (
    job text not null, page text not null, url text not null, outcome integer not null, problem text,
    received_at text not null, primary key (job, page)
) strict, without rowid;
create table if not exists outcomes (
    job text not null, outcome integer not null, pages integer not null, primary key (job, outcome)
) strict, without rowid;
create index if not exists problems on pages (job, received_at, page) where problem is not null;
"""
KEEP_JOB = """
insert into jobs values (?, ?, ?, ?)
on conflict do update set metadata = excluded.metadata where metadata = '{}'
"""
KEEP_DELIVERY = "insert into deliveries values (?, ?) on conflict do nothing"
COUNT_ARRIVAL = """
insert into arrivals values (?, ?, 1, ?, ?, ?)
on conflict do update set deliveries = deliveries + 1, first_at = min(first_at, excluded.first_at),
    last_at = max(last_at, excluded.last_at), error = coalesce(error, excluded.error)
"""
OUTCOME_OF = "select outcome from pages where job = ? and page = ?"
KEEP_BEST_OUTCOME = """
insert into pages values (?, ?, ?, ?, ?, ?)
on conflict do update set outcome = excluded.outcome, problem = excluded.problem, received_at = excluded.received_at
where (excluded.outcome, excluded.received_at) > (outcome, received_at)
"""
COUNT_OUTCOME = "insert into outcomes values (?, ?, ?) on conflict do update set pages = pages + excluded.pages"
JOB = "select family, job_id, metadata from jobs where job = ?"
ARRIVALS = "select type, deliveries, first_at, last_at, error from arrivals where job = ? order by first_at, type"
OUTCOMES = "select outcome, pages from outcomes where job = ?"
LAST_PROBLEMS = """
select url, problem, received_at from pages
where job = ? and problem is not null order by received_at desc, page desc limit ?
"""
BUSY_SECONDS = 10
_kept: dict[tuple[int, int], sqlite3.Connection] = {}


class Outcome(IntEnum):
    """The outcome of a page of a job. Of several deliveries about one page the highest outcome counts."""

    CANCELLED = 1
    EMPTY = 2
    FAILED = 3
    ERROR_STATUS = 4
    GOOD = 5


@dataclass(frozen=True, slots=True)
class Page:
    """The facts in one delivery about one page."""

    key: str
    url: str
    outcome: Outcome
    problem: str | None


@dataclass(frozen=True, slots=True)
class DeliveryFacts:
    """The facts in one delivery about a job. The texts are clean and of bounded length."""

    job: str
    family: str
    job_id: str
    metadata: Mapping[str, str]
    delivery: str
    type: str
    received_at: str
    error: str | None
    page: Page | None


@dataclass(frozen=True, slots=True)
class Arrivals:
    """The deliveries of one event type."""

    type: str
    deliveries: int
    first_at: str
    last_at: str
    error: str | None


@dataclass(frozen=True, slots=True)
class Problem:
    """A page that is not good, and the reason."""

    url: str
    text: str
    received_at: str


@dataclass(frozen=True, slots=True)
class JobRecord:
    """Everything that a summary needs. The first arrivals come first, and the newest problems."""

    family: str
    job_id: str
    metadata: Mapping[str, str]
    arrivals: tuple[Arrivals, ...]
    pages: Mapping[Outcome, int]
    problems: tuple[Problem, ...]


def open_tally(path: Path, *, busy_seconds: float = BUSY_SECONDS) -> sqlite3.Connection:
    """Return this process's connection to the file, or a new one if the file was deleted.

    It stays open, because closing the last connection syncs the disk. Only one thread may use it at a time.
    """
    if path.exists() and (kept := _kept.get(_identity(path))):
        return kept
    while _kept:
        _kept.popitem()[1].close()
    db = sqlite3.connect(path, timeout=busy_seconds, isolation_level=None, check_same_thread=False)
    try:
        db.executescript(SCHEMA)
    except BaseException:
        db.close()
        raise
    _kept[_identity(path)] = db
    return db


def count(db: sqlite3.Connection, facts: DeliveryFacts) -> None:
    """Count a delivery, unless it has been counted before."""
    with db:
        db.execute("begin immediate")
        if not db.execute(KEEP_DELIVERY, (facts.job, facts.delivery)).rowcount:
            return
        db.execute(KEEP_JOB, (facts.job, facts.family, facts.job_id, json.dumps(dict(facts.metadata))))
        db.execute(COUNT_ARRIVAL, (facts.job, facts.type, facts.received_at, facts.received_at, facts.error))
        if facts.page:
            _count_page(db, facts.job, facts.page, facts.received_at)


def read(db: sqlite3.Connection, job: str, *, problems: int) -> JobRecord:
    """Return the record of a counted job, with its last few problems."""
    family, job_id, metadata = db.execute(JOB, (job,)).fetchone()
    return JobRecord(
        family=family,
        job_id=job_id,
        metadata=json.loads(metadata),
        arrivals=tuple(Arrivals(*row) for row in db.execute(ARRIVALS, (job,))),
        pages={Outcome(outcome): pages for outcome, pages in db.execute(OUTCOMES, (job,))},
        problems=tuple(Problem(*row) for row in db.execute(LAST_PROBLEMS, (job, problems))),
    )


def _count_page(db: sqlite3.Connection, job: str, page: Page, received_at: str) -> None:
    before = db.execute(OUTCOME_OF, (job, page.key)).fetchone()
    db.execute(KEEP_BEST_OUTCOME, (job, page.key, page.url, page.outcome, page.problem, received_at))
    after = db.execute(OUTCOME_OF, (job, page.key)).fetchone()
    if before:
        db.execute(COUNT_OUTCOME, (job, before[0], -1))
    db.execute(COUNT_OUTCOME, (job, after[0], 1))


def _identity(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_dev, found.st_ino
