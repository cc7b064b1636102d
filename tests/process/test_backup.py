"""`receiver backup` and `receiver restore` beside real servers."""

import asyncio
import random
import shutil
import signal
from pathlib import Path

from tests.process.harness import Deployment, Load


async def test_a_backup_beside_a_loaded_server_can_be_restored_when_it_has_stopped(tmp_path: Path) -> None:
    """It has everything that was acknowledged before, and the server refuses nothing meanwhile."""
    deployment = Deployment(tmp_path)
    load = Load(random.Random(1))
    async with deployment.serve() as serving:
        await load.send(serving.port, 50)
        before = set(load.acknowledged)
        sending = asyncio.create_task(load.send(serving.port, 50))
        made = await asyncio.to_thread(deployment.run, "backup", "copy.db")
        await sending
        refused = await asyncio.to_thread(deployment.run, "restore", "copy.db", "--yes")
        serving.send_signal(signal.SIGTERM)
        assert await serving.exit_code() == 0

    assert made.code == 0, made.text
    assert set(load.answers) == {200}
    assert refused.code == 3
    assert "is in use; stop the server" in refused.text

    restored = await asyncio.to_thread(deployment.run, "restore", "copy.db", "--yes")
    assert restored.code == 0, restored.text
    assert before <= deployment.stored().keys() <= load.acknowledged.keys()
    assert deployment.intact()
    async with deployment.serve() as serving:
        await load.send(serving.port, 5)
        await deployment.all_handled()


async def test_a_backup_that_is_copied_beside_an_old_log_is_refused(tmp_path: Path) -> None:
    """One clear line with exit code 3 for server, worker and readers; `restore` is the way."""
    deployment = Deployment(tmp_path)
    load = Load(random.Random(1))
    async with deployment.serve() as serving:
        await load.send(serving.port, 20)
        assert (await asyncio.to_thread(deployment.run, "backup", "copy.db")).code == 0
        await load.send(serving.port, 20)
        serving.kill_all()
        await serving.gone()
    shutil.copy(tmp_path / "copy.db", deployment.database)

    for command in (("serve", "--port", "0"), ("work",), ("events", "list")):
        done = await asyncio.to_thread(deployment.run, *command)
        assert done.code == 3, (command, done.text)
        assert "receiver.db-wal does not belong to the database" in done.text
        assert "Traceback" not in done.text

    assert (await asyncio.to_thread(deployment.run, "restore", "copy.db", "--yes")).code == 0
    assert len(deployment.stored()) == 20
    assert deployment.intact()
