"""An event whose handler kills its process: set aside after two deaths, and everything beside it is done."""

import asyncio
import itertools
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest

from tests.process.fleet import BEGIN, Fleet, check_recorded, deliver, fleet, page, recorded
from tests.process.harness import POISON, Deployment, Program, meanwhile, until

CRASH = """
def crash_at(event):
    if event.type == "crawl.failed" and not Path("fixed").exists():
        os.kill(os.getpid(), signal.SIGKILL)

"""
ASYNC = f"""{BEGIN}{CRASH}
@router.on("*")
async def work(event: Event, ctx: Context) -> None:
    record_run(ctx)
    crash_at(event)
    await asyncio.sleep(0.05)
"""
PLAIN = f"""{BEGIN}{CRASH}
@router.on("*")
def work(event: Event, ctx: Context) -> None:
    record_run(ctx)
    crash_at(event)
    time.sleep(0.05)
"""
IN_BATCHES = f"""{BEGIN}{CRASH}
from datetime import timedelta
from receiver import BatchContext

@router.on("*", batch=10, linger=timedelta(seconds=0.2))
async def work(events: list[Event], ctx: BatchContext) -> None:
    for event, delivery in zip(events, ctx.deliveries):
        os.write(runs, f"{{delivery.id}} {{ctx.attempt}} {{os.getpid()}}\\n".encode())
        crash_at(event)
    await asyncio.sleep(0.05)
"""
BAD = page("bad", 0, "crawl.failed")


IN_A_LANE = f"""{BEGIN}{CRASH}
@router.on("*", ordered=True)
async def work(event: Event, ctx: Context) -> None:
    record_run(ctx)
    crash_at(event)
"""


BATCHES_BESIDE = """
@router.on("crawl.started", batch=3)
async def together(events: list[Event]) -> None: ...
"""


def is_dead(deployment: Deployment) -> bool:
    """Tell whether the poisonous work item is dead."""
    sql = "SELECT w.state FROM work_items AS w JOIN deliveries AS d ON d.seq = w.delivery_seq WHERE d.key = 'bad-0'"
    return deployment.rows(sql) == [("dead",)]


def dead_or_died(deployment: Deployment, workers: Sequence[Program]) -> bool:
    """Tell whether the poisonous work item is dead, or one of the workers."""
    return is_dead(deployment) or any(worker.has_ended() for worker in workers)


async def dead_in_the_end(deployment: Deployment, workers: Fleet) -> None:
    """Start another worker for each one that dies, until the poisonous work item is dead."""
    while not is_dead(deployment):
        await until(partial(dead_or_died, deployment, workers.workers), deployment.standing)
        for worker in [worker for worker in workers.workers if worker.has_ended()]:
            workers.workers.remove(worker)
            await workers.start(at_work=False)


def check_reason(deployment: Deployment, *, most_deaths: int) -> None:
    """Check what is recorded of the poisonous work item: its lost attempts, and why it is not tried again."""
    *lost, last = [one for one in recorded(deployment) if one.key == "bad-0"]
    assert {one.outcome for one in lost} == {"lost"}
    assert 2 <= len(lost) <= most_deaths
    assert last.outcome == "failed"
    assert last.error == f"not run again: 2 {POISON}"


@pytest.mark.parametrize(
    "handlers",
    [pytest.param(ASYNC, id="async"), pytest.param(PLAIN, id="plain"), pytest.param(IN_BATCHES, id="batch")],
)
async def test_poison_in_an_idle_system_is_dead_after_two_deaths(tmp_path: Path, handlers: str) -> None:
    """What runs at once is known to have started, and so is what runs in a batch.

    Each worker takes over from the one that died, as under a supervisor.
    """
    deployment = Deployment(tmp_path, lease="600")
    deployment.write_handlers(handlers)
    async with deployment.serve("--no-worker") as serving, fleet(deployment) as workers:
        await deliver(serving.port, [BAD])
        deaths = 0
        flags: list[str] = []
        while not is_dead(deployment):
            [worker] = await workers.start(1, *flags, at_work=False)
            await until(partial(dead_or_died, deployment, [worker]), deployment.standing)
            deaths += worker.has_ended()
            flags = ["--takes-over", workers.name(worker)]
        assert len(workers.runs()) == deaths
        assert deaths == 2
        check_reason(deployment, most_deaths=2)
        await worker.line("DEAD", POISON)

        await deliver(serving.port, [page("good", 0)])
        await until(lambda: deployment.unfinished() == 0, deployment.standing)
        await workers.stop(worker)


@pytest.mark.parametrize(
    "handlers", [pytest.param(IN_A_LANE, id="alone"), pytest.param(IN_A_LANE + BATCHES_BESIDE, id="beside batches")]
)
async def test_poison_in_a_lane_is_dead_and_one_attempt_beside_it_is_lost(tmp_path: Path, handlers: str) -> None:
    """When it runs first, the store does not know that yet, and the head of its lane loses its attempt.

    The head had ended well, and does so again. From then on each death counts for the one that ran.
    """
    deployment = Deployment(tmp_path, lease="600")
    deployment.write_handlers(handlers)
    async with deployment.serve("--no-worker") as serving, fleet(deployment) as workers:
        await deliver(serving.port, [*[page("bad", number) for number in range(-3, 0)], BAD, page("bad", 1)])
        [worker] = await workers.start(at_work=False)
        while not is_dead(deployment):
            await until(partial(dead_or_died, deployment, [worker]), deployment.standing)
            if worker.has_ended():
                [worker] = await workers.start(1, "--takes-over", workers.name(worker), at_work=False)
        await until(lambda: deployment.unfinished() == 0, deployment.standing)

        check_reason(deployment, most_deaths=2)
        assert deployment.rows("SELECT state, lost, deaths FROM work_items WHERE state <> 'done'") == [
            ("dead", 2, 2)
        ]
        assert deployment.rows("SELECT sum(lost) FROM work_items WHERE state = 'done'") == [(1,)]


@pytest.mark.parametrize(
    ("handlers", "good"),
    [
        pytest.param(ASYNC, 100, id="async"),
        pytest.param(PLAIN, 20, id="plain"),
        pytest.param(IN_BATCHES, 20, id="batch"),
    ],
)
async def test_poison_takes_no_good_one_with_it(tmp_path: Path, handlers: str, good: int) -> None:
    """What ran beside it is suspected too, runs alone, and is done; the poisonous one is dead.

    Others arrive all the while. A hundred suspects one after the other take longer than a lease.
    """
    deployment = Deployment(tmp_path, lease="3")
    deployment.write_handlers(handlers)
    pages = [page("good", number) for number in range(good)]
    async with deployment.serve("--no-worker") as serving, fleet(deployment) as workers:
        await deliver(serving.port, [*pages[: good // 2], BAD, *pages[good // 2 :]])
        await workers.start(2, at_work=False)

        async def others() -> None:
            for number in itertools.count():
                await deliver(serving.port, [page("other", number)])
                await asyncio.sleep(0.02)

        sending = asyncio.create_task(others())
        await meanwhile(sending, lambda: dead_in_the_end(deployment, workers))
        await until(lambda: deployment.unfinished() == 0, deployment.standing)

        check_reason(deployment, most_deaths=4)
        dead = deployment.rows("SELECT id, deaths, lost FROM work_items WHERE state <> 'done'")
        assert len(dead) == 1, dead

        (tmp_path / "fixed").touch()
        assert await deployment.all_handled_in_the_end() == 1
        check_recorded(deployment, workers.runs())
