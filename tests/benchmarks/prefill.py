"""A store with a past: many deliveries put into it by SQL, faster than any client could send them."""

import json
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from receiver.events import parse_event
from receiver.stores.sqlite.delivery_keys import add_functions
from receiver.stores.sqlite.files import prepare
from receiver.stores.sqlite.log import BEHIND, JobRows
from tests.benchmarks.payloads import Pages, request_head

_NUMBERS = "WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < :rows)"

# A job has a hundred pages; they come as those of a dozen jobs that run at one time do.
_JOB = "substr(:job, 1, 24) || printf('%012x', n / 1200 * 12 + n % 12)"

_UUID = (
    "hex(randomblob(4)) || '-' || hex(randomblob(2)) || '-' || hex(randomblob(2)) || '-' || hex(randomblob(2)) "
    "|| '-' || hex(randomblob(6))"
)

# Random keys, as webhook ids are: each goes to another place of the index.
_DELIVERIES = f"""
{_NUMBERS}
INSERT INTO deliveries (seq, key, type, job_id, success, received_at, size)
SELECT :last + n, lower({_UUID}), 'crawl.page', {_JOB}, 1, :now + n, length(:body)
FROM numbers
"""

_BODIES = f"""
{_NUMBERS}
INSERT INTO bodies (seq, headers, body)
SELECT :last + n, :headers, CAST(replace(CAST(:body AS TEXT), :job, {_JOB}) AS BLOB) FROM numbers
"""

# As a past of that length has left them.
_KEYS = "INSERT INTO delivery_keys SELECT index_key(key), seq FROM deliveries WHERE seq > :last ORDER BY 1"

_KEYED = "UPDATE marks SET value = (SELECT max(seq) FROM deliveries) WHERE name = 'keyed'"

_WORK = """
INSERT INTO work_items (delivery_seq, handler, state, attempts, trigger, due_at)
SELECT seq, :handler, :state, :attempts, 'delivery', iif(:state = 'waiting', :due_at, NULL)
FROM deliveries WHERE seq > :last ORDER BY seq
"""

_ATTEMPTS = """
INSERT INTO attempts (work_id, number, trigger, started_at, ended_at, outcome, overdue)
SELECT id, 1, 'delivery', :due_at, :due_at, 'succeeded', 0 FROM work_items WHERE delivery_seq > :last ORDER BY id
"""

_UNSAFE = "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -524288;"

_ROUTED = "UPDATE marks SET value = (SELECT max(seq) FROM deliveries) WHERE name = 'routed'"


class Prefill:
    """Adds to one store. Methods that begin with `past_` need it to themselves."""

    def __init__(self, path: Path, size: int) -> None:
        self._path = path
        pages = Pages(size)
        self._body = pages.body()
        self._job = parse_event(self._body).job_id
        lines = request_head(pages.size, "***").decode().split("\r\n")[1:-2]
        self._headers = json.dumps([line.split(": ", 1) for line in lines])
        self._now = time.time_ns() // 1000
        prepare(path, create=True)

    def past_done(self, rows: int, handler: str) -> None:
        """Add deliveries that were handled once, with success."""
        self._past(rows, handler, state="done", attempts=1, due_at=self._now)

    def past_waiting(self, rows: int, handler: str) -> None:
        """Add deliveries whose work item is due in an hour."""
        self._past(rows, handler, state="waiting", attempts=1, due_at=self._now + 3_600_000_000)

    def new(self, rows: int) -> None:
        """Add deliveries that no worker has seen; workers that run see them all at one moment.

        They lie in the database by then, and not in its log. Otherwise a worker would move all that in the time
        that is measured: beside an endpoint there are never so many deliveries in the log.
        """
        with closing(sqlite3.connect(self._path, timeout=30, isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            (routed,) = connection.execute("SELECT value FROM marks WHERE name = 'routed'").fetchone()
            self._deliveries(connection, rows)
            connection.execute(_ROUTED)
            connection.execute("COMMIT")
            (busy, *_) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            if busy:
                raise RuntimeError("the log could not be moved into the database within 30 seconds")
            connection.execute("UPDATE marks SET value = ? WHERE name = 'routed'", (routed,))

    def _past(self, rows: int, handler: str, *, state: str, attempts: int, due_at: int) -> None:
        if not rows:
            return
        with _without_safety(self._path) as connection:
            last = self._deliveries(connection, rows)
            values = {"last": last, "handler": handler, "state": state, "attempts": attempts, "due_at": due_at}
            connection.execute(_WORK, values)
            connection.execute(_ATTEMPTS, values)
            connection.execute(_ROUTED)
            add_functions(connection)
            connection.execute(_KEYS, values)
            connection.execute(_KEYED)
            through = last + rows
            for _ in range(through // BEHIND + 1):
                JobRows().follow(connection, through)

    def _deliveries(self, connection: sqlite3.Connection, rows: int) -> int:
        (last,) = connection.execute("SELECT coalesce(max(seq), 0) FROM deliveries").fetchone()
        values: dict[str, object] = {"rows": rows, "last": last, "now": self._now, "job": self._job}
        values |= {"headers": self._headers, "body": self._body}
        connection.execute(_DELIVERIES, values)
        connection.execute(_BODIES, values)
        return int(last)


@contextmanager
def _without_safety(path: Path) -> Iterator[sqlite3.Connection]:
    """Give a transaction that nothing protects and nothing slows down; a failure leaves a broken file."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.executescript(_UNSAFE)
        connection.execute("BEGIN")
        yield connection
        connection.execute("COMMIT")
        connection.execute("PRAGMA journal_mode = WAL")
