"""What a call reads does not grow with the store: the server counts the rows that it reads.

The counts of a table's and its indexes' rows (PostgreSQL manual, The Cumulative Statistics System) are the same on
every machine. Two stores are looked at: a full one that nobody has analysed, so that the server plans blindly, and
one after ANALYZE.
"""

import secrets
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from receiver.core.activity import PruneRule, WorkerSign
from receiver.core.bulk import BURY, RETRY, Imported
from receiver.core.claims import ClaimLimits, HandlerClaim, Lease
from receiver.core.clock import to_micros
from receiver.core.deliveries import DeliveryFilter, QuarantineFilter
from receiver.core.jobs import JobFilter, JobState
from receiver.core.types import (
    AttemptOutcome,
    DeliveryKey,
    DeliveryState,
    HandlerName,
    HandlerSwitch,
    Origin,
    Trigger,
    WorkState,
)
from receiver.core.work import Attempt, NewWork, RecordedRun, WorkFilter
from receiver.stores.postgres.connection import parse_address
from receiver.stores.postgres.store import PostgresStore, prepare
from receiver.stores.sql.statements.deliveries import MONITOR_CHECK
from tests.doubles import NOON, delivery
from tests.stores.conftest import open_all
from tests.stores.opened import AFTER, MUCH, ONE, SECOND, TWO, A, B, Opened, ended
from tests.stores.outside import PostgresTables
from tests.stores.postgres.shared import drop_schema

MANY = 30_000
JOB_PAGES = 100
EXAMINED = 500
RARE = HandlerName("rare")
"""A handler with one of the oldest work items."""
MOST = 5_000
"""Rows that a call may read, of tables and indexes together. Each table has six times as many."""

_NOON = to_micros(NOON)


def fill(many: int) -> str:
    """Return a script that fills a store; what is not done yet lies at the end."""
    return _FILL.replace("{MANY}", str(many))


_FILL = f"""
INSERT INTO deliveries (seq, key, type, job_id, success, received_at, size)
SELECT n, 'key-' || lpad(n::text, 8, '0'), CASE n % {JOB_PAGES} WHEN 0 THEN 'crawl.completed' ELSE 'crawl.page' END,
    'job-' || lpad(((n - 1) / {JOB_PAGES})::text, 6, '0'), true, {_NOON} + n, 2
FROM generate_series(1, {{MANY}}) AS n;
SELECT setval(pg_get_serial_sequence('deliveries', 'seq'), {{MANY}});
INSERT INTO bodies (seq, headers, body) SELECT seq, '[]', '{{}}' FROM deliveries;
INSERT INTO work_items (id, delivery_seq, handler, state, attempts, trigger, due_at, lease_until, recheck_at,
    hold_until, lane, heads_lane, last_error, worker)
SELECT n, n, CASE WHEN n = 55 THEN '{RARE}' WHEN n % 10 = 0 THEN 'two' ELSE 'one' END, s.state, 1, 'delivery',
    CASE s.state WHEN 'waiting' THEN {_NOON} + n END, CASE s.state WHEN 'running' THEN {_NOON} + 60000000 + n END,
    CASE s.state WHEN 'held' THEN {_NOON} + n END, {_NOON}, CASE s.state WHEN 'queued' THEN 'lane' END, 0,
    CASE s.state WHEN 'dead' THEN 'no' END, CASE s.state WHEN 'running' THEN 'worker-b' END
FROM generate_series(1, {{MANY}}) AS n CROSS JOIN LATERAL (SELECT CASE
    WHEN n > {{MANY}} - 50 THEN 'waiting' WHEN n > {{MANY}} - 100 THEN 'running' WHEN n > {{MANY}} - 150 THEN 'held'
    WHEN n > {{MANY}} - 200 THEN 'queued' WHEN n > {{MANY}} - 250 THEN 'dead'
    WHEN n < 9 THEN 'skipped' ELSE 'done' END AS state) AS s;
SELECT setval(pg_get_serial_sequence('work_items', 'id'), {{MANY}});
INSERT INTO work_items (delivery_seq, handler, state, attempts, trigger, due_at, lane, heads_lane)
VALUES (1, 'one', 'waiting', 0, 'delivery', {_NOON}, 'lane', 1);
INSERT INTO attempts (work_id, number, trigger, started_at, ended_at, outcome, overdue)
SELECT id, 1, 'delivery', {_NOON}, {_NOON} + 9, 'succeeded', 0 FROM work_items WHERE state = 'done';
INSERT INTO quarantine (received_at, reason, detail, headers, body)
SELECT {_NOON}, 'conflict', '', '[]', '' FROM generate_series(1, {{MANY}});
INSERT INTO once_keys (handler, key, asked_at) SELECT 'one', 'k' || n, n FROM generate_series(1, {{MANY}}) AS n;
INSERT INTO handlers (name) VALUES ('one'), ('two'), ('{RARE}');
INSERT INTO words (seq, words)
SELECT seq, (CASE seq % 1000 WHEN 7 THEN '''rare'':1 ' ELSE '' END || '''example'':2')::tsvector FROM deliveries;
INSERT INTO arrival_minutes SELECT received_at / 60000000, count(*) FROM deliveries GROUP BY 1;
INSERT INTO jobs
SELECT max(seq), min(received_at), max(received_at), 'crawl.completed' FROM deliveries GROUP BY job_id;
UPDATE marks SET value = {{MANY}} WHERE name IN ('routed', 'indexed', 'summed');
INSERT INTO marks (name, value) VALUES ('searched', 1);
"""
COUNTED = """
SELECT
    (
        SELECT sum(coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0))
        FROM pg_stat_user_tables WHERE schemaname = %s
    ),
    (SELECT sum(idx_tup_read) FROM pg_stat_user_indexes WHERE schemaname = %s)
"""
WANTED = ClaimLimits(64, MUCH)
LEASE = Lease(A, AFTER)
Call = Callable[[Opened], Awaitable[Any]]


