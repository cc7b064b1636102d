"""Real workers whose handlers share resources and run in processes: started, refused, stopped, killed."""

import os
import signal
from pathlib import Path

import pytest

from tests.doubles import body_of
from tests.process.harness import Deployment, post, until

BEGIN = """
import os, subprocess, sys, time
from collections.abc import AsyncIterator
from pathlib import Path
from receiver import Router

router = Router()

class Pool:
    pass

"""
MISSING = BEGIN + '@router.on("*")\nasync def save(event, pool: Pool): ...\n'
BROKEN = (
    MISSING
    + """
@router.resource
async def make_pool() -> AsyncIterator[Pool]:
    raise ConnectionRefusedError("nobody listens")
    yield Pool()
"""
)
COMPUTING = (
    BEGIN
    + """
@router.on("*", run_in="process")
def compute(event):
    helper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
    Path("started").write_text(f"{os.getpid()} {helper.pid}")
    while not Path("go").exists():
        time.sleep(0.01)
    helper.kill()
    helper.wait()
    Path("computed").touch()
"""
)


def running(folder: Path) -> list[int]:
    """Return the processes that have started and still run: the one of the function, and what it has started."""
    started = folder / "started"
    pids = started.read_text().split() if started.exists() else []
    return [int(pid) for pid in pids if _state(pid) not in "ZX"]


def _state(pid: str) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "X"


@pytest.mark.parametrize(
    ("handlers", "command", "words"),
    [
        (MISSING, "check", "handlers.save wants Pool as 'pool', and no resource gives one"),
        (MISSING, "work", "handlers.save wants Pool as 'pool', and no resource gives one"),
        (
            BROKEN,
            "work",
            "the resource handlers.make_pool could not be made: ConnectionRefusedError: nobody listens",
        ),
    ],
    ids=["check", "missing", "broken"],
)
def test_handlers_without_their_resource_are_refused_before_they_run(
    tmp_path: Path, handlers: str, command: str, words: str
) -> None:
    """In one line that says what to do, with the exit code of a wrong use."""
    deployment = Deployment(tmp_path)
    deployment.write_handlers(handlers)
    done = deployment.run(command)

    assert done.code == 2
    assert words in done.text
    assert ("resource_not_made" in done.text) == (handlers is BROKEN)


async def test_a_process_finishes_its_work_when_the_worker_is_stopped(tmp_path: Path) -> None:
    """Even when whoever stops the worker signals all of its processes."""
    deployment = Deployment(tmp_path, grace="60")
    deployment.write_handlers(COMPUTING)
    async with deployment.serve() as serving:
        await post(serving.port, body_of(id="j", webhookId="k"))
        await until(
            lambda: len(running(tmp_path)) == 2, "the function to start"
        )  # the file may be there, and empty
        (function, *_) = running(tmp_path)
        for pid in (function, await serving.worker()):
            os.kill(pid, signal.SIGTERM)
        await serving.line("worker_finishing")
        (tmp_path / "go").touch()
        await until((tmp_path / "computed").exists, "the function to end")
        await until(lambda: deployment.unfinished() == 0, "its result to be recorded")

    assert running(tmp_path) == []


async def test_a_killed_worker_leaves_no_process_behind(tmp_path: Path) -> None:
    """Neither the one that computes, nor what it has started. The work runs again."""
    deployment = Deployment(tmp_path)
    deployment.write_handlers(COMPUTING)
    async with deployment.serve() as serving:
        await post(serving.port, body_of(id="j", webhookId="k"))
        await until(
            lambda: len(running(tmp_path)) == 2, "the function to start"
        )  # the file may be there, and empty
        started = running(tmp_path)
        os.kill(await serving.worker(), signal.SIGKILL)
        await until(lambda: not set(started) & set(running(tmp_path)), "its processes to end")

        (tmp_path / "go").touch()
        await until(lambda: deployment.unfinished() == 0, "the work to be done again")
