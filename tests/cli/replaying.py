"""Deliveries and handlers for `receiver replay`, and the command as a user runs it, once or until it is through."""

import asyncio
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from receiver.cli.common.exit_codes import INTERRUPTED
from receiver.cli.main import receiver, run
from receiver.core.deliveries import Delivery
from receiver.stores import open_store
from tests.cli.kept import STORE, delivery
from tests.doubles import appended

HANDLED = Path("handled")
NOTE = """
def note(*words):
    with open("handled", "a") as file:
        print(*words, file=file)
"""
KEYS = f"""{NOTE}
@router.on("*")
async def one(event, ctx):
    note(ctx.delivery.id)
    return ctx.delivery.id
"""
"""Handlers of every event that write its id to that file."""


class Command:
    """Runs `receiver replay` in this process with handlers of the test."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch = monkeypatch
        self._capsys = capsys
        self.out = self.err = ""

    def __call__(self, *args: str, yes: bool = True) -> int:
        """Run the command and return its exit code; its output is in `out` and `err`."""
        return self.exactly("replay", *(["--yes"] if yes else []), *args)

    def exactly(self, *args: str) -> int:
        """Run a whole command line."""
        # It takes the logs of the whole process over, and this one is that of all tests.
        self._monkeypatch.setattr("receiver.cli.replay.command.configure_logs", lambda **_: None)
        code = run(receiver.main, list(args))
        self.out, self.err = self._capsys.readouterr()
        return code

    @property
    def way_on(self) -> list[str]:
        """The command line that it printed for the continuation."""
        lines = self.err.splitlines()
        name, *arguments = shlex.split(lines[lines.index("to continue where this stopped:") + 1])
        assert name == "receiver"
        return arguments

    def to_the_end(self, *args: str) -> int:
        """Run it, and after each stop the command that it printed; return the number of stops."""
        code, stopped = self(*args), 0
        while code == INTERRUPTED:
            stopped += 1
            code = self.exactly(*self.way_on)
        assert code == 0, self.err
        return stopped


def write_handlers(code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write a module with handlers, in place of an earlier one."""
    Path("replayed.py").write_text(f"from receiver import Router\n\nrouter = Router()\n{code}")
    monkeypatch.setenv("RECEIVER_HANDLERS", "replayed:router")
    monkeypatch.delitem(sys.modules, "replayed", raising=False)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.syspath_prepend(Path.cwd())


def keep(*deliveries: Delivery, store: str = STORE) -> None:
    """Put deliveries into a store, as the sender brings them."""

    async def append() -> None:
        async with open_store(store).log() as log:
            await asyncio.gather(*[appended(log, one) for one in deliveries])

    asyncio.run(append())


def keep_jobs(count: int = 8) -> Sequence[str]:
    """Store deliveries of three jobs in turn, and some without a job; return their keys."""
    keys = [f"k{n}" for n in range(count)]
    keep(*[delivery(key, n, job_id=[None, "j2", "j 1", "j3"][n % 4]) for n, key in enumerate(keys)])
    return keys


def handled() -> list[str]:
    """Return the lines that handlers have written."""
    return HANDLED.read_text().splitlines() if HANDLED.exists() else []
