"""`receiver tail` beside a server that stops, is killed, and starts again."""

import asyncio
import json
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.process.harness import PATIENCE_SECONDS, Deployment, Load, Program


def shown(tail: Program) -> list[str]:
    """Return the keys that a tail has shown."""
    return [json.loads(line)["id"] for line in tail.lines if line.startswith("{")]


async def shows_all(tail: Program, load: Load) -> None:
    """Return once everything acknowledged has been shown, and nothing twice."""
    for key in load.acknowledged:
        await tail.line(key)
    assert sorted(shown(tail)) == sorted(load.acknowledged)


@pytest.mark.parametrize("state", [(), ("--state", "done")])
async def test_tail_follows_a_server_through_restarts(tmp_path: Path, state: tuple[str, ...]) -> None:
    """From before there is a store, through stops and a kill: each delivery is shown once. Ctrl-C is its end.

    Also with a state, to which the worker that dies with the server may not have brought all.
    """
    deployment = Deployment(tmp_path)
    load = Load(random.Random(1))
    async with deployment.start("tail", "--json", *state) as tail:
        await tail.line("waiting: there is no database yet")
        for end in (signal.SIGTERM, signal.SIGKILL, signal.SIGTERM):
            async with deployment.serve() as serving:
                await load.send(serving.port, 40)
                if not state:
                    await shows_all(tail, load)
                serving.send_signal(end)
                await serving.exit_code()

        async with deployment.serve():
            await shows_all(tail, load)
        tail.send_signal(signal.SIGINT)
        assert await tail.exit_code() == 0
        assert sorted(shown(tail)) == sorted(load.acknowledged)
    assert "Traceback" not in tail.output


async def test_tail_ends_when_nobody_reads_it_any_more(tmp_path: Path) -> None:
    """As in `receiver tail | head -1`: at once, with exit code 0, and without a word."""
    deployment = Deployment(tmp_path)
    load = Load(random.Random(2))
    async with deployment.serve("--no-worker") as serving:
        await load.send(serving.port, 1)
        with piped(deployment) as tail:
            assert tail.stdout is not None
            assert tail.stderr is not None
            assert b"received" in await asyncio.to_thread(tail.stdout.readline)  # the names of the columns
            assert b"crawl.page" in await asyncio.to_thread(tail.stdout.readline)
            tail.stdout.close()
            assert await asyncio.to_thread(tail.wait, PATIENCE_SECONDS) == 0
            assert tail.stderr.read() == b""


@contextmanager
def piped(deployment: Deployment) -> Iterator["subprocess.Popen[bytes]"]:
    """Start a tail whose output goes into a pipe of our own."""
    with subprocess.Popen(
        [sys.executable, "-m", "receiver", "tail"],
        cwd=deployment.folder,
        env=deployment.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as tail:
        try:
            yield tail
        finally:
            tail.kill()
