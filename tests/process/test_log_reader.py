"""A reader of the logs that stops reading, as a stuck log shipper or a paused terminal does."""

import json
import random
import signal
from pathlib import Path

from tests.process.harness import STEADY, Deployment, Load

COUNT = 1_000
PIPE_BYTES = 64 * 1024
"""What a pipe takes (Linux manual, pipe(7)); `receiver serve` and its worker write to the same one."""


def lines_of(lines: list[str], word: str) -> list[str]:
    """Return the lines with this event; every line must be whole."""
    return [line for line in lines if json.loads(line)["event"] == word]


async def test_an_unread_log_delays_no_acknowledgement_and_no_handler(tmp_path: Path) -> None:
    """And once it is read again, every line is there."""
    deployment = Deployment(tmp_path, log_level="debug", json_logs="true", **STEADY)
    load = Load(random.Random(5))
    async with deployment.serve() as serving:
        await serving.line("worker_started")
        with serving.unread():
            await load.send(serving.port, COUNT)
            assert load.answers == {200: COUNT}
            await deployment.all_handled()

        serving.send_signal(signal.SIGTERM)
        assert await serving.exit_code() == 0
        await serving.gone()
        for word in ("delivery_accepted", "attempt_succeeded"):
            lines = lines_of(serving.lines, word)
            assert len(lines) == COUNT
            assert len("".join(lines)) > 3 * PIPE_BYTES


async def test_an_unread_log_delays_no_exit(tmp_path: Path) -> None:
    """What is still in the queue is given up after a while."""
    deployment = Deployment(tmp_path, log_level="debug", json_logs="true", **STEADY)
    load = Load(random.Random(6))
    async with deployment.serve() as serving:
        await serving.line("worker_started")
        with serving.unread():
            await load.send(serving.port, COUNT)
            serving.send_signal(signal.SIGTERM)

            assert await serving.exit_code() == 0
        assert load.answers == {200: COUNT}
