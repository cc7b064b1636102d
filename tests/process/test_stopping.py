"""Tests of SIGTERM, SIGHUP and Ctrl-C: running handlers may finish, the rest is released, the exit code is 0."""

import asyncio
import random
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.process.faults import WITH_FEW_FILES
from tests.process.harness import HANDLERS, Deployment, Load, Program, connection, get, request, until
from tests.process.waiting import POLL_SECONDS

BEGIN = """
import asyncio, os, time
from pathlib import Path
from receiver import Context, Router

router = Router()

def record_handled(event, ctx):
    with open("handled", "a") as out:
        out.write(ctx.delivery.id + "\\n")

"""
WAITS = """
@router.on("*")
async def record(event, ctx: Context):
    Path("handler_started").touch()
    while not Path("released").exists():
        await asyncio.sleep(0.01)
    record_handled(event, ctx)
"""
STUCK_IN_A_THREAD = """
@router.on("*")
def record(event, ctx: Context):
    Path("handler_started").touch()
    if not Path("released").exists():
        time.sleep(3600)
    record_handled(event, ctx)
"""
REFUSES_TO_END = """
@router.on("*")
async def record(event, ctx: Context):
    Path("handler_started").touch()
    while not Path("released").exists():
        try:
            await asyncio.sleep(0.01)
        except asyncio.CancelledError:
            pass
    record_handled(event, ctx)
"""
BLOCKS = """
@router.on("*")
async def record(event, ctx: Context):
    Path("handler_started").touch()
    while not Path("released").exists():
        time.sleep(0.01)
    record_handled(event, ctx)
"""
UNDER_NOHUP = """
import runpy, signal
signal.signal(signal.SIGHUP, signal.SIG_IGN)
runpy.run_module("receiver", run_name="__main__")
"""

Stop = Callable[[Program], None]


def terminate(program: Program) -> None:
    """Stop the program as a service manager does."""
    program.send_signal(signal.SIGTERM)


def interrupt(program: Program) -> None:
    """Press Ctrl-C in the terminal: every process of the group gets the signal."""
    program.send_signal_to_group(signal.SIGINT)


def hang_up(program: Program) -> None:
    """Close the terminal."""
    program.send_signal(signal.SIGHUP)


by_every_signal = pytest.mark.parametrize("stop", [terminate, interrupt])


def release(deployment: Deployment) -> None:
    """Let the handlers end."""
    (deployment.folder / "released").touch()


async def handler_started(deployment: Deployment) -> None:
    """Return when a handler is running."""
    await until((deployment.folder / "handler_started").exists, "a handler to begin")


async def refuses_connections(port: int) -> None:
    """Return when no process listens on the port."""
    while True:
        try:
            async with connection(port):
                pass
        except ConnectionError:  # also reset: nobody took it in before the end
            return
        await asyncio.sleep(POLL_SECONDS)


async def ends_well(program: Program) -> None:
    """Check that the program and all its processes end without an error."""
    assert await program.exit_code() == 0, program.output
    await program.gone()
    assert "Traceback" not in program.output


async def the_next_start_handles(deployment: Deployment, load: Load) -> None:
    """Check that nothing was lost, and that an attempt that did not end was not counted."""
    release(deployment)
    async with deployment.serve():
        await deployment.all_handled()
    assert deployment.handled().keys() == load.acknowledged.keys()
    assert {attempts for _, _, attempts in deployment.work()} == {1}


@by_every_signal
async def test_a_running_handler_finishes_within_the_grace_time(tmp_path: Path, stop: Stop) -> None:
    """Its work item is done with one attempt, and the exit code is 0."""
    deployment = Deployment(tmp_path, grace="20")
    deployment.write_handlers(BEGIN + WAITS)
    load = Load(random.Random(1))
    async with deployment.serve() as serving:
        await load.send(serving.port, 1)
        await handler_started(deployment)
        stop(serving)
        await serving.line("worker_finishing")
        release(deployment)
        await ends_well(serving)

    assert [(state, attempts) for _, state, attempts in deployment.work()] == [("done", 1)]
    assert deployment.handled().keys() == load.acknowledged.keys()