def listing(**wanted: Any) -> Call:
    """Return a listing of twenty deliveries."""

    async def read(opened: Opened) -> Any:
        return [one async for one in opened.reports.deliveries(replace(DeliveryFilter(limit=20), **wanted))]

    return read


def work_listing(**wanted: Any) -> Call:
    """Return a listing of twenty work items."""

    async def read(opened: Opened) -> Any:
        return [one async for one in opened.reports.work_items(replace(WorkFilter(limit=20), **wanted))]

    return read


def page(**wanted: Any) -> Call:
    """Return a look for twenty deliveries among the newest."""
    return lambda opened: opened.reports.delivery_page(
        replace(DeliveryFilter(limit=20), **wanted), examine=EXAMINED
    )


def work_page(**wanted: Any) -> Call:
    """Return a look for twenty work items among the newest."""
    return lambda opened: opened.reports.work_page(replace(WorkFilter(limit=20), **wanted), examine=EXAMINED)


def jobs(through: int | None = None, **wanted: Any) -> Call:
    """Return a listing of five jobs, each of a hundred deliveries."""

    async def read(opened: Opened) -> Any:
        filters = replace(JobFilter(limit=5), **wanted)
        return [one async for one in opened.reports.jobs(filters, through=through)]

    return read


async def a_page_of_bodies(opened: Opened) -> Any:
    """Read the first of all deliveries."""
    async for one in opened.reports.iter_deliveries(DeliveryFilter(job_id="job-000003")):
        return one
    raise AssertionError


async def route(opened: Opened) -> Any:
    """Append deliveries and route them, in lanes too."""
    await opened.add(*[delivery(f"new-{n}", body=b"%d" % n) for n in range(30)])
    batch = await opened.queue.routing_batch(limit=100, max_bytes=MUCH)
    assert len(batch.deliveries) == 30
    work = [NewWork(one.seq, ONE, claim=at % 2 == 0, lane="lane") for at, one in enumerate(batch.deliveries)]
    return await opened.queue.route(batch, work, lease=LEASE, now=NOON)


async def claim_and_settle(opened: Opened) -> Any:
    """Claim what is due, and settle it."""
    now = NOON + SECOND
    claimants = [HandlerClaim(ONE, concurrency=500), HandlerClaim(TWO)]
    claimed = await opened.queue.claim(claimants, WANTED, lease=LEASE, now=now)
    assert len(claimed) >= 40
    await opened.queue.mark_started([one.id for one in claimed], A)
    await opened.queue.renew([one.id for one in claimed], LEASE)
    assert all(await opened.queue.settle([ended(one.id, number=one.attempt) for one in claimed]))
    return claimed


async def quarantined(opened: Opened) -> Any:
    """List some of the quarantine."""
    return [one async for one in opened.reports.quarantined_requests(QuarantineFilter(limit=20))]


async def rest_of_a_worker(opened: Opened) -> Any:
    """Do what a worker does beside claiming and settling."""
    queue, running = opened.queue, [MANY - 99, MANY - 98]
    await queue.sign_on(WorkerSign(A, "machine", 1, "1", NOON), now=NOON)
    await queue.clear_started(running, B)
    await queue.release_leases(running, B, now=NOON)
    await queue.recheck(MANY - 102, at=AFTER, note="")
    await queue.release(MANY - 103, now=NOON, note="")
    await queue.set_once_expiry(ONE, "k5", until=AFTER)
    await queue.backfilled([DeliveryKey("key-00000017")])
    await queue.expire_leases_of(A, now=NOON)
    await queue.sign_off(A)


