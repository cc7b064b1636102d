"""The processes of `receiver serve` on a terminal: one session, and groups that the terminal does not interrupt."""

import os
import random
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.process.harness import Deployment, Load
from tests.process.programs import Serving, children_of

ON_A_TERMINAL = """
import fcntl, os, pty, runpy, shutil, sys, termios, threading

ours, terminal = pty.openpty()
fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
attributes = termios.tcgetattr(terminal)
attributes[3] |= termios.TOSTOP
termios.tcsetattr(terminal, termios.TCSANOW, attributes)
output = os.dup(1)
os.dup2(terminal, 1)
os.dup2(terminal, 2)

def show():
    while shown := os.read(ours, 4096):
        os.write(output, shown)

threading.Thread(target=show, daemon=True).start()
runpy.run_module("receiver", run_name="__main__")
"""
"""Runs the program on a terminal that stops other groups of processes when they write (termios(3), TOSTOP)."""

HANDLERS = """
import logging
from receiver import Router
from receiver.events import Event

router = Router()

@router.on("*", run_in="process")
def record(event: Event) -> None:
    logging.getLogger("handlers").info("handled_in_a_process")
"""

ASKING_HANDLERS = """
import subprocess
from receiver import Router
from receiver.events import Event

router = Router()

def ask() -> None:
    asked = subprocess.run(["head", "-c", "1", "/dev/tty"], capture_output=True)
    assert asked.returncode == 1

@router.on("*")
def ask_in_the_worker(event: Event) -> None:
    ask()

@router.on("*", run_in="process")
def ask_in_a_process(event: Event) -> None:
    ask()
"""
"""As git asks for a password: not standard input, but the terminal."""


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not share processors among sessions")
async def test_every_process_is_in_the_session_and_in_a_group_of_its_own(tmp_path: Path) -> None:
    """Ctrl-C reaches only the web process, and Linux shares processors among sessions before processes."""
    deployment = Deployment(tmp_path)
    deployment.write_handlers(HANDLERS)
    load = Load(random.Random(1))
    async with deployment.serve() as serving:
        await load.send(serving.port, 1)
        await deployment.all_handled()
        worker = await serving.worker()
        (isolated,) = children_of(worker)
        started = [await serving.writer(), worker, isolated]
        sessions = {os.getsid(one) for one in (serving.pid, *started)}
        groups = [os.getpgid(one) for one in started]

    assert sessions == {serving.pid}
    assert groups == started


@asynccontextmanager
async def handled_on_a_terminal(folder: Path, handlers: str) -> AsyncIterator[tuple[Deployment, Serving]]:
    """Run the server on a terminal, with a delivery that its worker has handled."""
    deployment = Deployment(folder)
    deployment.write_handlers(handlers)
    async with deployment.serve(launcher=("-c", ON_A_TERMINAL)) as serving:
        await serving.line("worker_started")
        await Load(random.Random(1)).send(serving.port, 1)
        await deployment.all_handled()
        yield deployment, serving


async def test_a_line_to_the_terminal_stops_no_process(tmp_path: Path) -> None:
    """Also where the user has said `stty tostop`."""
    async with handled_on_a_terminal(tmp_path, HANDLERS) as (_, serving):
        assert await serving.line("handled_in_a_process")


async def test_a_program_of_a_handler_finds_no_terminal_to_ask(tmp_path: Path) -> None:
    """The terminal would stop the worker with the program, for ever, since neither is in front."""
    async with handled_on_a_terminal(tmp_path, ASKING_HANDLERS) as (deployment, _):
        states = deployment.rows("SELECT state, count(*) FROM work_items GROUP BY state")

    assert states == [("done", 2)]
