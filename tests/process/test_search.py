"""The index of words beside a running server."""

import asyncio
import json
from pathlib import Path

from tests.process.harness import Deployment, post, until


def page(number: int) -> bytes:
    """Return a page with a URL of its own."""
    metadata = {"sourceURL": f"https://example.com/docs/{number}"}
    return json.dumps({"type": "crawl.page", "webhookId": f"k{number}", "data": [{"metadata": metadata}]}).encode()


def found(deployment: Deployment, words: str) -> set[str]:
    """Return the ids of what `events list --text` finds."""
    done = deployment.run("events", "list", "--json", "--text", words)
    assert done.code == 0, done.text
    return {json.loads(line)["id"] for line in done.stdout.splitlines()}


async def test_a_worker_indexes_stored_and_new_deliveries(tmp_path: Path) -> None:
    """Once the setting is on; before that a search says so, and afterwards the index stays."""
    deployment = Deployment(tmp_path)
    async with deployment.serve() as serving:
        for number in range(3):
            await post(serving.port, page(number))
        assert (await asyncio.to_thread(deployment.run, "events", "list", "--text", "docs")).code == 2

    deployment.settings["SEARCH"] = "true"
    async with deployment.serve() as serving:
        await post(serving.port, page(3))
        await until(lambda: _indexed(deployment) == 4, "all to be in the index")
        assert await asyncio.to_thread(found, deployment, "docs") == {"k0", "k1", "k2", "k3"}
        await deployment.all_handled()

    deployment.settings["SEARCH"] = "false"
    assert await asyncio.to_thread(found, deployment, "https://example.com/docs/2") == {"k2"}
    assert deployment.intact()


def _indexed(deployment: Deployment) -> int:
    """Return how far the index is; the mark is 0 until there is one."""
    [(mark,)] = deployment.rows("SELECT value FROM marks WHERE name = 'indexed'")
    return int(mark)