@pytest.mark.parametrize("stop", [terminate, interrupt, hang_up])
@pytest.mark.parametrize("again", [False, True], ids=["once", "twice"])
async def test_the_server_ends_after_its_worker(tmp_path: Path, stop: Stop, again: bool) -> None:
    """A terminal shows its prompt when nothing is running, and a container does not end too early."""
    deployment = Deployment(tmp_path, grace="60")
    deployment.write_handlers(BEGIN + WAITS)
    async with deployment.serve() as serving:
        await Load(random.Random(1)).send(serving.port, 1)
        await handler_started(deployment)
        stop(serving)
        await serving.line("worker_finishing")
        if again:
            stop(serving)
        await refuses_connections(serving.port)
        assert not serving.has_ended()
        release(deployment)
        await ends_well(serving)
        assert serving.lines[-1].endswith("server_stopped")

    assert [(state, attempts) for _, state, attempts in deployment.work()] == [("done", 1)]


async def test_a_server_under_nohup_continues_when_the_terminal_closes(tmp_path: Path) -> None:
    """SIGHUP stays ignored if it was ignored at the start."""
    deployment = Deployment(tmp_path)
    async with deployment.serve("--no-worker", launcher=("-c", UNDER_NOHUP)) as serving:
        hang_up(serving)
        assert (await get(serving.port, "/readyz")).status == 200
        terminate(serving)
        await ends_well(serving)


@by_every_signal
@pytest.mark.parametrize(
    "handlers",
    [
        pytest.param(WAITS, id="waits"),
        pytest.param(STUCK_IN_A_THREAD, id="sleeps in a thread"),
        pytest.param(REFUSES_TO_END, id="refuses to be cancelled"),
    ],
)
async def test_work_that_does_not_finish_in_time_is_released_without_an_attempt(
    tmp_path: Path, stop: Stop, handlers: str
) -> None:
    """The exit does not wait for the handler. The next start runs all claimed work."""
    deployment = Deployment(tmp_path, grace="0.5", concurrency="3")
    deployment.write_handlers(BEGIN + handlers)
    load = Load(random.Random(1))
    async with deployment.serve() as serving:
        await load.send(serving.port, 10)
        await handler_started(deployment)
        stop(serving)
        await ends_well(serving)

    assert {(state, attempts) for _, state, attempts in deployment.work()} == {("waiting", 0)}
    assert not deployment.handled()
    await the_next_start_handles(deployment, load)


async def test_a_blocked_worker_does_not_delay_the_exit(tmp_path: Path) -> None:
    """It cannot react, so `serve` ends it after its grace time. Its work runs again when its lease ends."""
    deployment = Deployment(tmp_path, grace="0.5")
    deployment.write_handlers(BEGIN + BLOCKS)
    load = Load(random.Random(1))
    async with deployment.serve() as serving:
        await load.send(serving.port, 10)
        await handler_started(deployment)
        terminate(serving)
        await ends_well(serving)

    release(deployment)
    async with deployment.serve():
        await deployment.all_handled()
    assert deployment.handled().keys() == load.acknowledged.keys()


@by_every_signal
async def test_a_worker_alone_stops_in_the_same_way(tmp_path: Path, stop: Stop) -> None:
    """The test runs `receiver work` beside `receiver serve --no-worker`, as the Procfile does."""
    deployment = Deployment(tmp_path, grace="0.5")
    deployment.write_handlers(BEGIN + WAITS)
    load = Load(random.Random(1))
    async with deployment.serve("--no-worker") as serving:
        await load.send(serving.port, 10)
        async with deployment.start("work") as worker:
            await handler_started(deployment)
            stop(worker)
            await ends_well(worker)
        assert {(state, attempts) for _, state, attempts in deployment.work()} == {("waiting", 0)}
        assert (await get(serving.port, "/readyz")).status == 200
        release(deployment)
        async with deployment.start("work") as worker:
            await deployment.all_handled()
            stop(worker)
            await ends_well(worker)
    assert deployment.handled().keys() == load.acknowledged.keys()


