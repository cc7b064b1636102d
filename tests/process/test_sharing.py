"""Several workers on one database: what each does, and what the others do when one has to stop."""

import asyncio
import os
import random
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.process.fleet import BEGIN, deliver, fleet, page, recorded
from tests.process.harness import Deployment, Load, meanwhile, until

LONG_LEASE = "600"
"""Longer than any test waits: what goes on before its end was given back, or named as dead, and not just lost."""

SHARED = f"""{BEGIN}
@router.on("*")
async def shared(event: Event, ctx: Context) -> None:
    record_run(ctx)
    while not Path("shared").exists():
        await asyncio.sleep(0.01)

@router.on("*")
def plain(event: Event, ctx: Context) -> None:
    with open("plain", "a") as out:
        out.write(ctx.delivery.id + "\\n")
"""

WAITING = f"""{BEGIN}
@router.on("*")
async def wait(event: Event, ctx: Context) -> None:
    record_run(ctx)
    while blocked():
        await asyncio.sleep(0.01)
    os.write(ended, f"{{ctx.delivery.id}}\\n".encode())

ended = os.open("ended", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
"""


POLICIES = f"""{BEGIN}
def note():
    with open("policies", "a") as out:
        out.write(f"{{os.sched_getscheduler(0)}}\\n")

@router.on("*")
async def on_loop(event: Event) -> None:
    note()

@router.on("*")
def in_thread(event: Event) -> None:
    note()
"""


async def test_four_workers_share_work_items_and_handle_each_once(tmp_path: Path) -> None:
    """When nothing dies there is one attempt of each, for async and plain handlers, and every worker gets some.

    No async run ends before each worker has started one, however slow its start was.
    """
    deployment = Deployment(tmp_path, lease=LONG_LEASE, concurrency="4", threads="2")
    deployment.write_handlers(SHARED)
    load = Load(random.Random(1))
    async with deployment.serve("--no-worker") as serving, fleet(deployment) as workers:
        await workers.start(4)
        await load.send(serving.port, 500)
        pids = {worker.pid for worker in workers.workers}
        await until(lambda: {run.pid for run in workers.runs()} == pids, "each worker to start a run")
        (tmp_path / "shared").touch()
        await deployment.all_handled()

        runs = workers.runs()
        assert Counter(run.key for run in runs) == Counter(load.acknowledged.keys())
        assert Counter((tmp_path / "plain").read_text().split()) == Counter(load.acknowledged.keys())
        assert [attempts for _, _, attempts in deployment.work()] == [1] * 1_000
        assert {(one.number, one.outcome) for one in recorded(deployment)} == {(1, "succeeded")}
        for worker in list(workers.workers):
            await workers.stop(worker)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has policies of scheduling")
async def test_handlers_leave_the_processors_to_the_endpoint(tmp_path: Path) -> None:
    """A worker is a batch program to the system, with its threads. The endpoint is none."""
    deployment = Deployment(tmp_path)
    deployment.write_handlers(POLICIES)
    async with deployment.serve() as serving:
        await deliver(serving.port, [page("job", 1)])
        await deployment.all_handled()

        assert os.sched_getscheduler(serving.pid) == os.SCHED_OTHER
    assert (tmp_path / "policies").read_text().split() == [str(os.SCHED_BATCH)] * 2


@pytest.mark.parametrize("finishes", [True, False], ids=["finishes", "does not finish"])
async def test_another_worker_takes_unfinished_work_of_a_stopping_worker_at_once(
    tmp_path: Path, finishes: bool
) -> None:
    """What runs may finish within the grace time; all else goes on elsewhere, with no attempt counted.

    The leases are longer than the test, so the other worker does not wait for their end.
    """
    deployment = Deployment(tmp_path, lease=LONG_LEASE, grace="20" if finishes else "0.5", concurrency="2")
    deployment.write_handlers(WAITING)
    pages = [page("job", number) for number in range(10)]
    async with deployment.serve("--no-worker") as serving, fleet(deployment) as workers:
        [first] = await workers.start()
        workers.block(first)
        await deliver(serving.port, pages)
        await workers.ran(2)
        [second] = await workers.start()

        stopping = asyncio.create_task(workers.stop(first))
        await first.line("worker_finishing")
        if finishes:
            await until(lambda: len(workers.runs()) == 10, "the other worker to do what had not started")
            workers.release(first)
        await stopping
        await deployment.all_handled()

        assert sorted((tmp_path / "ended").read_text().split()) == [f"job-{number}" for number in range(10)]
        assert {(one.number, one.outcome) for one in recorded(deployment)} == {(1, "succeeded")}
        by_worker = Counter(run.pid for run in workers.runs())
        assert by_worker == {first.pid: 2, second.pid: 8 if finishes else 10}


async def test_workers_replaced_one_by_one_under_load_count_no_attempt_twice(tmp_path: Path) -> None:
    """As in a rolling deployment: nothing is lost, and no attempt is recorded but the one that succeeded."""
    deployment = Deployment(tmp_path, lease=LONG_LEASE, grace="0.5", concurrency="4")
    deployment.write_handlers(SHARED)
    (tmp_path / "shared").touch()
    load = Load(random.Random(1))
    async with deployment.serve("--no-worker") as serving, fleet(deployment) as workers:
        await workers.start(3)

        async def replace() -> None:
            for _ in range(3):
                await workers.ran(len(workers.runs()) + 50)
                await asyncio.gather(workers.stop(workers.workers[0]), workers.start())

        await meanwhile(asyncio.create_task(load.run(serving.port)), replace)
        await load.send_again(serving.port)
        await deployment.all_handled()
        assert {run.key for run in workers.runs()} == load.acknowledged.keys()
        assert {(one.number, one.outcome) for one in recorded(deployment)} == {(1, "succeeded")}
