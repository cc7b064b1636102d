"""`receiver replay` in a process of its own: Ctrl-C in handlers of every kind, a full disk, changes of the code."""

import asyncio
import os
import resource
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from receiver.stores import open_store
from tests.doubles import appended, delivery
from tests.process.harness import PATIENCE_SECONDS, Deployment, Program

_STOPPING = "stopping after this event"
_GO_ON = "to continue where this stopped:"

_CODE = """
import asyncio, os, threading, time
from receiver import Router

router = Router()

@router.on("crawl.page")
{function}
    with open("handled", "a") as file:
        print(ctx.delivery.id, file=file)
"""
_ASYNC = """async def one(event, ctx):
    if ctx.delivery.id == "k1":
        print("in it", flush=True)
        await asyncio.sleep(600)"""
_PLAIN = """def one(event, ctx):
    if ctx.delivery.id == "k1":
        print("in it", flush=True)
        threading.Event().wait(600)"""
_BLOCKING = """async def one(event, ctx):
    if ctx.delivery.id == "k1":
        print("in it", flush=True)
        time.sleep(600)"""
_WAITING = """async def one(event, ctx):
    if ctx.delivery.id == "k1":
        print("in it", flush=True)
        while not os.path.exists("go"):
            await asyncio.sleep(0.01)"""
_KINDS = {"async": _ASYNC, "plain": _PLAIN, "blocking": _BLOCKING}


@pytest.fixture
async def deployment(tmp_path: Path) -> Deployment:
    """A folder with three stored deliveries."""
    deployment = Deployment(tmp_path)
    async with open_store(f"sqlite:///{deployment.database}").log() as log:
        await asyncio.gather(*[appended(log, delivery(f"k{n}")) for n in range(3)])
    return deployment


def handled(deployment: Deployment) -> list[str]:
    """Return the keys that a handler has written down."""
    path = deployment.folder / "handled"
    return path.read_text().splitlines() if path.exists() else []


async def go_on(deployment: Deployment, program: Program) -> None:
    """Run the command that was printed."""
    line = program.lines[program.lines.index(_GO_ON) + 1]
    name, *arguments = shlex.split(line)
    assert name == "receiver"
    done = await asyncio.to_thread(deployment.run, *arguments)
    assert done.code == 0, done.text


@pytest.mark.parametrize("kind", _KINDS)
async def test_ctrl_c_twice_cuts_a_handler_off(kind: str, deployment: Deployment) -> None:
    """Whatever it is in; what ran before is recorded, and the delivery at hand is the first of the next replay."""
    deployment.write_handlers(_CODE.format(function=_KINDS[kind]))
    async with deployment.start("replay", "--yes", "--record", "--save", "saved") as program:
        await program.line("in it")
        program.send_signal(signal.SIGINT)
        await program.line(_STOPPING)
        program.send_signal(signal.SIGINT)
        assert await program.exit_code() == 130
        await program.gone()

    assert handled(deployment) == ["k0"]
    assert deployment.work() == [("handlers.one", "done", 1)]
    deployment.write_handlers(_CODE.format(function="async def one(event, ctx):"))
    await go_on(deployment, program)
    assert handled(deployment) == ["k0", "k1", "k2"]
    assert deployment.work() == [("handlers.one", "done", 1)] * 3
    assert len((deployment.folder / "saved").read_text().splitlines()) == 1 + 3
    assert "Traceback" not in program.output


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_first_signal_lets_the_delivery_end(number: signal.Signals, deployment: Deployment) -> None:
    """And the next one does not begin. The command says how to go on."""
    deployment.write_handlers(_CODE.format(function=_WAITING))
    async with deployment.start("replay", "--yes") as program:
        await program.line("in it")
        program.send_signal(number)
        await program.line(_STOPPING)
        (deployment.folder / "go").touch()
        assert await program.exit_code() == 130
        await program.gone()

    assert handled(deployment) == ["k0", "k1"]
    await go_on(deployment, program)
    assert handled(deployment) == ["k0", "k1", "k2"]


@pytest.mark.parametrize("form", [(), ("--json",)], ids=["lines", "json"])
async def test_a_pipe_gets_each_result_while_the_next_handler_runs(
    form: tuple[str, ...], deployment: Deployment
) -> None:
    """As in `receiver replay | cat`. The handlers print nothing."""
    function = """async def one(event, ctx):
    while ctx.delivery.id == "k1" and not os.path.exists("go"):
        await asyncio.sleep(0.01)"""
    deployment.write_handlers(_CODE.format(function=function))
    async with deployment.start("replay", "--yes", *form) as program:
        await program.line("succeeded", "k0")
        (deployment.folder / "go").touch()
        assert await program.exit_code() == 0


