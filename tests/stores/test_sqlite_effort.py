"""Waiting work costs nothing: a worker's calls take as many steps beside 20,000 work items as beside one.

The steps are instructions of SQLite's virtual machine (SQLite manual, `sqlite3_progress_handler`), so no clock and
no other process can change their number.
"""

import shutil
import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, closing
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest

from receiver.core.claims import ClaimLimits, HandlerClaim, Lease, WorkItem
from receiver.core.clock import to_micros
from receiver.core.types import HandlerSwitch
from receiver.core.work import NewWork
from receiver.stores.sql.connection import SqlDatabase
from receiver.stores.sqlite.controls import SqliteControls
from receiver.stores.sqlite.files import prepare
from receiver.stores.sqlite.queue import SqliteQueue
from receiver.stores.sqlite.store import SqliteStore
from tests.doubles import NOON, appended, delivery
from tests.stores.conftest import open_all
from tests.stores.opened import AFTER, MUCH, ONE, QUEUED, SECOND, SKIPPED, A, ended
from tests.stores.rows import MOMENTS, moments

MANY = 20_000
FACTOR = 1.2
"""Room for a tree that has grown higher. A statement that reads all items takes a hundred times as many."""

SHAPES = {
    "in one lane": ("iif(seq = 1, 'waiting', 'queued')", "'lane'", "seq = 1"),
    "in lanes of their own": ("'waiting'", "'lane-' || seq", "1"),
    "in no lane": ("'waiting'", "NULL", "0"),
    "behind held ones": ("iif(seq = 1, 'waiting', 'held')", "NULL", "0"),
    "behind done ones": ("iif(seq = 1, 'waiting', 'done')", "'lane'", "seq = 1"),
    "behind one that holds the lane": ("iif(seq = 1, 'dead', 'queued')", "'lane'", "seq = 1"),
}


def fill(path: Path, shape: str, count: int) -> None:
    """Make a database with so many work items of one handler, all of them due since noon."""
    prepare(path, create=True)
    state, lane, heads = SHAPES[shape]
    noon = to_micros(NOON)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(
            "INSERT INTO deliveries (seq, key, type, job_id, received_at, size) WITH RECURSIVE n(value) AS "
            f"(SELECT 1 UNION ALL SELECT value + 1 FROM n WHERE value < {count}) "
            f"SELECT value, 'k' || value, 'crawl.page', 'job', {noon}, 2 FROM n"
        )
        connection.execute("INSERT INTO bodies (seq, headers, body) SELECT seq, '[]', x'7b7d' FROM deliveries")
        connection.execute(
            "INSERT INTO work_items "
            f"(delivery_seq, handler, state, attempts, trigger, {MOMENTS}, hold_until, lane, heads_lane) "
            f"SELECT seq, 'one', {state}, 0, 'delivery', {moments(state, str(noon))}, {noon}, {lane}, {heads} "
            "FROM deliveries"
        )
        connection.execute("UPDATE marks SET value = ? WHERE name = 'routed'", (count,))
        connection.commit()


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, int], Path]:
    """Databases of every shape and size, each made once."""
    folder = tmp_path_factory.mktemp("filled")

    def make(shape: str, count: int) -> Path:
        path = folder / f"{shape} {count}.db"
        if not path.exists():
            fill(path, shape, count)
        return path

    return make


@dataclass(slots=True)
class CountedWorker:
    """A queue and the controls, with every step that they take counted."""

    queue: SqliteQueue
    controls: SqliteControls
    store: SqliteStore
    steps: int = 0

    def count(self) -> int:
        """Count a step; 0 lets SQLite go on."""
        self.steps += 1
        return 0

    async def watch(self, *databases: SqlDatabase) -> None:
        """Count the steps of these connections."""
        for database in databases:
            await database.call(lambda connection: connection.set_progress_handler(self.count, 1))

    async def claim(self, *claimants: HandlerClaim, limit: int = 1, now: timedelta = SECOND) -> Sequence[WorkItem]:
        """Claim for a minute."""
        wanted = ClaimLimits(limit, MUCH)
        return await self.queue.claim(claimants, wanted, lease=Lease(A, AFTER), now=NOON + now)


Call = Callable[[CountedWorker], Awaitable[object]]


async def steps(path: Path, tmp_path: Path, before: Call, call: Call) -> int:
    """Return how many steps a call takes on a copy of a database, after another call that is not counted."""
    copy = tmp_path / path.name
    shutil.copy(path, copy)
    store = SqliteStore(f"sqlite:///{copy}")
    async with AsyncExitStack() as stack:
        queue = await stack.enter_async_context(store.queue())
        controls = await stack.enter_async_context(store.controls())
        assert isinstance(queue, SqliteQueue)
        assert isinstance(controls, SqliteControls)
        worker = CountedWorker(queue, controls, store)
        await before(worker)
        await worker.watch(queue.database, controls.database)
        await call(worker)
    assert worker.steps > 10, "nothing was counted"
    return worker.steps


async def nothing(worker: CountedWorker) -> None:
    """Do nothing before."""


async def claim(worker: CountedWorker) -> None:
    """Claim one item."""
    assert len(await worker.claim(HandlerClaim(ONE))) == 1


async def claim_nothing(worker: CountedWorker) -> None:
    """Find out that there is nothing to claim."""
    assert list(await worker.claim(HandlerClaim(ONE))) == []


async def claim_within_limits(worker: CountedWorker) -> None:
    """Claim one item of a handler with a rate and a limit."""
    assert len(await worker.claim(HandlerClaim(ONE, concurrency=2, interval=SECOND))) == 1


