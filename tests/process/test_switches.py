"""Pausing, resuming and disabling a handler while workers run, for all of them and across their restarts."""

from collections import Counter
from pathlib import Path

from tests.process.fleet import BEGIN, Fleet, check_recorded, deliver, fleet, page, recorded
from tests.process.harness import Deployment, until

TWO_HANDLERS = f"""{BEGIN}
others = os.open("others", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

@router.on("*", name="switched")
async def switched(event: Event, ctx: Context) -> None:
    record_run(ctx)

@router.on("*", name="other")
async def other(event: Event, ctx: Context) -> None:
    os.write(others, b".")
"""


def command(deployment: Deployment, *arguments: str) -> None:
    """Run a command, which must succeed."""
    done = deployment.run(*arguments)
    assert done.code == 0, done.text


async def the_other_has_done(deployment: Deployment, count: int) -> None:
    """Return when the other handler has handled so many deliveries: by then the switched one was asked too."""
    await until(lambda: len((deployment.folder / "others").read_bytes()) >= count, deployment.standing)


async def replaced(workers: Fleet) -> None:
    """Stop every worker, and start as many others."""
    count = len(workers.workers)
    for worker in list(workers.workers):
        await workers.stop(worker)
    await workers.start(count)


def states(deployment: Deployment) -> Counter[tuple[str, str]]:
    """Return how many work items of each handler are in which state."""
    return Counter((handler, state) for handler, state, _ in deployment.work())


async def test_a_paused_handler_waits_in_all_workers_and_across_restarts_and_drains_on_resume(
    tmp_path: Path,
) -> None:
    """Nothing of it runs meanwhile, the other handler goes on, and in the end each delivery was handled once."""
    deployment = Deployment(tmp_path, lease="600")
    deployment.write_handlers(TWO_HANDLERS)
    async with deployment.serve("--no-worker") as serving, fleet(deployment) as workers:
        await workers.start(2)
        await deliver(serving.port, [page("before", number) for number in range(20)])
        await deployment.all_handled()

        command(deployment, "handlers", "pause", "switched")
        await deliver(serving.port, [page("paused", number) for number in range(40)])
        await the_other_has_done(deployment, 60)
        await replaced(workers)
        await deliver(serving.port, [page("restarted", number) for number in range(40)])
        await the_other_has_done(deployment, 100)
        assert len(workers.runs()) == 20
        assert states(deployment)["switched", "waiting"] == 80

        command(deployment, "handlers", "resume", "switched")
        await deployment.all_handled()
        assert len(workers.runs()) == 100
        assert {(one.number, one.outcome) for one in recorded(deployment)} == {(1, "succeeded")}


async def test_deliveries_for_a_disabled_handler_are_recorded_as_skipped(tmp_path: Path) -> None:
    """So is what was waiting. After a resume only what is new runs, until somebody retries what was skipped."""
    deployment = Deployment(tmp_path, lease="600")
    deployment.write_handlers(TWO_HANDLERS)
    async with deployment.serve("--no-worker") as serving, fleet(deployment) as workers:
        await workers.start(2)
        command(deployment, "handlers", "pause", "switched")
        await deliver(serving.port, [page("waiting", number) for number in range(50)])
        await the_other_has_done(deployment, 50)

        command(deployment, "handlers", "disable", "switched", "--yes")
        await deliver(serving.port, [page("disabled", number) for number in range(50)])
        await the_other_has_done(deployment, 100)
        await until(lambda: states(deployment)["switched", "skipped"] == 100, deployment.standing)
        await replaced(workers)
        await deliver(serving.port, [page("restarted", 0)])
        await deployment.all_handled()
        assert states(deployment) == {("switched", "skipped"): 101, ("other", "done"): 101}

        command(deployment, "handlers", "resume", "switched")
        await deliver(serving.port, [page("resumed", 0)])
        await deployment.all_handled()
        assert [run.key for run in workers.runs()] == ["resumed-0"]

        command(deployment, "work-items", "retry", "--state", "skipped", "--yes")
        await deployment.all_handled()
        assert len({run.key for run in workers.runs()}) == len(workers.runs()) == 102
        check_recorded(deployment, workers.runs())
