"""`receiver serve --reload` and `receiver dev`, used as somebody uses them who writes a handler."""

import json
from pathlib import Path

import pytest

from tests.process.harness import Deployment, Serving, post

HANDLER = """
from receiver import Context, Router
from receiver.events import Event

router = Router()

@router.on("*", attempts=1)
async def record(event: Event, ctx: Context) -> None:
    {does}
"""


@pytest.fixture
def deployment(tmp_path: Path) -> Deployment:
    """A deployment whose handler fails."""
    deployment = Deployment(tmp_path)
    deployment.write_handlers(HANDLER.format(does="raise ValueError('a mistake')"))
    return deployment


async def deliver(serving: Serving, key: str) -> None:
    """Send a delivery, which has to be acknowledged."""
    body = {"type": "crawl.page", "id": "job", "webhookId": key, "success": True, "data": []}
    assert (await post(serving.port, json.dumps(body).encode())).status == 200


async def test_the_worker_runs_the_new_code_after_a_change(deployment: Deployment) -> None:
    """It says which file has changed. Work that died of the old code runs with the new one after `retry`."""
    async with deployment.serve("--reload") as serving:
        await serving.line("worker_started")
        await deliver(serving, "k1")
        await serving.line("DEAD after attempt 1", "a mistake")

        deployment.write_handlers(HANDLER.format(does="open('handled', 'a').write(event.webhook_id)"))
        await serving.line("code_changed", "handlers.py")
        await serving.line("worker_started", times=2)
        assert deployment.run("work-items", "retry", "--state", "dead", "--yes").code == 0
        await deployment.all_handled()

    assert (deployment.folder / "handled").read_text() == "k1"


async def test_a_mistake_in_the_code_does_not_stop_the_intake(deployment: Deployment) -> None:
    """The error is told once, with its file and line; the next change starts the worker again."""
    async with deployment.serve("--reload") as serving:
        await serving.line("worker_started")
        deployment.write_handlers("from receiver import Router\nrouter = Router(\n")
        await serving.line("worker_waits_for_change")
        await deliver(serving, "k1")
        assert serving.output.count("receiver: handlers does not import: SyntaxError") == 1
        assert "(handlers.py:2)" in serving.output

        deployment.write_handlers(HANDLER.format(does="open('handled', 'a').write(event.webhook_id)"))
        await deployment.all_handled()

    assert serving.output.count("worker_started") == 2


async def test_a_first_mistake_waits_for_a_change_too(deployment: Deployment) -> None:
    """Without --reload the command ends, so that whoever deploys it sees the error."""
    deployment.write_handlers("no_such_name\n")
    async with deployment.serve("--reload") as serving:
        await serving.line("worker_waits_for_change")
        deployment.write_handlers(HANDLER.format(does="pass"))
        await serving.line("worker_started")


async def test_other_files_do_not_restart_the_worker(deployment: Deployment) -> None:
    """The database and the output of handlers are in the same folder."""
    async with deployment.serve("--reload") as serving:
        await serving.line("worker_started")
        for name in ("notes.txt", ".hidden.py", "venv/lib/site-packages/other.py", "__pycache__/x.py"):
            path = deployment.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("")
        (deployment.folder / "helpers.py").write_text("")
        assert "files=helpers.py" in await serving.line("code_changed")

    assert serving.output.count("code_changed") == 1


async def test_a_new_package_is_a_change(deployment: Deployment) -> None:
    """The system does not report files that are in a folder before it is watched."""
    package = deployment.folder / "made elsewhere" / "helpers"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (deployment.folder / "code").mkdir()
    async with deployment.serve("--reload") as serving:
        await serving.line("worker_started")
        package.rename(deployment.folder / "code" / "helpers")

        assert "files=code/helpers" in await serving.line("code_changed")


async def test_dev_shows_each_event_once_and_reloads(deployment: Deployment) -> None:
    """The line about its arrival is that of `receiver tail`; the log has the runs of handlers."""
    deployment.write_handlers(HANDLER.format(does="pass"))
    async with deployment.dev() as serving:
        await serving.line("webhook of your jobs is that address with /webhooks")
        await serving.line("worker_started")
        await deliver(serving, "k1")
        await serving.line("k1", "crawl.page", "job")
        await serving.line("✓ crawl.page")
        deployment.write_handlers(HANDLER.format(does="pass  # changed"))
        await serving.line("worker_started", times=2)

    assert "accepted" not in serving.output
    assert "change detected" not in serving.output


def test_reload_needs_a_worker(deployment: Deployment) -> None:
    """Nothing else has code that changes."""
    done = deployment.run("serve", "--reload", "--no-worker")

    assert done.code == 2
    assert "leave out --no-worker" in done.text