async def claim_after_a_death(worker: CountedWorker) -> None:
    """Take back the one item whose worker died, and claim it again."""
    assert len(await worker.claim(HandlerClaim(ONE), now=AFTER - NOON)) == 1


async def settle(worker: CountedWorker) -> None:
    """Settle the item claimed before, and let the next one of its lane come forward."""
    assert await worker.queue.settle([ended(1)]) == [True]


async def release_leases(worker: CountedWorker) -> None:
    """Give back the item claimed before."""
    await worker.queue.release_leases([1], A, now=NOON)


async def look_around(worker: CountedWorker) -> None:
    """Ask everything that a worker asks between its claims."""
    await worker.queue.next_due([HandlerClaim(ONE, interval=SECOND)], now=NOON + SECOND)
    await worker.queue.suspects_due([HandlerClaim(ONE)], now=NOON + SECOND)
    await worker.queue.switches()
    await worker.queue.held([ONE], now=NOON + SECOND, limit=1)
    await worker.queue.routing_batch(limit=9, max_bytes=MUCH)


async def append(worker: CountedWorker) -> None:
    """Append a delivery."""
    async with worker.store.log() as log:
        await appended(log, delivery("new"))


async def route(worker: CountedWorker) -> None:
    """Route the delivery appended before to the lane."""
    batch = await worker.queue.routing_batch(limit=9, max_bytes=MUCH)
    (one,) = batch.deliveries
    work = [NewWork(one.seq, ONE, lane="lane")]
    assert await worker.queue.route(batch, work, lease=Lease(A, AFTER), now=NOON) is not None


async def bury(worker: CountedWorker) -> None:
    """Bury the first item, and let the next one of its lane come forward."""
    assert await worker.controls.bury([1], "x", now=NOON) == 1


async def retry(worker: CountedWorker) -> None:
    """Retry the first item."""
    assert await worker.controls.retry([1], now=NOON) == 1


async def release(worker: CountedWorker) -> None:
    """Release a held item."""
    await worker.queue.release(2, now=NOON, note="x")


@pytest.mark.parametrize(
    ("shape", "before", "call"),
    [
        *[(shape, nothing, claim) for shape in SHAPES if shape != "behind one that holds the lane"],
        ("behind one that holds the lane", nothing, claim_nothing),
        *[(shape, nothing, look_around) for shape in SHAPES],
        *[(shape, append, route) for shape in SHAPES],
        ("in one lane", nothing, claim_within_limits),
        ("in lanes of their own", nothing, claim_within_limits),
        ("in no lane", nothing, claim_within_limits),
        ("in one lane", claim, claim_nothing),
        ("in one lane", claim, claim_after_a_death),
        ("in one lane", claim, release_leases),
        ("in one lane", claim, settle),
        ("in lanes of their own", claim, settle),
        ("in no lane", claim, settle),
        ("behind held ones", claim, settle),
        ("behind done ones", claim, settle),
        ("in one lane", nothing, bury),
        ("in lanes of their own", nothing, bury),
        ("behind one that holds the lane", nothing, bury),
        ("behind one that holds the lane", nothing, retry),
        ("behind held ones", nothing, release),
    ],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
async def test_a_call_takes_no_more_steps_beside_many_items(
    filled: Callable[[str, int], Path], tmp_path: Path, shape: str, before: Call, call: Call
) -> None:
    """Two items are enough for every case: one that is over, and the next one behind it."""
    few = await steps(filled(shape, 2), tmp_path, before, call)
    many = await steps(filled(shape, MANY), tmp_path, before, call)

    assert many <= few * FACTOR


async def test_a_scan_of_all_items_would_show(filled: Callable[[str, int], Path], tmp_path: Path) -> None:
    """A count of all items takes at least one step for each of them."""

    async def look_at_all(worker: CountedWorker) -> None:
        await worker.queue.database.call(
            lambda connection: connection.execute("SELECT count(*) FROM work_items WHERE note IS NULL").fetchone()
        )

    assert await steps(filled("in one lane", MANY), tmp_path, nothing, look_at_all) > MANY


async def test_skipping_is_done_a_part_at_a_time(filled: Callable[[str, int], Path], tmp_path: Path) -> None:
    """Acks wait for the write lock, so a claim skips a limited number and leaves the others for the next one."""

    async def disable(worker: CountedWorker) -> None:
        await worker.controls.switch(ONE, HandlerSwitch.DISABLED)

    some = await steps(filled("in one lane", 5_000), tmp_path, disable, claim_nothing)
    many = await steps(filled("in one lane", MANY), tmp_path, disable, claim_nothing)

    assert many <= some * FACTOR


async def test_a_lane_that_was_skipped_in_part_goes_on(filled: Callable[[str, int], Path], tmp_path: Path) -> None:
    """The handler is switched on before all items were skipped. The others have their head and keep their order."""
    copy = tmp_path / "receiver.db"
    shutil.copy(filled("in one lane", 5_000), copy)
    async with open_all(SqliteStore(f"sqlite:///{copy}")) as opened:
        await opened.controls.switch(ONE, HandlerSwitch.DISABLED)
        for skipped in (1_000, 2_000):
            assert await opened.next_due(ONE, now=SECOND) == SECOND
            assert await opened.claim(now=SECOND) == []
            assert len(await opened.work(state=SKIPPED)) == skipped
            await opened.check_lanes()

        await opened.controls.switch(ONE, HandlerSwitch.ON)
        order = []
        for _ in range(5):
            (item,) = await opened.claim(now=SECOND)
            order.append(item.id)
            assert await opened.settle(ended(item.id)) == [True]

        left = [one.id for one in reversed(await opened.work(state=QUEUED))]
        assert order == sorted(order)
        assert order[-1] < left[0]
        assert len(left) == 5_000 - 2_000 - len(order) - 1
