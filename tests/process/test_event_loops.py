"""Tests that server and worker run on uvloop, and on asyncio's own loop where uvloop is not installed."""

import os
import random
import signal
from pathlib import Path

import pytest

from tests.process.harness import Deployment, Load

NAMES_ITS_LOOP = """
import asyncio
from pathlib import Path
from receiver import Router

router = Router()

@router.on("*")
async def name_loop(event):
    Path("loop").write_text(type(asyncio.get_running_loop()).__module__)
"""


@pytest.mark.parametrize("installed", [True, False])
async def test_everything_works_with_and_without_uvloop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, installed: bool
) -> None:
    """A delivery is stored and handled, and SIGTERM stops both processes cleanly."""
    if not installed:
        hiding = tmp_path / "hiding"
        hiding.mkdir()
        (hiding / "uvloop.py").write_text("raise ImportError('as where uvloop has no wheel')")
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(hiding), os.environ.get("PYTHONPATH", "")]))
    deployment = Deployment(tmp_path)
    deployment.cold = True
    deployment.write_handlers(NAMES_ITS_LOOP)
    load = Load(random.Random(1))
    async with deployment.serve() as serving:
        await load.send(serving.port, 5)
        await deployment.all_handled()
        serving.send_signal(signal.SIGTERM)
        assert await serving.exit_code() == 0, serving.output

    assert len(load.acknowledged) == 5
    load.check_stored(deployment.stored())
    assert (tmp_path / "loop").read_text().partition(".")[0] == ("uvloop" if installed else "asyncio")
