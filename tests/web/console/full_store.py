"""A store with a past, the pages that show it, and the steps that SQLite takes for each of them."""

import json
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from urllib.parse import quote

from receiver.core.clock import Clock
from receiver.core.ports.reports import Reports
from receiver.stores.sqlite.reports import SqliteReports
from receiver.stores.sqlite.store import SqliteStore
from receiver.web.console.app import ConsoleApp
from receiver.web.console.filters import EXAMINED
from receiver.web.console.parts import ConsoleOptions
from tests.benchmarks.prefill import Prefill
from tests.stores.test_sqlite_bulk_effort import Steps
from tests.web.console.browsing import PAGES, Browser

HANDLER, RARE_HANDLER = "handlers.save", "handlers.rare"
BODY_SIZE = 1_024
_CHECK = {
    "type": "monitor.check.completed",
    "id": "check",
    "success": True,
    "data": [{"monitorId": "m", "checkId": "check", "status": "completed", "summary": {"changed": 1}}],
}
# The oldest: whoever looks for them from the newest on finds all others first.
_DEAD = "UPDATE work_items SET state = 'dead', last_error = 'TimeoutError: in row ' || id WHERE id <= :rows"
_OTHERS = """
UPDATE work_items SET
    state = CASE id % 3 WHEN 0 THEN 'held' WHEN 1 THEN 'skipped' ELSE 'waiting' END,
    recheck_at = CASE id % 3 WHEN 0 THEN 1 END, due_at = CASE id % 3 WHEN 2 THEN 1 END
WHERE id > :rows AND id <= 2 * :rows
"""
_CHECKS = "UPDATE deliveries SET type = 'monitor.check.completed' WHERE seq > 2 * :rows AND seq <= 3 * :rows"
_BODIES = "UPDATE bodies SET body = :body WHERE seq > 2 * :rows AND seq <= 3 * :rows"
_HANDLER = "INSERT INTO handlers (name) VALUES (:handler)"
_HANDLED = "UPDATE work_items SET handler = :handler WHERE id > 3 * :rows AND id <= 4 * :rows"
_QUARANTINE = """
INSERT INTO quarantine (received_at, reason, detail, headers, body)
SELECT received_at, 'malformed', 'no JSON', '[]', x'7b' FROM deliveries WHERE seq <= :rows
"""
_SPREAD = (
    "UPDATE deliveries SET received_at = received_at - (SELECT max(seq) FROM deliveries) * 43200 + seq * 43200"
)


def fill(path: Path, deliveries: int, *, rare: int) -> None:
    """Make a store with so many deliveries of an hour for each 83,000; `rare` of them are dead, and so on."""
    Prefill(path, BODY_SIZE).past_done(deliveries, HANDLER)
    values = {"rows": rare, "body": json.dumps(_CHECK).encode(), "handler": RARE_HANDLER}
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in (_DEAD, _OTHERS, _CHECKS, _BODIES, _HANDLER, _HANDLED, _QUARANTINE, _SPREAD):
            connection.execute(statement, values)
        connection.execute("DELETE FROM arrival_minutes")
        connection.execute(
            "INSERT INTO arrival_minutes SELECT received_at / 60000000, count(*) FROM deliveries "
            "WHERE seq <= (SELECT value FROM marks WHERE name = 'summed') GROUP BY 1"
        )


def paths(path: Path) -> Iterator[str]:
    """Yield the pages: those in the head of each page, one of each kind of row, and filters for rare ones."""
    with closing(sqlite3.connect(path)) as connection:
        [(last,)] = connection.execute("SELECT max(seq) FROM deliveries")
        [(key, job)] = connection.execute("SELECT key, job_id FROM deliveries WHERE seq = ?", (last // 2,))
    yield from PAGES
    yield from (f"/deliveries/{quote(key)}", f"/jobs/{quote(job)}", f"/work-items/{last // 2}", "/quarantine/1")
    yield from (f"/handlers/{HANDLER}", "/actions")
    yield from (f"/{rows}?before={last // 2}" for rows in ("deliveries", "work-items", "jobs"))
    yield from (f"/deliveries?state={state}" for state in ("new", "working", "dead", "done"))
    yield from ("/deliveries?failed=1", "/deliveries?type=monitor.check.completed", f"/deliveries?job={quote(job)}")
    yield from (f"/work-items?state={state}" for state in ("waiting", "held", "running", "dead", "skipped", "done"))
    yield from (f"/work-items?handler={HANDLER}&state=dead", "/jobs?state=open", "/jobs?since=1h")
    yield from (f"/work-items/{verb}/plan?handler={HANDLER}" for verb in ("retry", "bury"))
    yield "/work-items/retry/plan?state=dead"


class CountedStore(SqliteStore):
    """A store that counts the steps of whoever reads it."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"sqlite:///{path}")
        self.steps = Steps()

    @asynccontextmanager
    async def reports(self) -> AsyncIterator[Reports]:
        """Open for reading."""
        async with super().reports() as reports:
            assert isinstance(reports, SqliteReports)
            await self.steps.watch_database(reports.database)
            yield reports


async def steps_of(path: Path, page: str, clock: Clock, *, examined: int = EXAMINED) -> int:
    """Return the steps of the first visit of a page after the start, with what it reads in the background."""
    store = CountedStore(path)
    app = ConsoleApp(store, clock, ConsoleOptions(version="1"), examined=examined)
    async with app.lifespan():
        await Browser(app).page(page)
        return store.steps.count
