"""Tests of several web processes and workers: what one of them does or suffers is nothing to the others."""

import asyncio
import random
import shutil
import signal
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.process.harness import (
    PATIENCE_SECONDS,
    Deployment,
    Load,
    Program,
    Serving,
    connection,
    get,
    kill,
    meanwhile,
    post,
    request,
    until,
)
from tests.process.test_metrics import figures
from tests.process.test_stopping import Stop, ends_well, hang_up, interrupt, refuses_connections, terminate
from tests.process.waiting import POLL_SECONDS

ACCEPTED = ("receiver_deliveries_total", "outcome=accepted", "type=crawl.page")
DUPLICATE = ("receiver_deliveries_total", "outcome=duplicate", "type=crawl.page")
RECEIVED = ("receiver_received_bytes_total",)
IN_FLIGHT = ("receiver_in_flight_bytes",)
PER_REQUEST = 4096
"""Bytes that a request counts besides those of its body."""
ACKS = ("receiver_answer_seconds_count", "status=2xx")
WORKER_READY = "/readyz?worker=1"


def web_processes(program: Program) -> list[int]:
    """Return the process ids of the web processes that live."""
    return program.children_with("--listener")


def workers(program: Program) -> list[int]:
    """Return the process ids of the workers that live."""
    return program.children_with("--with-parent")


async def keep_sending(load: Load, port: int) -> None:
    """Send on twelve connections, and connect again when all of them have broken."""
    while True:
        await load.run(port, connections=12)


async def more(load: Load, count: int = 100) -> None:
    """Return when so many more deliveries were acknowledged."""
    enough = len(load.acknowledged) + count
    await until(lambda: len(load.acknowledged) >= enough, f"{count} more acknowledgements")


async def shows(serving: Serving, figure: tuple[str, ...], value: float) -> None:
    """Return when the metrics show this value; each process copies some figures once a second."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while (await figures(serving.port))[figure] != value:  # noqa: ASYNC110 - another process copies it
            await asyncio.sleep(POLL_SECONDS)


async def test_a_web_process_that_is_killed_under_load_loses_nothing(tmp_path: Path) -> None:
    """The other one answers, the killed one is replaced, and the metrics still show the sum of all deliveries."""
    deployment = Deployment(tmp_path, metrics="true", metrics_port="0")
    load = Load(random.Random(1))
    async with deployment.serve("--web-processes", "2") as serving:

        async def kill_three() -> None:
            for times in range(1, 4):
                await until(lambda: len(web_processes(serving)) == 2, "two web processes")
                await more(load)
                kill(web_processes(serving)[times % 2])
                await serving.line("web_process_ended", "SIGKILL", times=times)
                await more(load)

        await meanwhile(asyncio.create_task(keep_sending(load, serving.port)), kill_three)
        await load.send_again(serving.port)
        await deployment.all_handled()
        shown = await figures(serving.port)
        terminate(serving)
        await ends_well(serving)

    load.check_stored(deployment.stored())
    assert set(load.answers) == {200}
    assert deployment.handled().keys() >= load.acknowledged.keys()
    assert shown[ACCEPTED] + shown.get(DUPLICATE, 0) >= len(load.acknowledged)


async def test_each_web_process_shows_the_metrics_of_all(tmp_path: Path) -> None:
    """Also numbers that a process does not count with signals. A process that was killed keeps its part."""
    deployment = Deployment(tmp_path, metrics="true", metrics_port="0")
    bodies = [Load(random.Random(number)).body() for number in range(40)]
    async with deployment.serve("--web-processes", "2", "--no-worker") as serving:
        for body in bodies:
            assert (await post(serving.port, body)).status == 200
        assert (await post(serving.port, b"[]")).status == 400
        await shows(serving, RECEIVED, sum(map(len, bodies)) + 2)
        await until(lambda: len(web_processes(serving)) == 2, "two web processes")
        kill(web_processes(serving)[0])
        await serving.line("web_process_ended", "SIGKILL")
        await shows(serving, RECEIVED, sum(map(len, bodies)) + 2)
        shown = await figures(serving.port)

    assert shown[ACCEPTED] == shown[ACKS] == 40
    assert shown["receiver_quarantined_total", "reason=malformed"] == 1
    assert shown[IN_FLIGHT] == 0


@pytest.mark.parametrize("stop", [terminate, interrupt, hang_up])
async def test_a_stop_answers_requests_and_ends_all_processes(tmp_path: Path, stop: Stop) -> None:
    """The second half of a body comes after the signal. Nobody can connect any more, and the exit code is 0."""
    deployment = Deployment(tmp_path, metrics="true", metrics_port="0")
    body = Load(random.Random(1)).body()
    async with deployment.serve("--web-processes", "2", "--workers", "2") as serving:
        async with connection(serving.port) as line:
            await line.say(request(body)[:-1])
            await shows(serving, IN_FLIGHT, len(body) - 1 + PER_REQUEST)
            stop(serving)
            await refuses_connections(serving.port)
            stop(serving)
            await line.say(body[-1:])
            assert (await line.answer()).status == 200
        await ends_well(serving)
        assert serving.lines[-1].endswith("server_stopped")
    assert len(deployment.stored()) == 1


async def test_all_processes_end_after_a_killed_supervisor(tmp_path: Path) -> None:
    """They see that their standard input has ended. What was acknowledged is handled after the next start."""
    deployment = Deployment(tmp_path)
    load = Load(random.Random(1))
    async with deployment.serve("--web-processes", "2", "--workers", "2") as serving:
        await load.send(serving.port, 20)
        serving.send_signal(signal.SIGKILL)
        await serving.gone()
    async with deployment.serve("--web-processes", "2"):
        await deployment.all_handled()
    assert deployment.handled().keys() == load.acknowledged.keys()


async def test_web_processes_know_whether_a_worker_lives(tmp_path: Path) -> None:
    """It is another process's child. Of two workers one is enough."""
    deployment = Deployment(tmp_path)
    async with deployment.serve("--web-processes", "2", "--workers", "2") as serving:
        await until(lambda: len(workers(serving)) == 2, "two workers")
        assert (await get(serving.port, WORKER_READY)).status == 200
        kill(workers(serving)[0])
        await serving.line("worker_ended", "SIGKILL")
        assert (await get(serving.port, WORKER_READY)).status == 200
    async with deployment.serve("--web-processes", "2", "--no-worker") as serving:
        answer = await get(serving.port, WORKER_READY)
        assert (answer.status, "does not run a worker" in answer.json()["detail"]) == (503, True)


