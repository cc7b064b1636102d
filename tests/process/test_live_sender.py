"""`receiver simulate --to` beside a real server: through kills and restarts, with faults, and in its own time."""

import asyncio
import json
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.process.harness import Deployment, Program

FAULTS = ("--duplicates", "0.1", "--reordered", "0.1", "--forged", "0.1", "--truncated", "0.1", "--slow", "0.1")
PATIENT = ("--timeout", "5m")
"""At sixty times the speed five seconds: what is slow here is the machine."""
MICROSECOND = 1e-6
"""What a trace rounds to."""


def lines(program: Program) -> list[dict[str, Any]]:
    """Return what a program has written as JSON."""
    return [json.loads(line) for line in program.lines if line.startswith("{")]


def figures(folder: Path, program: Program) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the report and the trace of a run."""
    [report] = lines(program)
    return report, [json.loads(line) for line in (folder / "trace").read_text().splitlines()]


@asynccontextmanager
async def sending(deployment: Deployment, port: int, *more: str) -> AsyncIterator[Program]:
    """Start a live run at sixty times the speed."""
    arguments = ("simulate", "--to", f"http://127.0.0.1:{port}/webhooks", "--speed", "60", *more)
    async with deployment.start(*arguments) as program:
        yield program


async def test_every_delivery_is_stored_after_a_kill_and_a_restart(tmp_path: Path) -> None:
    """What was acknowledged is stored once; the sender's retries carry what was not, and none is lost."""
    deployment = Deployment(tmp_path)
    async with deployment.serve("--no-worker") as serving:
        port = serving.port
        arguments = ("--rate", "1/s", "--duration", "4m", *PATIENT, "--trace")
        async with sending(deployment, port, *arguments) as live:
            await live.line('"delivered"', times=40)
            serving.kill_all()
            await live.line('"retry 1"')
            async with deployment.serve("--no-worker", "--port", str(port)):
                assert await live.exit_code() == 0, live.output
                await live.gone()

    attempts = lines(live)
    acknowledged = {one["id"] for one in attempts if one["outcome"] == "ok"}
    failed = {one["id"] for one in attempts if one["outcome"] != "ok"}
    assert len(acknowledged) == 240
    assert failed
    assert failed <= acknowledged
    assert deployment.stored().keys() == acknowledged
    assert deployment.intact()


async def test_the_store_matches_the_report_under_every_fault(tmp_path: Path) -> None:
    """Duplicates counted, forged ones absent, cut ones refused or in quarantine, slow ones whole or not at all."""
    deployment = Deployment(tmp_path)
    async with deployment.serve("--no-worker") as serving:
        arguments = ("--rate", "2/s", "--duration", "1m", *PATIENT, *FAULTS, "--json", "--trace", "trace")
        async with sending(deployment, serving.port, *arguments) as live:
            assert await live.exit_code() == 0, live.output
            await live.gone()

    report, attempts = figures(tmp_path, live)
    faults, store = report["faults"], report["store"]
    assert min(faults.values()) > 0
    assert report["wrong"] == {}
    assert report["deliveries"] == report["delivered"] == store["stored"] == 120
    assert deployment.stored().keys() == {one["id"] for one in attempts}
    assert store["duplicates"] >= faults["duplicates"]
    assert 0 < store["quarantined"] < faults["truncated"]
    [(quarantined,)] = deployment.rows("SELECT count(*) FROM quarantine")
    assert quarantined == store["quarantined"]


async def test_a_delivery_missing_in_the_store_is_reported(tmp_path: Path) -> None:
    """Exit code 1, and the ids: another file in the store's place has none of what was acknowledged."""
    deployment = Deployment(tmp_path)
    elsewhere = f"sqlite:///{tmp_path / 'elsewhere.db'}"
    async with deployment.serve("--no-worker") as serving, deployment.serve("--no-worker", "--store", elsewhere):
        arguments = ("--at", "0s", *PATIENT, "--json", "--store", elsewhere)
        async with sending(deployment, serving.port, *arguments) as live:
            assert await live.exit_code() == 1, live.output
            await live.gone()

    [report] = lines(live)
    assert report["wrong"] == {"missing": {"count": 1, "examples": list(deployment.stored())}}


