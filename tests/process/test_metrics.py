"""Metrics and signals of real processes: what is served where, and that watching costs no handler anything."""

import asyncio
import random
import signal
import socket
from contextlib import closing
from pathlib import Path

from receiver.core.signing import sign
from tests.process.harness import (
    HANDLERS,
    PATIENCE_SECONDS,
    STEADY,
    Answer,
    Deployment,
    Load,
    Serving,
    connection,
    post,
    raw_request,
    until,
)
from tests.process.waiting import POLL_SECONDS
from tests.signals.exposition import Samples, samples

TOKEN = "token-of-the-scraper"
BEARER = ("Authorization", f"Bearer {TOKEN}")
SUCCEEDED = ("receiver_attempts_total", "handler=handlers.record", "outcome=succeeded")

BLOCKING = """
import time
from receiver import Router

router = Router()

@router.on("*")
async def block(event):
    open("blocking", "w").close()
    time.sleep(3600)
"""

WATCHED = f"""{HANDLERS}
import asyncio, time
from receiver.signals import contracts as signals

@signals.work_done.connect
def block(done):
    open("blocked", "w").close()
    time.sleep(3600)

@signals.work_done.connect
async def block_loop(done):
    time.sleep(3600)

@signals.work_done.connect
def fail(done):
    raise ValueError(done.key)

@signals.work_done.connect
async def note(done: signals.WorkDone) -> None:
    await asyncio.sleep(0)
    with open("noted", "a") as noted:
        noted.write(done.key + "\\n")
"""


async def scrape(port: int, *headers: tuple[str, str]) -> Answer:
    """Ask for the metrics of one process, from this machine."""
    request = raw_request("GET", "/metrics", None, headers).replace(b"receiver.test", b"localhost")
    async with connection(port) as line:
        await line.say(request)
        return await line.answer()


async def figures(port: int, *headers: tuple[str, str]) -> Samples:
    answer = await scrape(port, *headers)
    assert answer.status == 200
    return samples(answer.body)


async def worker_port(serving: Serving) -> int:
    """Return the port that the worker's log names."""
    line = await serving.line("serving_metrics", "http://")
    return int(line.partition("http://127.0.0.1:")[2].partition("/")[0])


async def test_both_processes_count_their_work(tmp_path: Path) -> None:
    """The endpoint of deliveries, the worker of handlers; both ask for the token."""
    deployment = Deployment(tmp_path, metrics="true", metrics_port="0", metrics_token=TOKEN, **STEADY)
    bodies = [Load(random.Random(number)).body() for number in range(6)]
    async with deployment.serve() as serving:
        worker = await worker_port(serving)
        for body in [*bodies, bodies[0]]:
            assert (await post(serving.port, body)).status == 200
        assert (await post(serving.port, b"[]")).status == 400
        async with connection(serving.port) as line:
            await line.say(raw_request("POST", "/webhooks", b"{}", [("X-Firecrawl-Signature", sign(b"{}", "x"))]))
            assert (await line.answer()).status == 401
        await deployment.all_handled()

        for port in (serving.port, worker):
            assert (await scrape(port)).status == 401
            assert (await scrape(port, ("Authorization", "Bearer x"))).status == 401
        intake = await figures(serving.port, BEARER)
        async with asyncio.timeout(PATIENCE_SECONDS):  # what the store has recorded is counted a moment later
            while (work := await figures(worker, BEARER))[SUCCEEDED] < 6:  # noqa: ASYNC110 - another process does it
                await asyncio.sleep(POLL_SECONDS)

    assert intake["receiver_deliveries_total", "outcome=accepted", "type=crawl.page"] == 6
    assert intake["receiver_deliveries_total", "outcome=duplicate", "type=crawl.page"] == 1
    assert intake["receiver_refusals_total", "reason=malformed"] == 1
    assert intake["receiver_refusals_total", "reason=unauthenticated"] == 1
    assert intake["receiver_quarantined_total", "reason=malformed"] == 1
    assert intake["receiver_answer_seconds_count", "status=2xx"] == 7
    assert intake["receiver_answer_seconds_count", "status=4xx"] == 2
    assert intake["receiver_received_bytes_total",] == sum(map(len, [*bodies, bodies[0]])) + 4
    assert work[SUCCEEDED] == 6
    assert work["receiver_handler_seconds_count", "handler=handlers.record"] == 6
    assert work["receiver_work_dead_total", "handler=handlers.record"] == 0
    assert work["receiver_store_readable",] == 1
    assert TOKEN not in serving.output


async def test_a_blocked_worker_still_serves_metrics(tmp_path: Path) -> None:
    """That is when they are wanted; this machine needs no token."""
    deployment = Deployment(tmp_path, metrics="true", metrics_port="0")
    deployment.write_handlers(BLOCKING)
    async with deployment.serve() as serving:
        worker = await worker_port(serving)
        await post(serving.port, b'{"type": "crawl.page"}')
        await until((tmp_path / "blocking").exists, "the handler to block its event loop")

        work = await figures(worker)

        assert work["receiver_store_readable",] == 1
        assert work["receiver_work_items", "state=running"] == 1
        assert (await scrape(worker, ("X-Forwarded-For", "127.0.0.1"))).status == 401


async def test_metrics_are_off_unless_switched_on(tmp_path: Path) -> None:
    """Then the path is as any other that is not there."""
    async with Deployment(tmp_path).serve() as serving:
        answer = await scrape(serving.port)

        assert answer.status == 404
        assert answer.json()["error"] == "not_found"


async def test_a_port_that_is_taken_stops_no_worker(tmp_path: Path) -> None:
    """One line says so, and deliveries are handled as ever."""
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        deployment = Deployment(tmp_path, metrics="true", metrics_port=str(taken.getsockname()[1]))
        async with deployment.serve() as serving:
            await serving.line("metrics_not_served", "is taken", "RECEIVER_METRICS_PORT")
            await post(serving.port, b'{"type": "crawl.page"}')
            await deployment.all_handled()


def test_metrics_for_the_open_network_need_a_token(tmp_path: Path) -> None:
    """In one line, before anything listens or is created."""
    deployment = Deployment(tmp_path, metrics="true", host="0.0.0.0")
    for command in ("serve", "work"):
        done = deployment.run(command)

        assert done.code == 2
        assert len(done.stderr.splitlines()) == 1
        assert "RECEIVER_METRICS_TOKEN" in done.stderr
    assert not deployment.database.exists()


async def test_subscribers_that_block_or_raise_cost_no_handler_anything(tmp_path: Path) -> None:
    """Nor the subscribers beside them, nor a clean and timely end."""
    deployment = Deployment(tmp_path, **STEADY)
    deployment.write_handlers(WATCHED)
    async with deployment.serve() as serving:
        for number in range(20):
            await post(serving.port, b'{"type": "crawl.page", "webhookId": "w-%d"}' % number)
        await deployment.all_handled()
        await until((tmp_path / "blocked").exists, "the subscriber to block")
        serving.send_signal(signal.SIGTERM)
        assert await serving.exit_code() == 0
        await serving.gone()

    noted = (tmp_path / "noted").read_text().split()
    assert sorted(noted) == sorted(f"w-{number}" for number in range(20))
    assert sum("subscriber_failed" in line for line in serving.lines) == 1
    await serving.line("subscribers_unfinished", "handlers.block", "handlers.block_loop")
    assert "worker_blocked" not in serving.output
    assert "worker_killed" not in serving.output