@pytest.mark.parametrize("command", ["serve", "work"])
async def test_a_worker_that_is_killed_is_replaced_and_its_work_is_done(tmp_path: Path, command: str) -> None:
    """The others go on meanwhile. Each serves its metrics on a port of its own."""
    deployment = Deployment(tmp_path, lease="600", metrics="true", metrics_port="0")
    load = Load(random.Random(1))
    async with AsyncExitStack() as stack:
        program: Program
        if command == "serve":
            program = serving = await stack.enter_async_context(deployment.serve("--workers", "3"))
        else:
            serving = await stack.enter_async_context(deployment.serve("--no-worker"))
            program = await stack.enter_async_context(deployment.start("work", "--workers", "3"))
        await program.line("serving_metrics", times=3)
        await load.send(serving.port, 100)
        kill(workers(program)[0])
        await program.line("worker_ended", "SIGKILL")
        await load.send(serving.port, 100)
        await deployment.all_handled()
        terminate(program)
        await ends_well(program)
    assert deployment.handled().keys() == load.acknowledged.keys()


@pytest.mark.parametrize("arguments", [("serve", "--web-processes", "2"), ("serve", "--workers", "2")])
async def test_a_worker_that_is_refused_at_the_start_ends_everything(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    """Handlers that cannot be imported have the same exit code with any number of processes."""
    deployment = Deployment(tmp_path)
    deployment.write_handlers("import nothing_of_this_name")
    async with deployment.start(*arguments) as serving:
        assert await serving.exit_code() == 2
        await serving.gone()
        assert "nothing_of_this_name" in serving.output


async def test_several_workers_that_are_refused_end_the_command(tmp_path: Path) -> None:
    """As with one worker, the exit code is 2."""
    deployment = Deployment(tmp_path)
    deployment.write_handlers("import nothing_of_this_name")
    async with deployment.start("work", "--workers", "2") as working:
        assert await working.exit_code() == 2
        await working.gone()


def test_a_store_that_cannot_be_used_is_told_before_any_process_starts(tmp_path: Path) -> None:
    """The exit code is 3, as with one process."""
    deployment = Deployment(tmp_path)
    deployment.database.write_bytes(b"not a database, but long enough to be taken for one" * 100)

    done = deployment.run("serve", "--web-processes", "2")

    assert done.code == 3
    assert len(done.stderr.splitlines()) == 1


def test_memory_for_bodies_must_suffice_for_each_web_process(tmp_path: Path) -> None:
    """Each has its part of it, and must be able to take the longest body."""
    done = Deployment(tmp_path).run("serve", "--web-processes", "4", "--max-in-flight", "100MiB")

    assert done.code == 2
    assert "--max-in-flight must not be less than RECEIVER_MAX_BODY for each of 4 web processes" in done.stderr


async def test_processes_are_replaced_after_somebody_has_cleaned_the_folder_for_temporary_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Systems remove there what nobody has touched for days. A worker that lives is not reported as dead."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    deployment = Deployment(tmp_path, metrics="true", metrics_port="0", log_level="debug")
    load = Load(random.Random(1))
    async with deployment.serve("--web-processes", "2") as serving:
        await serving.line(" listening ", times=3)
        await serving.line("worker_started")
        (shared,) = temporary.glob("receiver-*")
        shutil.rmtree(shared)
        assert (await get(serving.port, WORKER_READY)).status == 200

        kill(workers(serving)[0])
        await serving.line("worker_ended", "SIGKILL")
        await serving.line("worker_started", times=2)
        kill(web_processes(serving)[0])
        await serving.line("web_process_ended", "SIGKILL")
        await until(lambda: len(web_processes(serving)) == 2, "another web process")
        kill(web_processes(serving)[0])
        await load.send(serving.port, 20)
        await deployment.all_handled()
        assert (await get(serving.port, WORKER_READY)).status == 200
        terminate(serving)
        await ends_well(serving)
    assert deployment.handled().keys() == load.acknowledged.keys()
