"""A reader of the logs that stops reading, as a stuck log shipper or a paused terminal does."""

import json
import random
import signal
from pathlib import Path

from tests.process.harness import HANDLERS, STEADY, Deployment, Load

COUNT = 1_000
PIPE_BYTES = 64 * 1024
"""What a pipe takes (Linux manual, pipe(7)); `receiver serve` and its worker write to the same one."""

TALKATIVE = f"""{HANDLERS}
    ctx.log.info("a long line: " + "x" * 500)
"""
"""Handlers whose lines fill the pipe many times over; the receiver's own are summed up above a rate."""


def talkative(folder: Path) -> Deployment:
    """Return a deployment whose log is much longer than the pipe."""
    deployment = Deployment(folder, log_level="debug", json_logs="true", **STEADY)
    deployment.write_handlers(TALKATIVE)
    return deployment


def told(lines: list[str], word: str, sum_word: str) -> int:
    """Return how many of an event the lines tell of, each in one line or in a sum; every line must be whole."""
    events = [json.loads(line) for line in lines]
    counts: list[int] = [event["count"] for event in events if event["event"] == sum_word]
    return sum(counts) + len([event for event in events if event["event"] == word])


async def test_an_unread_log_delays_no_acknowledgement_and_no_handler(tmp_path: Path) -> None:
    """And once it is read again, it tells of each of them."""
    deployment = talkative(tmp_path)
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
        assert told(serving.lines, "delivery_accepted", "deliveries_received") == COUNT
        assert told(serving.lines, "attempt_succeeded", "attempts_succeeded") == COUNT
        assert len([line for line in serving.lines if "a long line" in line]) == COUNT
        assert len("".join(serving.lines)) > 3 * PIPE_BYTES


async def test_an_unread_log_delays_no_exit(tmp_path: Path) -> None:
    """What is still in the queue is given up after a while."""
    deployment = talkative(tmp_path)
    load = Load(random.Random(6))
    async with deployment.serve() as serving:
        await serving.line("worker_started")
        with serving.unread():
            await load.send(serving.port, COUNT)
            await deployment.all_handled()
            serving.send_signal(signal.SIGTERM)

            assert await serving.exit_code() == 0
        assert load.answers == {200: COUNT}