async def test_a_worker_alone_ends_even_if_its_event_loop_is_blocked(tmp_path: Path) -> None:
    """It has no supervisor. After its grace time it ends by itself, and its work is not lost."""
    deployment = Deployment(tmp_path, grace="0.5")
    deployment.write_handlers(BEGIN + BLOCKS)
    load = Load(random.Random(1))
    async with deployment.serve("--no-worker") as serving:
        await load.send(serving.port, 10)
        async with deployment.start("work") as worker:
            await handler_started(deployment)
            terminate(worker)
            await worker.exit_code()
        release(deployment)
        async with deployment.start("work"):
            await deployment.all_handled()
    assert deployment.handled().keys() == load.acknowledged.keys()


@by_every_signal
async def test_a_request_in_progress_is_answered(tmp_path: Path, stop: Stop) -> None:
    """Its second half comes after the signal. It is stored and acknowledged."""
    deployment = Deployment(tmp_path)
    body = Load(random.Random(1)).body()
    async with deployment.serve() as serving, connection(serving.port) as line:
        await line.say(request(body)[:-1])
        async with connection(serving.port) as other:  # so the first has been read before the signal comes
            assert (await other.post(Load(random.Random(2)).body())).status == 200
        stop(serving)
        await line.say(body[-1:])

        assert (await line.answer()).status == 200
        await ends_well(serving)
    assert len(deployment.stored()) == 2


@by_every_signal
async def test_idle_connections_do_not_delay_the_exit(tmp_path: Path, stop: Stop) -> None:
    """Some were always silent, and some are open after an answer."""
    deployment = Deployment(tmp_path)
    async with deployment.serve() as serving, connection(serving.port), connection(serving.port) as line:
        assert (await line.post(Load(random.Random(1)).body())).status == 200
        stop(serving)
        await ends_well(serving)


LEAKS = """
opened = []

@router.on("*")
async def leak(event):
    if Path("released").exists():
        return
    opened.extend(open(__file__) for _ in range(10))

@router.on("*")
async def good(event, ctx: Context):
    record_handled(event, ctx)
"""


async def test_a_worker_without_free_files_releases_its_work_and_restarts(tmp_path: Path) -> None:
    """The log names the handler that keeps files open, and the other handlers run in the next worker."""
    deployment = Deployment(tmp_path)
    deployment.write_handlers(BEGIN + LEAKS)
    load = Load(random.Random(1))
    async with deployment.serve(launcher=("-c", WITH_FEW_FILES)) as serving:
        await load.send(serving.port, 40)
        line = await serving.line("worker_exhausted")
        release(deployment)
        await serving.line("worker_ended", "exit code 1")
        await deployment.all_handled()
        terminate(serving)
        await ends_well(serving)

    assert "handlers.leak" in line.partition("suspects: ")[2]
    assert "files are open" in line
    assert deployment.handled().keys() == load.acknowledged.keys()


async def test_a_stop_under_load_loses_no_acknowledged_delivery(tmp_path: Path) -> None:
    """The test repeats this on one database, as frequent deployments do. No attempt runs twice."""
    deployment = Deployment(tmp_path)
    load = Load(random.Random(1))

    async def more() -> None:
        enough = len(load.acknowledged) + 150
        await until(lambda: len(load.acknowledged) >= enough, "some deliveries")

    for _ in range(3):
        async with deployment.serve() as serving:
            sending = asyncio.create_task(load.run(serving.port))
            await more()
            terminate(serving)
            await ends_well(serving)
            await sending
    deployment.write_handlers(HANDLERS)
    async with deployment.serve() as serving:
        await load.send_again(serving.port)
        load.check_stored(deployment.stored())
        await deployment.all_handled()
    assert set(deployment.handled().values()) == {1}
    assert deployment.handled().keys() == load.acknowledged.keys()