def test_a_handler_that_ends_the_process_takes_no_result_with_it(deployment: Deployment) -> None:
    """The handlers of a replay run in the process that writes the results."""
    function = "async def one(event, ctx):\n    if ctx.delivery.id == 'k2':\n        os._exit(7)"
    deployment.write_handlers(_CODE.format(function=function))

    done = deployment.run("replay", "--yes")

    assert done.code == 7
    assert [line.split()[2] for line in done.text.splitlines() if "succeeded" in line] == ["k0", "k1"]


async def test_sigterm_twice_cuts_a_handler_off(deployment: Deployment) -> None:
    """As Ctrl-C does."""
    deployment.write_handlers(_CODE.format(function=_PLAIN))
    async with deployment.start("replay", "--yes", "--record") as program:
        await program.line("in it")
        program.send_signal(signal.SIGTERM)
        await program.line(_STOPPING, "send SIGTERM again")
        program.send_signal(signal.SIGTERM)
        assert await program.exit_code() == 130
        await program.gone()

    assert deployment.work() == [("handlers.one", "done", 1)]
    assert _GO_ON in program.lines


def test_a_full_disk_stops_a_replay_after_a_whole_delivery(deployment: Deployment) -> None:
    """The file goes on where its last whole line is, and ends like one that never stopped."""
    returns = "async def one(event, ctx):\n    return ctx.delivery.id * 30_000"
    deployment.write_handlers(_CODE.format(function=returns).rpartition("    with open")[0])

    def small_files() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (90_000, resource.RLIM_INFINITY))

    done = subprocess.run(
        [sys.executable, "-B", "-m", "receiver", "replay", "--yes", "--save", "saved"],
        cwd=deployment.folder,
        env=deployment.environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
        preexec_fn=small_files,
    )
    assert done.returncode == 1
    assert "receiver: cannot write saved: File too large" in done.stderr
    lines = done.stderr.splitlines()
    arguments = shlex.split(lines[lines.index(_GO_ON) + 1])[1:]

    assert deployment.run(*arguments).code == 0
    assert deployment.run("replay", "--yes", "--save", "whole").code == 0
    saved, whole = ((deployment.folder / name).read_text().splitlines() for name in ("saved", "whole"))
    assert len(saved) == len(whole) == 4
    compared = deployment.run("replay", "--yes", "--compare", "saved")
    assert "3  same" in compared.text


async def test_reload_runs_again_after_every_change(deployment: Deployment) -> None:
    """Also after one that breaks the code, and in the middle of a run; Ctrl-C ends it and what runs."""
    deployment.write_handlers(_CODE.format(function="async def one(event, ctx):\n    print('first', flush=True)"))
    async with deployment.start("replay", "--reload", "--yes") as program:
        await program.line("first", times=3)
        await program.line("waiting for a change")
        deployment.write_handlers("from receiver import\n")
        await program.line("handlers.py changed; running again")
        await program.line("receiver: handlers does not import: SyntaxError")
        deployment.write_handlers(_CODE.format(function=_ASYNC))
        await program.line("in it")
        deployment.write_handlers(_CODE.format(function=_ASYNC.replace("in it", "in the next")))
        await program.line("in the next")

        program.send_signal_to_group(signal.SIGINT)
        assert await program.exit_code() == 130
        await program.gone()

    assert handled(deployment) == ["k0", "k1", "k2", "k0", "k0"]
    assert program.output.count("events to replay here") == 1
    assert _GO_ON not in program.output
    assert "Traceback" not in program.output


async def test_reload_ends_at_once_when_nothing_can_be_planned(deployment: Deployment) -> None:
    """With the exit code that a replay has."""
    deployment.database.unlink()

    done = await asyncio.to_thread(deployment.run, "replay", "--reload", "--yes")

    assert done.code == 3
    assert "there is no database" in done.text


async def test_a_replay_gives_way_to_the_endpoint_unless_it_writes(deployment: Deployment) -> None:
    """Where the processors are busy. A writer that waits for one would keep its lock from the endpoint."""
    function = "def one(event, ctx):\n    import os\n    open('nice', 'a').write(f'{os.nice(0)} ')"
    deployment.write_handlers(_CODE.format(function=function))

    for options in ((), ("--record",)):
        assert deployment.run("replay", "--yes", "--limit", "1", *options).code == 0

    own = os.nice(0)
    assert (deployment.folder / "nice").read_text().split() == [str(min(own + 10, 19)), str(own)]
