"""Workers killed in mid-run: nothing is forgotten, no success comes twice, lanes keep their order."""

import asyncio
import random
import secrets
from pathlib import Path

from tests.process.fleet import BEGIN, Fleet, check_order, check_recorded, deliver, fleet, page, recorded
from tests.process.harness import Deployment, Load, kill, meanwhile, until

LONG_LEASE = "600"
"""Longer than any test waits: on a machine that stalls, no living worker loses a lease."""

BLOCKABLE = f"""{BEGIN}
@router.on("*")
async def wait(event: Event, ctx: Context) -> None:
    record_run(ctx)
    while blocked():
        await asyncio.sleep(0.01)
"""

IN_LANES = f"""{BEGIN}
@contextmanager
def alone(job):
    lock = os.open(f"lock-{{job}}", os.O_RDONLY | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # it goes with its process
        yield
    finally:
        os.close(lock)

@router.on("*", ordered=True, on_dead="hold", attempts=1)
async def in_order(event: Event, ctx: Context) -> None:
    with alone(ctx.job_id), open(f"order-{{ctx.job_id}}", "a") as order:
        record_run(ctx)
        while blocked():
            await asyncio.sleep(0.01)
        order.write(ctx.delivery.id.rpartition("-")[2] + "\\n")
"""
"""A handler that fails for good if another one of its lane runs beside it."""


async def kill_in_mid_run(workers: Fleet, rng: random.Random, kills: int) -> None:
    """Kill workers, each while it runs handlers; another one takes over, as under a supervisor."""
    for _ in range(kills):
        worker = rng.choice(workers.workers)
        workers.block(worker)
        await workers.runs_more(worker)  # what begins after `block` runs until the kill
        await workers.kill(worker)
        await workers.start(1, "--takes-over", workers.name(worker))


async def test_the_work_of_a_killed_worker_is_taken_over_at_once(tmp_path: Path) -> None:
    """Long before its lease ends, and though nobody names the dead worker: its lock is gone."""
    deployment = Deployment(tmp_path, lease=LONG_LEASE)
    deployment.write_handlers(BLOCKABLE)
    async with deployment.serve("--no-worker") as serving, fleet(deployment) as workers:
        [dying] = await workers.start()
        workers.block(dying)
        await deliver(serving.port, [page("job", 0)])
        await workers.ran(1)
        [living] = await workers.start()
        await workers.kill(dying)
        await deliver(serving.port, [page("job", 1)])  # otherwise an idle worker looks once in a lease

        await deployment.all_handled()
        await living.line("workers_died", workers.name(dying))
        check_recorded(deployment, workers.runs())
        assert sorted((run.key, run.pid) for run in workers.runs()) == sorted(
            [("job-0", dying.pid), ("job-0", living.pid), ("job-1", living.pid)]
        )


async def test_check_tells_at_once_that_a_worker_was_killed(tmp_path: Path) -> None:
    """Its last sign is some seconds old, but its lock is gone."""
    deployment = Deployment(tmp_path, lease=LONG_LEASE)
    deployment.write_handlers(BLOCKABLE)
    async with fleet(deployment) as workers:
        dying, living = await workers.start(2)
        name = workers.name(dying)
        await until(lambda: b"2 run: " in deployment.run("check").stdout, "the first signs of both workers")

        await workers.kill(dying)

        told = deployment.run("check").stdout.decode()
        assert "1 runs: " in told
        assert f"{name} was last seen " in told
        assert "ago: it was killed\n" in told
        await workers.stop(living)


