"""What a server does for a disk and a database that may fail."""

from pathlib import Path

from tests.process.harness import Deployment, kill, until


async def test_a_worker_waits_long_after_a_damaged_database(tmp_path: Path) -> None:
    """It tells the damage once: a new worker tries again after a minute. The endpoint answers for itself."""
    deployment = Deployment(tmp_path)
    async with deployment.serve() as serving:
        await serving.line("worker_started")
        with deployment.database.open("r+b") as file:
            file.write(b"this is no database any more")
        kill(await serving.worker())

        await serving.line("receiver: the database", "is not a SQLite database")
        await serving.line("worker_ended", "exit code 3", "restart_in_s=60.0")
        assert not serving.has_ended()

    again = deployment.run("work", "--store-refusal-told")
    assert again.code == 3
    assert "receiver: " not in again.text


async def test_a_server_without_a_worker_leaves_ballast_too(tmp_path: Path) -> None:
    """On a full disk somebody may prune by hand, which needs some space."""
    deployment = Deployment(tmp_path)
    async with deployment.serve("--no-worker"):
        await until((tmp_path / "receiver.db-ballast").exists, "the ballast file")
