"""SIGKILL at any moment loses nothing that was acknowledged. Thousands of trials: `python -m tests.proofs kill`."""

import random
import secrets
from pathlib import Path

import pytest

from tests.process.harness import Deployment, Load, post, until
from tests.proofs.kill import KillProof

TRIALS = 6


async def test_kills_under_load_lose_nothing_that_was_acknowledged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every delivery that got a 2xx is stored once, with equal bytes, and handled after the last restart.

    An orphaned worker ends by itself, deliveries go on while the worker is dead, and SQLite finds the database
    intact. On failure the seed is in the output: `python -m tests.proofs kill --seed N` repeats the moments.
    """
    seed = secrets.randbits(32)
    print(f"python -m tests.proofs kill --trials {TRIALS} --seed {seed}")  # noqa: T201 - shown on failure
    proof = KillProof(tmp_path, seed)

    await proof.run(TRIALS)

    assert sum(proof.kills.values()) == TRIALS
    assert set(proof.kills) == {"web", "worker", "writer", "all"}
    assert len(proof.load.acknowledged) > TRIALS


@pytest.mark.parametrize("sight", ["*.db-*", "receiver.db", "receiver.db-wal"])
async def test_a_kill_while_the_database_is_being_made_leaves_nothing_that_prevents_the_next_start(
    tmp_path: Path, sight: str
) -> None:
    """Killed as soon as one of its files appears, the next start makes a database that takes deliveries."""
    deployment = Deployment(tmp_path)
    async with deployment.serve(wait=False) as serving:
        await until(lambda: any(tmp_path.glob(sight)), f"{sight} to appear")
        serving.kill_all()
        await serving.gone()

    async with deployment.serve() as serving:
        load = Load(random.Random(1))
        assert (await post(serving.port, load.body())).status == 200
        await deployment.all_handled()
    assert deployment.intact()
