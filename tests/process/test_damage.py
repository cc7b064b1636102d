"""What a server does for a disk and a database that may fail."""

import json
from pathlib import Path

from receiver.stores.sqlite.bodies import body_files
from tests.process.harness import HANDLED, Deployment, kill, post, until


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


async def test_an_event_whose_file_is_away_fails_and_is_handled_when_it_is_back(tmp_path: Path) -> None:
    """All others are handled meanwhile."""
    deployment = Deployment(tmp_path)
    async with deployment.serve("--no-worker") as serving:
        for key, size in (("long", 20_000), ("short", 10)):
            body = json.dumps({"type": "crawl.page", "webhookId": key, "text": "x" * size}).encode()
            assert (await post(serving.port, body)).status == 200
    [file] = body_files(deployment.database)
    aside = file.rename(tmp_path / "aside")

    async with deployment.serve() as serving:
        await serving.line("handlers.record", "long", f"{file.name}: No such file or directory; put the file back")
        await until(lambda: handled(deployment) == ["short"], "the other one to be handled")
        aside.rename(file)
        assert deployment.run("work-items", "retry", "--state", "waiting", "--yes").code == 0
        await until(lambda: handled(deployment) == ["short", "long"], "both to be handled")


def handled(deployment: Deployment) -> list[str]:
    """Return the keys that the handler has written down."""
    path = deployment.folder / HANDLED
    return path.read_text().splitlines() if path.exists() else []


async def test_a_server_without_a_worker_leaves_ballast_too(tmp_path: Path) -> None:
    """On a full disk somebody may prune by hand, which needs some space."""
    deployment = Deployment(tmp_path)
    async with deployment.serve("--no-worker"):
        await until((tmp_path / "receiver.db-ballast").exists, "the ballast file")
