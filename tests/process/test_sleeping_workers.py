"""A worker that is stopped for longer than its lease, as by a laptop's lid: it wakes up and disturbs nobody."""

import signal
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from receiver.core.clock import SystemClock, to_micros
from tests.process.fleet import BEGIN, Fleet, check_order, check_recorded, deliver, fleet, page, recorded
from tests.process.harness import Deployment, Program, until
from tests.process.programs import stand_still

LATE_LEASE, LONG_LEASE = "2", "600"
"""That of the worker that sleeps; and one that no living worker loses, on a machine that stalls either."""

ASYNC = f"""{BEGIN}
@router.on("*")
async def wait(event: Event, ctx: Context) -> None:
    record_run(ctx)
    while blocked():
        await asyncio.sleep(0.01)
"""
PLAIN = f"""{BEGIN}
@router.on("*")
def wait(event: Event, ctx: Context) -> None:
    record_run(ctx)
    while blocked():
        time.sleep(0.01)
"""
FAILING = f"""{BEGIN}
@router.on("*")
async def wait(event: Event, ctx: Context) -> None:
    record_run(ctx)
    late = blocked()
    while blocked():
        await asyncio.sleep(0.01)
    if late:
        raise RuntimeError("too late")
"""
IN_LANES = ASYNC.replace('on("*")', 'on("*", ordered=True)')
IN_BATCHES = f"""{BEGIN}
from datetime import timedelta
from receiver import BatchContext

@router.on("*", batch=4, linger=timedelta(seconds=2), concurrency=1)
async def wait(events: list[Event], ctx: BatchContext) -> None:
    for delivery in ctx.deliveries:
        os.write(runs, f"{{delivery.id}} {{ctx.attempt}} {{os.getpid()}}\\n".encode())
    while blocked():
        await asyncio.sleep(0.01)
"""


def store(deployment: Deployment) -> list[list[tuple[Any, ...]]]:
    """Return all that is recorded of work."""
    return [deployment.rows(f"SELECT * FROM {table} ORDER BY 1, 2") for table in ("work_items", "attempts")]


def writable(deployment: Deployment) -> bool:
    """Tell whether nobody is in the middle of a transaction."""
    with closing(sqlite3.connect(deployment.database, timeout=0.5)) as connection:
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return False
    return True


async def fall_asleep(deployment: Deployment, worker: Program) -> None:
    """Stop a worker, outside of its transactions, until none of its leases lasts any more."""
    await stand_still(worker.pid)  # a child of this process, so these workers are started cold
    while not writable(deployment):  # SQLite has one writer, and waits for it however long it sleeps
        worker.send_signal(signal.SIGCONT)
        await stand_still(worker.pid)

    def ended() -> bool:
        [(last,)] = deployment.rows("SELECT max(lease_until) FROM work_items WHERE state = 'running'")
        return int(last) < to_micros(SystemClock().steady())

    await until(ended, "the leases of the sleeping worker to end")


async def wakes_up_late(deployment: Deployment, workers: Fleet, late: Program, port: int, *, running: int) -> None:
    """Wake a worker up whose work another one has done; all that it does is to say that it has lost it."""
    before = store(deployment)
    [other] = [worker for worker in workers.workers if worker is not late]
    await workers.stop(other)
    workers.release(late)
    late.send_signal(signal.SIGCONT)
    await late.line("lease_lost", times=running)
    assert store(deployment) == before

    await deliver(port, [page("later", 0)])  # behind everything that it may still have wanted to run
    await deployment.all_handled()
    assert workers.runs()[-1].pid == late.pid
    await workers.stop(late)
    assert [rows[: len(old)] for rows, old in zip(store(deployment), before, strict=True)] == before


@pytest.mark.parametrize(
    "handlers",
    [pytest.param(ASYNC, id="async"), pytest.param(PLAIN, id="plain"), pytest.param(FAILING, id="fails")],
)
async def test_results_of_a_late_worker_do_not_count(tmp_path: Path, handlers: str) -> None:
    """State, attempts and error stay as the new owner has left them, and a warning is logged.

    What had been claimed and not started before the sleep is not run a second time.
    """
    concurrency = "4" if handlers is PLAIN else "2"  # blocking functions leave some places to what cannot block
    deployment = Deployment(tmp_path, lease=LATE_LEASE, concurrency=concurrency, threads="2")
    deployment.cold = True
    deployment.write_handlers(handlers)
    async with deployment.serve("--no-worker") as serving, fleet(deployment) as workers:
        [late] = await workers.start()
        workers.block(late)
        await deliver(serving.port, [page("job", number) for number in range(8)])
        await workers.ran(2)
        await until(lambda: len(deployment.work()) == 8, "all of it to be claimed")
        await fall_asleep(deployment, late)
        deployment.settings["LEASE"] = LONG_LEASE
        await workers.start()
        await deployment.all_handled()
        check_recorded(deployment, workers.runs())
        assert Counter(one.number for one in recorded(deployment)) == {1: 8, 2: 8}

        await wakes_up_late(deployment, workers, late, serving.port, running=2)

        runs = [run for run in workers.runs() if run.key != "later-0"]
        started = {run.key for run in runs if run.pid == late.pid}
        assert len(started) == 2
        assert Counter(run.key for run in runs) == {f"job-{n}": 1 + (f"job-{n}" in started) for n in range(8)}


async def test_a_late_worker_leaves_the_order_of_lanes_as_it_is(tmp_path: Path) -> None:
    """Of one lane it was running the first page; that of the other lane it had claimed only, and does not begin."""
    deployment = Deployment(tmp_path, lease=LATE_LEASE, concurrency="1")
    deployment.cold = True
    deployment.write_handlers(IN_LANES)
    async with deployment.serve("--no-worker") as serving, fleet(deployment) as workers:
        [late] = await workers.start()
        workers.block(late)
        await deliver(serving.port, [page(job, number) for number in range(4) for job in ("a", "b")])
        await workers.ran(1)
        await until(lambda: len(deployment.work()) == 8, "all of it to be claimed or queued")
        await fall_asleep(deployment, late)
        deployment.settings["LEASE"] = LONG_LEASE
        await workers.start()
        await deployment.all_handled()
        check_recorded(deployment, workers.runs())

        await wakes_up_late(deployment, workers, late, serving.port, running=1)

        check_order(deployment)
        for lane in ("a", "b"):
            ran = [run.key for run in workers.runs() if run.key.startswith(lane)]
            assert ran == [*(["a-0"] if lane == "a" else []), *(f"{lane}-{number}" for number in range(4))]


async def test_a_late_worker_runs_no_batch_that_it_had_only_gathered(tmp_path: Path) -> None:
    """Four were running in one call, four waited for it to end; those are run by the other worker alone."""
    deployment = Deployment(tmp_path, lease=LATE_LEASE, concurrency="2")
    deployment.cold = True
    deployment.write_handlers(IN_BATCHES)
    async with deployment.serve("--no-worker") as serving, fleet(deployment) as workers:
        [late] = await workers.start()
        workers.block(late)
        await deliver(serving.port, [page("job", number) for number in range(8)])
        await workers.ran(4)
        await until(lambda: len(deployment.work()) == 8, "all of it to be claimed")
        await fall_asleep(deployment, late)
        deployment.settings["LEASE"] = LONG_LEASE
        await workers.start()
        await deployment.all_handled()
        check_recorded(deployment, workers.runs())

        await wakes_up_late(deployment, workers, late, serving.port, running=4)

        assert Counter(run.pid for run in workers.runs() if run.key != "later-0")[late.pid] == 4
