"""The start of `receiver serve`: the process that writes comes up while the server loads, and never outlives it."""

import os
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.process.harness import Deployment, Serving, kill

LOADING = """
import importlib.abc, pathlib, runpy, sys

class Waiting(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "receiver.cli.common.serving":
            print("loading the server", flush=True)
            pathlib.Path("released").read_text()

sys.meta_path.insert(0, Waiting())
runpy.run_module("receiver", run_name="__main__")
"""
"""Runs `receiver`, which loads the server when somebody opens the pipe `released` for writing."""


@asynccontextmanager
async def loading(deployment: Deployment) -> AsyncIterator[tuple[Serving, int]]:
    """Start a server that is loading, and has started a process that writes; gives both."""
    os.mkfifo(deployment.folder / "released")
    async with deployment.serve(launcher=("-c", LOADING), wait=False) as serving:
        await serving.line("loading the server")
        yield serving, await serving.writer()


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, 130), (signal.SIGTERM, -15), (signal.SIGHUP, -1), (signal.SIGKILL, -9)],
)
async def test_whatever_ends_a_server_that_loads_leaves_no_process(
    tmp_path: Path, number: signal.Signals, code: int
) -> None:
    """The process that writes sees that its socket is closed."""
    async with loading(Deployment(tmp_path)) as (serving, _):
        serving.send_signal(number)

        assert await serving.exit_code() == code
        await serving.gone()

        assert "Traceback" not in serving.output


async def test_a_process_that_dies_while_the_server_loads_ends_the_start(tmp_path: Path) -> None:
    """It is told as at any other time of the start."""
    async with loading(Deployment(tmp_path)) as (serving, writer):
        kill(writer)
        (tmp_path / "released").write_text("")

        assert await serving.exit_code() == 3
        await serving.gone()

        assert "the writer process could not open the store: killed by SIGKILL" in serving.output
        assert "Traceback" not in serving.output


async def test_a_server_that_took_long_to_load_serves(tmp_path: Path) -> None:
    """Its process has opened the store by then, and waits."""
    deployment = Deployment(tmp_path)
    async with loading(deployment) as (serving, writer):
        (tmp_path / "released").write_text("")
        await serving.line("listening")

        assert serving.children_with("receiver.stores.writer_process") == [writer]


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_a_console_on_the_port_of_the_endpoint_is_told_before_anything_is_begun(tmp_path: Path, host: str) -> None:
    """The message names both settings: no other program has the port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    deployment = Deployment(tmp_path, host=host, port=port, console_port=port)

    done = deployment.run("serve", "--console")

    assert done.code == 2
    assert f"RECEIVER_PORT and RECEIVER_CONSOLE_PORT are both {port}: choose another" in done.text
    assert not deployment.database.exists()


def test_a_taken_port_is_told_before_anything_is_begun(tmp_path: Path) -> None:
    """No process has made a database."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        deployment = Deployment(tmp_path, port=str(taken.getsockname()[1]))
        done = deployment.run("serve")

    assert done.code == 2
    assert "is taken by another program; choose another with --port" in done.text
    assert not deployment.database.exists()
