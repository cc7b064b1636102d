"""Real processes on one PostgreSQL database: they share the work, and move there from SQLite."""

import asyncio
import json
import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.process.harness import STEADY, Deployment, Finished, Load, Serving, get, kill
from tests.process.waiting import until

HIDDEN = "hidden-password"


@pytest.fixture
def shared(tmp_path: Path, postgres_url: str) -> Deployment:
    """A deployment with a database that does not exist yet."""
    return Deployment(tmp_path, STORE=postgres_url, **STEADY)


@pytest.fixture
async def four(shared: Deployment) -> AsyncIterator[list[Serving]]:
    """Two web processes and two workers, started as on machines of their own."""
    async with AsyncExitStack() as stack:
        web = [await stack.enter_async_context(shared.serve("--no-worker", wait=False)) for _ in range(2)]
        for _ in range(2):
            worker = await stack.enter_async_context(shared.start("work"))
            await worker.line("worker_started")
        for one in web:
            await one.listening()
        yield web


async def test_two_of_each_kind_share_the_work(shared: Deployment, four: list[Serving]) -> None:
    """All start at once on a new database. Every delivery is stored as it was sent, and handled once."""
    load = Load(random.Random(1))
    async with asyncio.TaskGroup() as group:
        for one in four:
            group.create_task(load.send(one.port, 60))
    assert load.answers == {200: 120}

    await shared.all_handled()
    load.check_stored(shared.stored())
    assert shared.handled() == dict.fromkeys(load.acknowledged, 1)
    for one in four:
        assert (await get(one.port, "/readyz")).status == 200


async def test_one_command_serves_and_works(shared: Deployment) -> None:
    """`receiver serve` starts a worker; `work-items`, `events` and `check` look at the same database."""
    async with shared.serve() as serving:
        load = Load(random.Random(2))
        await load.send(serving.port, 5)
        await shared.all_handled()
        assert (await get(serving.port, "/readyz?worker=1")).status == 200
        listed = await asyncio.to_thread(shared.run, "events", "list", "--json")
        assert {json.loads(line)["id"] for line in listed.text.splitlines()} == set(load.acknowledged)
        checked = await asyncio.to_thread(shared.run, "check")
        assert checked.code == 0, checked.text
    assert "listening" in "\n".join(serving.lines)


async def test_a_killed_worker_leaves_its_work_to_the_other(tmp_path: Path, postgres_url: str) -> None:
    """Its leases end, and what it was running runs again."""
    deployment = Deployment(tmp_path, STORE=postgres_url)
    deployment.write_handlers(SLOW_FOR_THE_FIRST)
    async with (
        deployment.serve("--no-worker") as serving,
        deployment.start("work", launcher=("-m", "receiver")) as first,
    ):
        await first.line("worker_started")
        await Load(random.Random(3)).send(serving.port, 8)
        await until(lambda: (tmp_path / "stuck").exists(), "a handler to begin")
        async with deployment.start("work") as second:
            await second.line("worker_started")
            kill(first.pid)
            await deployment.all_handled()


SLOW_FOR_THE_FIRST = """
import asyncio, os
from pathlib import Path
from receiver import Router

router = Router()

@router.on("*")
async def slow(event):
    if not Path("stuck").exists():
        Path("stuck").touch()
        await asyncio.Event().wait()
"""


@pytest.mark.parametrize("command", ["serve", "work", "serve --web-processes 2"])
async def test_without_a_server_a_process_says_so(tmp_path: Path, command: str) -> None:
    """The exit code is 3, and nothing shows the password."""
    deployment = Deployment(tmp_path, STORE=f"postgresql://user:{HIDDEN}@127.0.0.1:1/nothing")

    done = await asyncio.to_thread(deployment.run, *command.split())

    assert done.code == 3, done.text
    assert "cannot be used: Connection refused" in done.text
    assert HIDDEN not in done.text
    assert "Traceback" not in done.text


async def test_switching_to_postgresql_loses_nothing(tmp_path: Path, postgres_url: str) -> None:
    """This is the procedure of the guide, with a sender that sends again what was not acknowledged.

    A copy is made while deliveries arrive and are handled. After a stop, the same command copies the rest.
    """
    before = Deployment(tmp_path, **STEADY)
    load = Load(random.Random(4))
    async with before.serve() as serving:
        await load.send(serving.port, 40)
        sending = asyncio.create_task(load.run(serving.port, connections=2))
        copied = await copy(before, postgres_url)
        assert copied.code in (0, 1), copied.text
        sending.cancel()
        await asyncio.wait([sending])
    copied = await copy(before, postgres_url)
    assert copied.code == 0, copied.text
    assert "both stores are equal" in copied.text
    stored = before.stored()
    handled = before.handled()

    after = Deployment(tmp_path, STORE=postgres_url, **STEADY)
    async with after.serve() as serving:
        await load.send_again(serving.port)
        await load.send(serving.port, 20)
        await after.all_handled()
    now = after.stored()
    load.check_stored(now)
    assert stored.items() <= now.items()
    assert set(after.handled()) == set(now)
    assert all(after.handled()[key] == times for key, times in handled.items() if key in stored)


async def copy(deployment: Deployment, target: str) -> Finished:
    """Run the command to its end."""
    source = f"sqlite:///{deployment.database}"
    return await asyncio.to_thread(deployment.run, "store", "copy", source, target, "--yes")