async def test_nothing_is_forgotten_or_done_twice_when_workers_are_killed_again_and_again(tmp_path: Path) -> None:
    """While deliveries flow. In the end each has one recorded success, which is the last of its attempts.

    Attempts are numbered without gaps and none ran twice. What was set aside because two workers were killed
    under it is done when it is retried.
    """
    seed = secrets.randbits(32)
    print(f"seed {seed}")  # noqa: T201 - shown on failure
    rng = random.Random(seed)
    deployment = Deployment(tmp_path, lease=LONG_LEASE, concurrency="8")
    deployment.write_handlers(BLOCKABLE)
    load = Load(random.Random(seed))
    async with deployment.serve("--no-worker") as serving, fleet(deployment) as workers:
        await workers.start(3)
        sending = asyncio.create_task(load.run(serving.port, connections=3))

        await meanwhile(sending, lambda: kill_in_mid_run(workers, rng, 5))
        await load.send_again(serving.port)
        await deployment.all_handled_in_the_end()

        check_recorded(deployment, workers.runs())
        assert any(one.outcome == "lost" for one in recorded(deployment))
        assert {run.key for run in workers.runs()} == load.acknowledged.keys()
    assert deployment.intact()


async def test_lanes_keep_their_order_over_three_workers_that_are_killed(tmp_path: Path) -> None:
    """For each job the pages are handled one after the other, as they arrived; a repeated one before the next.

    One that is set aside holds its lane until it is retried.
    """
    seed = secrets.randbits(32)
    print(f"seed {seed}")  # noqa: T201 - shown on failure
    rng = random.Random(seed)
    deployment = Deployment(tmp_path, lease=LONG_LEASE, concurrency="8")
    deployment.write_handlers(IN_LANES)
    jobs = [f"job{number}" for number in range(9)]
    async with deployment.serve("--no-worker") as serving, fleet(deployment) as workers:
        await workers.start(3)

        sent = dict.fromkeys(jobs, 0)
        enough = asyncio.Event()

        async def send(some: list[str]) -> None:
            while not enough.is_set():
                await deliver(serving.port, [page(job, sent[job]) for job in some])
                for job in some:
                    sent[job] += 1

        async with asyncio.TaskGroup() as sending:
            for n in range(3):
                sending.create_task(send(jobs[n::3]))
            await kill_in_mid_run(workers, rng, 4)
            enough.set()
        await deployment.all_handled_in_the_end()

        check_recorded(deployment, workers.runs())
        check_order(deployment)
        for job in jobs:
            order = [int(number) for number in (tmp_path / f"order-{job}").read_text().split()]
            assert sorted(set(order)) == list(range(sent[job]))
            assert order == sorted(order)


async def test_the_work_of_a_killed_worker_is_done_when_its_leases_end(tmp_path: Path) -> None:
    """No supervisor names it as dead; another worker waits for that long, and then does it."""
    deployment = Deployment(tmp_path, lease="2", concurrency="2")
    deployment.write_handlers(BLOCKABLE)
    async with deployment.serve("--no-worker") as serving, fleet(deployment) as workers:
        [first] = await workers.start()
        workers.block(first)
        await deliver(serving.port, [page("job", number) for number in range(6)])
        await workers.ran(2)
        await until(lambda: len(deployment.work()) == 6, "all of it to be claimed")
        await workers.kill(first)
        leases = dict(deployment.rows("SELECT id, lease_until FROM work_items WHERE state = 'running'"))
        assert len(leases) == 6

        await workers.start()
        await deployment.all_handled()

        check_recorded(deployment, workers.runs())
        lost = {one.work_id: one.ended_at for one in recorded(deployment) if one.outcome == "lost"}
        assert lost.keys() == leases.keys()
        assert all(lost[work_id] >= leases[work_id] for work_id in leases)


async def test_a_supervisor_names_its_dead_worker_so_that_nobody_waits_for_the_lease(tmp_path: Path) -> None:
    """The lease is longer than this test; the next worker goes on at once."""
    deployment = Deployment(tmp_path, lease=LONG_LEASE, concurrency="2")
    deployment.write_handlers(BLOCKABLE)
    async with deployment.serve() as serving, fleet(deployment) as workers:
        worker = await serving.worker()
        (tmp_path / f"blocked-{worker}").touch()
        await deliver(serving.port, [page("job", number) for number in range(6)])
        await workers.ran(2)
        kill(worker)
        await deployment.all_handled()
        check_recorded(deployment, workers.runs())