async def rest_of_an_operator(opened: Opened) -> Any:
    """Import, run again, record and release."""
    one = delivery("imported")
    await opened.controls.import_deliveries([Imported(one, 0, Origin.BACKFILL)])
    await opened.controls.enqueue([NewWork(77, ONE, False, False, "lane", None)], now=NOON)
    attempt = Attempt(1, Trigger.REPLAY, NOON, AFTER, AttemptOutcome.SUCCEEDED)
    await opened.controls.record([RecordedRun(78, ONE, attempt, WorkState.DONE)], now=NOON)
    await opened.controls.release_request(77, delivery("released"))


async def housekeeping(opened: Opened) -> Any:
    """Forget what is old."""
    await opened.maintenance.forget(NOON, limit=100)
    await opened.maintenance.forget_workers(NOON)
    await opened.maintenance.forget_activity(NOON)


CALLS: dict[str, Call] = {
    "newest deliveries": listing(),
    "deliveries of a job": listing(job_id="job-000007"),
    "deliveries of a type": listing(type="crawl.*"),
    "failed deliveries": listing(failed=True),
    **{f"{state} deliveries": listing(state=state) for state in DeliveryState},
    "deliveries with words": listing(text="example"),
    "deliveries with a rare word": listing(text="rare"),
    "newest work items": work_listing(),
    "work items of a handler": work_listing(handler=HandlerName("two")),
    "work items of a job": work_listing(job_id="job-000007"),
    **{f"{state} work items": work_listing(state=state) for state in WorkState},
    "dead work items of a handler": work_listing(state=WorkState.DEAD, handler=HandlerName("two")),
    "a look at the newest deliveries": page(),
    "a look for a type that never came": page(type="none.*"),
    "a look for deliveries of a handler and a type": page(handler=HandlerName("two"), type="none.*"),
    "a look for deliveries of a rare handler": page(handler=RARE),
    "a look for work of a rare handler": work_page(handler=RARE),
    "a look for deliveries of a job": page(job_id="job-000007"),
    "a look for deliveries with a rare word": page(text="rare"),
    "a look at the newest work items": work_page(),
    "a look for work of a type that never came": work_page(type="none.*"),
    "a look for work with an error": work_page(error="none*"),
    "a look for work of a job": work_page(job_id="job-000007"),
    **{f"a look for {state} work": work_page(state=state, error="none*") for state in WorkState},
    "the end of a look": lambda opened: opened.reports.look_end(examine=EXAMINED),
    "a look for jobs of a type that never came": jobs(MANY - EXAMINED, type="none"),
    "a plan of a retry": lambda opened: opened.reports.work_plan(RETRY.narrowed(WorkFilter())),
    "a plan to bury": lambda opened: opened.reports.work_plan(
        BURY.narrowed(WorkFilter(handler=HandlerName("two")))
    ),
    "handlers": lambda opened: opened.reports.handlers(count_done=False),
    "arrivals": lambda opened: opened.reports.arrivals(NOON),
    "activity": lambda opened: opened.reports.activity(since=NOON, step=timedelta(minutes=1)),
    "checks of monitors": listing(type=MONITOR_CHECK),
    "recent jobs": jobs(),
    "ended jobs": jobs(state=JobState.ENDED),
    "a job": lambda opened: opened.reports.job("job-000009"),
    "a job by its beginning": lambda opened: opened.reports.resolve_job("job-000009"),
    "a delivery by its beginning": lambda opened: opened.reports.resolve("key-00000997"),
    "a delivery": lambda opened: opened.reports.detail(DeliveryKey("key-00000999")),
    "a work item": lambda opened: opened.reports.work_item(77),
    "subjects": lambda opened: opened.reports.subjects(list(range(500, 520))),
    "the feed": lambda opened: opened.reports.since(DeliveryFilter(), after=MANY - 20, limit=100),
    "some deliveries": lambda opened: opened.reports.by_seqs(DeliveryFilter(), list(range(500, 520))),
    "open deliveries": lambda opened: opened.reports.open_seqs(limit=50),
    "bodies of a job": a_page_of_bodies,
    "the quarantine": quarantined,
    "unfinished": lambda opened: opened.reports.count_unfinished(),
    "waiting": lambda opened: opened.reports.waiting(),
    "the backlog": lambda opened: opened.reports.backlog(NOON),
    "the reach of the index": lambda opened: opened.reports.search_reach(),
    "what failed": lambda opened: opened.reports.failed_handlers(5),
    "a duplicate": lambda opened: opened.add(delivery("key-00000017", body=b"{}")),
    "append and route": route,
    "claim and settle": claim_and_settle,
    "next due": lambda opened: opened.queue.next_due([HandlerClaim(ONE), HandlerClaim(TWO)], now=NOON),
    "suspects": lambda opened: opened.queue.suspects_due([HandlerClaim(ONE)], now=AFTER),
    "held items": lambda opened: opened.queue.held([ONE, TWO], now=AFTER, limit=50),
    "pages of a job": lambda opened: opened.queue.pages("job-000001", page_type="crawl.page", handlers=[ONE]),
    "once": lambda opened: opened.queue.once(ONE, "k77", now=NOON),
    "once keys": lambda opened: opened.queue.available_once_keys(ONE, ["k1", "new"], now=NOON),
    "retry": lambda opened: opened.controls.retry(list(range(MANY - 249, MANY - 199)), now=NOON),
    "bury": lambda opened: opened.controls.bury(list(range(MANY - 149, MANY - 100)), "no", now=NOON),
    "disable and skip": lambda opened: disable(opened),
    "the rest of a worker": rest_of_a_worker,
    "the rest of an operator": rest_of_an_operator,
    "housekeeping": housekeeping,
    "workers": lambda opened: opened.reports.workers(),
    "names of handlers": lambda opened: opened.reports.handler_names(),
    "switches": lambda opened: opened.reports.switches(),
    "a request in quarantine": lambda opened: opened.reports.quarantined_request(88),
    "the size of the store": lambda opened: opened.reports.facts(),
    "prune": lambda opened: opened.maintenance.prune(
        PruneRule(NOON + timedelta(days=1), type="crawl.completed"), after=0, limit=5, now=AFTER
    ),
}
SCANS = {"prune"}
"""It looks at up to 10,000 deliveries one after the other."""
FOR_PEOPLE = {
    "done work items",
    "deliveries of a type",
    "deliveries with words",
    "a look for deliveries with a rare word",
    "work items of a handler",
    "work items of a job",
}
"""Until autovacuum has analysed the tables, these may read all of them, from an index."""


