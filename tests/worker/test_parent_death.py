"""What the kernel does for a process whose parent has died and whose own threads cannot run."""

import asyncio
import os
import signal
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from receiver.runtime import processes
from tests.doubles import soon

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells of a parent's death")

PARENT = """
import subprocess, sys
subprocess.run([sys.executable, "-c", sys.argv[1], *sys.argv[2:]], check=False)
"""
KEEPS_THE_INTERPRETER_LOCK = """
import re, sys
from receiver.runtime.processes import arm
out = open(sys.argv[1], "w")
arm(1)
print("armed", file=out, flush=True)
re.match(r"(a+)+$", "a" * 60 + "b")
"""


async def test_a_process_that_cannot_run_its_threads_ends_after_its_parent(tmp_path: Path) -> None:
    """A hard regular expression keeps the interpreter lock for years."""
    fifo = tmp_path / "alive"
    os.mkfifo(fifo)
    parent = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PARENT, KEEPS_THE_INTERPRETER_LOCK, str(fifo)
    )
    with await soon(asyncio.to_thread(fifo.open)) as output:
        assert await soon(asyncio.to_thread(output.readline)) == "armed\n"
        parent.kill()
        await parent.wait()
        assert await soon(asyncio.to_thread(output.read)) == ""  # its end of the pipe is closed


@pytest.mark.parametrize(
    ("grace", "number"),
    [(0, signal.SIGRTMIN), (34.5, 35), (40, 40), (1000, signal.SIGRTMAX)],
)
def test_the_process_gets_at_least_its_grace_time(
    monkeypatch: pytest.MonkeyPatch, grace: float, number: int
) -> None:
    """The signal's number is the time in seconds, as far as there are signals."""
    asked: list[int] = []
    monkeypatch.setattr(processes, "arm", asked.append)

    processes.end_after_parent(timedelta(seconds=grace))

    assert asked == [number]