async def test_ctrl_c_ends_the_sender_with_a_partial_report(tmp_path: Path) -> None:
    """Exit code 130; what was on its way is awaited, and what was acknowledged until then is looked for."""
    deployment = Deployment(tmp_path)
    async with deployment.serve("--no-worker") as serving:
        arguments = ("--rate", "1/s", *PATIENT, "--json", "--trace", "trace")
        async with sending(deployment, serving.port, *arguments) as live:
            await serving.line("accepted", times=5)
            live.send_signal(signal.SIGINT)
            assert await live.exit_code() == 130, live.output
            await live.gone()

    report, _ = figures(tmp_path, live)
    assert report["interrupted"]
    assert report["wrong"] == {}
    assert 5 <= report["delivered"] == report["store"]["stored"] < 3600
    assert "stopping after the open requests" in live.output
    assert "Traceback" not in live.output


async def test_without_a_store_the_sender_sends_nothing(tmp_path: Path) -> None:
    """Exit code 3, and what to say instead; --no-check sends, and exit code 1 tells that nothing arrived."""
    deployment = Deployment(tmp_path)
    sent = ("simulate", "--to", "http://127.0.0.1:9/webhooks", "--at", "0s", "--pauses", "1ms,1ms,1ms")

    refused = await asyncio.to_thread(deployment.run, *sent)
    assert refused.code == 3
    assert "--no-check" in refused.stderr
    assert refused.stdout == b""

    done = await asyncio.to_thread(deployment.run, *sent, "--no-check", "--json")
    assert done.code == 1
    report = json.loads(done.stdout)
    assert (report["failed"], report["store"], report["wrong"]["lost"]["count"]) == (1, None, 1)
    assert "nothing listens at http://127.0.0.1:9/webhooks" in done.stderr


@pytest.mark.long
async def test_a_live_run_at_sixty_times_the_speed_follows_the_simulated_timeline(tmp_path: Path) -> None:
    """Two outages in a quarter of a minute: the same attempts and ends, and no pause shorter than the sender's.

    No attempt is planned in the last three minutes of an outage, three seconds here: a machine that stalls for less
    changes no end. How deliveries mix is left to the machine; the order within each is not. What comes after the
    outages gets through.
    """
    deployment = Deployment(tmp_path)
    outages = ("--outage", "0s..4m30s", "--outage", "4m30s..14m:hang")
    sent = ("--at", "0s", "--at", "30s", "--at", "15m", "--pauses", "1m,4m,4m")
    scenario = (*sent, *outages, "--trace")
    simulated = [json.loads(line) for line in deployment.run("simulate", *scenario).stdout.splitlines()]
    async with (
        deployment.serve("--no-worker") as serving,
        sending(deployment, serving.port, *scenario, "--play-outages") as live,
    ):
        await live.gone()
    real = lines(live)

    assert deployment.stored().keys() == {one["id"] for one in real if one["delivery"] == 3}
    for delivery in (1, 2):
        planned, played = of(simulated, delivery), of(real, delivery)
        assert [fixed_parts(one) for one in played] == [fixed_parts(one) for one in planned]
        assert played[0]["started_s"] >= planned[0]["started_s"]
        for ours, senders in zip(pauses(played), pauses(planned), strict=True):
            assert ours >= senders - MICROSECOND


def of(trace: list[dict[str, Any]], delivery: int) -> list[dict[str, Any]]:
    """Return the attempts of one delivery."""
    return [one for one in trace if one["delivery"] == delivery]


def pauses(attempts: list[dict[str, Any]]) -> list[float]:
    """Return the seconds from the end of each attempt to the start of the one after it."""
    return [later["started_s"] - earlier["ended_s"] for earlier, later in pairwise(attempts)]


def fixed_parts(attempt: dict[str, Any]) -> tuple[Any, ...]:
    """Return what of an attempt does not depend on the machine."""
    return attempt["attempt"], attempt["outcome"], attempt["state"]
