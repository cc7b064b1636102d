"""Machines whose clocks are an hour apart share a PostgreSQL database."""

import random
from contextlib import AsyncExitStack
from pathlib import Path

from tests.process import shifted
from tests.process.harness import HANDLED, Deployment, Load, Program, until

HOUR = 3_600
COUNT = 120
"""More than a worker claims that has four slots."""
HANDLERS = f"""
import asyncio, os
from pathlib import Path
from receiver import Context, Router
from receiver.events import Event

router = Router()
out = os.open({HANDLED!r}, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
begun = os.open("begun", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

@router.on("*")
async def record(event: Event, ctx: Context) -> None:
    os.write(begun, b"%d\\n" % os.getpid())
    while Path(f"blocked-{{os.getpid()}}").exists():
        await asyncio.sleep(0.02)
    os.write(out, ctx.delivery.id.encode() + b"\\n")
"""


async def test_processes_with_clocks_an_hour_apart_take_no_work_from_each_other(
    tmp_path: Path, postgres_url: str
) -> None:
    """A lease lasts ten minutes. All moments in the store are those of the database."""
    deployment = Deployment(tmp_path, STORE=postgres_url, LEASE="600", CONCURRENCY="4")
    deployment.write_handlers(HANDLERS)
    load = Load(random.Random(5))
    async with AsyncExitStack() as stack:
        serving = await stack.enter_async_context(
            deployment.serve("--no-worker", launcher=(shifted.__file__, str(2 * HOUR)))
        )
        [(before,)] = deployment.rows(NOW)
        behind = await stack.enter_async_context(deployment.start("work", launcher=(shifted.__file__, str(-HOUR))))
        blocked = tmp_path / f"blocked-{behind.pid}"
        blocked.touch()
        await load.send(serving.port, 4)
        await begun(tmp_path, behind)

        ahead = await stack.enter_async_context(deployment.start("work", launcher=(shifted.__file__, str(HOUR))))
        await load.send(serving.port, COUNT)
        await begun(tmp_path, ahead)
        blocked.unlink()
        await deployment.all_handled()
    [(after,)] = deployment.rows(NOW)

    assert deployment.handled() == dict.fromkeys(load.acknowledged, 1)
    assert deployment.rows("SELECT DISTINCT outcome FROM attempts") == [("succeeded",)]
    for moments in ("received_at FROM deliveries", "started_at FROM attempts", "ended_at FROM attempts"):
        assert all(before <= moment <= after for (moment,) in deployment.rows(f"SELECT {moments}")), moments


NOW = "SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS bigint)"


async def begun(folder: Path, worker: Program) -> None:
    """Return when a worker has begun to handle something."""
    path = folder / "begun"
    await until(lambda: path.exists() and str(worker.pid) in path.read_text().split(), "a worker to begin")
