"""Pruning that is killed leaves whole deliveries, and the next one goes on; a worker prunes by itself."""

import asyncio
import random
import shutil
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.process.harness import Deployment, Load, until

DELIVERIES = 3_000
COUNT = "SELECT count(*) FROM deliveries"
LEFT_OVER = """
SELECT count(*) FROM bodies WHERE seq NOT IN (SELECT seq FROM deliveries)
UNION ALL SELECT count(*) FROM work_items WHERE delivery_seq NOT IN (SELECT seq FROM deliveries)
UNION ALL SELECT count(*) FROM attempts WHERE work_id NOT IN (SELECT id FROM work_items)
UNION ALL SELECT count(*) FROM deliveries WHERE pruned_at IS NULL AND seq NOT IN (SELECT seq FROM bodies)
UNION ALL SELECT count(*) FROM deliveries WHERE pruned_at IS NOT NULL AND seq IN (SELECT seq FROM bodies)
"""
"""Everything that belongs to nothing."""


async def fill(deployment: Deployment) -> None:
    """Let a worker handle many deliveries and end."""
    load = Load(random.Random(1))
    async with deployment.serve() as serving:
        await load.send(serving.port, DELIVERIES)
        await deployment.all_handled()
        serving.send_signal(signal.SIGTERM)
        await serving.gone()


@pytest.fixture(scope="module")
def handled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which a worker has handled many deliveries and has ended."""
    folder = tmp_path_factory.mktemp("handled")
    asyncio.run(fill(Deployment(folder)))
    return folder


@pytest.fixture
def filled(handled: Path, tmp_path: Path) -> Deployment:
    """A deployment with a copy of that folder."""
    shutil.copytree(handled, tmp_path, dirs_exist_ok=True)
    return Deployment(tmp_path)


def nothing_left_over(deployment: Deployment) -> bool:
    """Tell whether every row belongs to something."""
    return deployment.rows(LEFT_OVER) == [(0,)] * 5


@pytest.mark.parametrize(("flags", "left"), [((), COUNT), (("--bodies",), "SELECT count(*) FROM bodies")])
async def test_killed_pruning_is_continued_by_the_same_command(
    filled: Deployment, flags: tuple[str, ...], left: str
) -> None:
    """Killed after some steps, three times: what is left is whole each time, and in the end nothing is left."""
    deployment = filled
    command = ("events", "prune", "--older-than", "0s", "--yes", *flags)

    for kills in range(1, 4):
        [(before,)] = deployment.rows(left)
        async with deployment.start(*command) as pruning:
            await until(lambda: deployment.rows(left)[0][0] < before, f"something to be removed, time {kills}")  # noqa: B023
            pruning.kill_all()
            await pruning.gone()
        assert nothing_left_over(deployment)
        assert deployment.intact()

    assert deployment.rows(left) != [(0,)]
    assert deployment.run(*command).code == 0
    assert deployment.rows(left) == [(0,)]
    assert nothing_left_over(deployment)
    assert deployment.intact()


async def test_a_worker_prunes_expired_deliveries(filled: Deployment) -> None:
    """As soon as it runs; deliveries that come meanwhile are acknowledged and kept."""
    with closing(sqlite3.connect(filled.database)) as connection, connection:
        connection.execute("UPDATE deliveries SET received_at = received_at - 7200000000")  # by two hours
    [(last,)] = filled.rows("SELECT max(received_at) FROM deliveries")
    kept = Deployment(filled.folder, retention_bodies="1h", retention_keys="1h")

    async with kept.serve() as serving:
        await serving.line("pruned")
        load = Load(random.Random(2))
        await load.send(serving.port, 10)
        await kept.all_handled()

    assert kept.rows("SELECT count(*) FROM deliveries WHERE received_at <= ?", last) == [(0,)]
    assert len(kept.stored()) == 10
    assert nothing_left_over(kept)
