"""A `where` or `lane` that ends the process: set aside like a poisonous work item."""

import signal
from pathlib import Path

import pytest

from tests.process.fleet import deliver, fleet, page
from tests.process.harness import Deployment, until

BEGIN = """
import os
from receiver import Router

router = Router()

def misbehave(event):
    if event.type == "crawl.failed":
        {what}
    return event.job_id

@router.on("*")
async def other(event):
    pass
"""
WHERE = """
@router.on("*", where=misbehave)
async def choosy(event):
    pass
"""
LANE = """
@router.on("*", lane=misbehave)
async def in_order(event):
    pass
"""
EXIT = "os._exit(7)"
CRASH = "import ctypes; ctypes.string_at(0)"
BAD = page("bad", 0, "crawl.failed")
GOOD = [page("good", number) for number in range(20)]
STATES = """
SELECT d.key, w.handler, w.state, w.last_error FROM work_items AS w JOIN deliveries AS d ON d.seq = w.delivery_seq
WHERE w.state <> 'done'
"""


def check(deployment: Deployment, handler: str, ending: str) -> None:
    """Check that only the one work item is dead, with the reason, and that all others are done."""
    [(key, name, state, error)] = deployment.rows(STATES)
    assert (key, name, state) == ("bad-0", f"handlers.{handler}", "dead")
    assert error == f"not run: the handler's `where` or `lane` was asked, and {ending}"
    assert deployment.rows("SELECT count(*) FROM work_items") == [(42,)]


@pytest.mark.parametrize(
    ("handlers", "handler", "ending"),
    [
        pytest.param(
            BEGIN.format(what=EXIT) + WHERE, "choosy", "the process that ran it ended with exit code 7", id="where"
        ),
        pytest.param(
            BEGIN.format(what=EXIT) + LANE, "in_order", "the process that ran it ended with exit code 7", id="lane"
        ),
        pytest.param(
            BEGIN.format(what=CRASH) + WHERE, "choosy", "the process that ran it was killed by SIGSEGV", id="crash"
        ),
    ],
)
async def test_what_ends_the_worker_at_routing_is_set_aside(
    tmp_path: Path, handlers: str, handler: str, ending: str
) -> None:
    """At most one worker dies of it. The other handler gets the event, and the good ones behind it are routed."""
    deployment = Deployment(tmp_path)
    deployment.write_handlers(handlers)
    async with deployment.serve() as serving:
        await deliver(serving.port, [*GOOD[:10], BAD, *GOOD[10:]])
        await until(lambda: deployment.unfinished() == 0, deployment.standing)

        assert serving.output.count("worker_ended") <= 1
    check(deployment, handler, ending)


async def test_a_worker_without_a_supervisor_does_not_die_at_routing(tmp_path: Path) -> None:
    """Nobody tells it whether another has died before, so it is careful with what it finds."""
    deployment = Deployment(tmp_path)
    deployment.write_handlers(BEGIN.format(what=EXIT) + WHERE)
    async with deployment.serve("--no-worker") as serving, fleet(deployment) as workers:
        await deliver(serving.port, [*GOOD[:10], BAD, *GOOD[10:]])
        [worker] = await workers.start(1, at_work=False)
        await until(lambda: deployment.unfinished() == 0, deployment.standing)

        assert not worker.has_ended()
        await workers.stop(worker)
    check(deployment, "choosy", "the process that ran it ended with exit code 7")


IMPATIENT = """
from datetime import timedelta
from receiver.worker import trial

trial.LIMIT = timedelta(seconds=3)
trial.MAX_CHECKS = 3
from receiver.cli.main import main

main()
"""
"""A program like `receiver` in which a question may take three seconds."""


async def test_a_question_without_an_answer_is_set_aside(tmp_path: Path) -> None:
    """The worker starts again by itself, and tries the event in another process before it routes it."""
    deployment = Deployment(tmp_path)
    deployment.write_handlers(BEGIN.format(what="import time; time.sleep(3600)") + WHERE)
    program = tmp_path / "impatient.py"
    program.write_text(IMPATIENT)
    tried = [page("tried", number) for number in range(300)]  # a worker tries as many as it may claim anyway
    async with deployment.serve("--no-worker") as serving:
        await deliver(serving.port, tried)
        async with deployment.start("work", launcher=(str(program),)) as worker:
            await until(lambda: deployment.unfinished() == 0, deployment.standing)
            await deliver(serving.port, [*GOOD[:10], BAD, *GOOD[10:]])
            await worker.line("routing_blocked", "handlers.choosy", "bad-0")
            await until(lambda: deployment.unfinished() == 0, deployment.standing)

            await worker.line("worker_started", "handlers=", times=2)
            assert not worker.has_ended()
            worker.send_signal(signal.SIGTERM)
            assert await worker.exit_code() == 0
    [(key, handler, state, error)] = deployment.rows(STATES)
    assert (key, handler, state) == ("bad-0", "handlers.choosy", "dead")
    assert error == "not run: the handler's `where` or `lane` was asked, and it took longer than 3 s"