async def disable(opened: Opened) -> Any:
    """Skip what waits for a handler."""
    await opened.controls.switch(TWO, HandlerSwitch.DISABLED)
    return await opened.queue.claim([HandlerClaim(TWO)], WANTED, lease=LEASE, now=NOON)


@pytest.fixture(scope="module", params=["fresh", "analysed"])
def full(request: pytest.FixtureRequest, postgres_server: str) -> Iterator[str]:
    """The address of a full store."""
    name = f"{request.param}_{secrets.token_hex(6)}"
    url = f"{postgres_server}?schema={name}&application_name={name}"
    prepare(parse_address(url))
    with PostgresTables(url).connect() as connection:
        connection.execute(fill(MANY).encode())
        if request.param == "analysed":
            connection.execute(f"ANALYZE {', '.join(TABLES)}".encode())
    yield url
    drop_schema(postgres_server, name)


OTHERS = b"""
SELECT pid FROM pg_stat_activity WHERE application_name = current_schema() AND pid <> pg_backend_pid()
"""
END_OTHERS = b"SELECT pg_terminate_backend(pid, 10000) FROM (" + OTHERS + b") AS others"

TABLES = ("deliveries", "bodies", "work_items", "attempts", "quarantine", "once_keys", "words", "jobs", "marks")


async def rows_read(url: str, call: Call) -> int:
    """Return how many rows a call reads."""
    before = total(url)
    async with open_all(PostgresStore(url)) as opened:
        await call(opened)
    return total(url) - before


def total(url: str) -> int:
    """Return how many rows have been read of all tables and indexes.

    A session tells that at the latest when it ends, which is after its client has gone: this waits for it.
    """
    schema = PostgresTables(url).schema
    with PostgresTables(url).connect() as connection:
        connection.execute(END_OTHERS)
        assert connection.execute(OTHERS).fetchall() == []
        [(tables, indexes)] = connection.execute(COUNTED, (schema, schema)).fetchall()
    return int(tables) + int(indexes)


async def test_no_call_reads_the_whole_store(full: str) -> None:
    """Whatever the planner thinks of the tables, it finds what a call wants by an index."""
    read = {name: await rows_read(full, call) for name, call in CALLS.items()}

    many = {name: rows for name, rows in read.items() if rows > MOST}
    assert many.keys() - SCANS - (FOR_PEOPLE if "fresh" in full else set()) == set(), many
