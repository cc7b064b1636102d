"""Functions that the tests of processes run in other processes. Each reads what to do in its event's metadata."""

import os
import signal
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path

from receiver.errors import GiveUp, RateLimited, Retry
from receiver.events import Event


class OwnError(ValueError):
    """An exception of a handler's module, which could not be unpickled."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


def note(event: Event) -> None:
    """Write the process and the job into the file that the event names."""
    _write(event, f"{os.getpid()} {event.job_id}\n")


def note_all(events: list[Event]) -> None:
    """Do that for a list."""
    for event in events:
        note(event)


def hang(event: Event) -> None:
    """Start a process, say so, and never return."""
    helper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
    _write(event, f"{os.getpid()} {helper.pid}\n")
    while True:
        time.sleep(1000)


def fail(event: Event) -> None:
    """Raise what the event says."""
    raise {
        "own": OwnError(1, 2),
        "retry": Retry(after=timedelta(seconds=9)),
        "limit": RateLimited("429", retry_after=timedelta(seconds=9)),
        "give up": GiveUp("no good"),
        "exit": SystemExit(3),
        "interrupt": KeyboardInterrupt(),
    }[event.metadata["error"]]


def die(event: Event) -> None:
    """End the process the hard way."""
    if event.metadata["how"] == "exit":
        os._exit(7)
    os.kill(os.getpid(), signal.SIGKILL)


def fork(event: Event) -> None:
    """Fork, end in the copy as the event says, and write down the exit code of the copy."""
    copy = os.fork()
    if copy:
        status = os.waitpid(copy, 0)[1]
        _write(event, f"{os.getpid()} {os.waitstatus_to_exitcode(status)}\n")
    elif event.metadata["how"] == "exit":
        sys.exit(3)
    elif event.metadata["how"] == "raise":
        raise ValueError("in the copy")


def shout(event: Event) -> None:
    """Write to standard output, which is not the way back to the worker."""
    sys.stdout.write("x" * 100_000)
    os.write(1, b"\0" * 100)


class Tools:
    """A place for a function."""

    @staticmethod
    def note(event: Event) -> None:
        """Do as the other one."""
        note(event)


def _write(event: Event, line: str) -> None:
    with Path(event.metadata["file"]).open("a") as file:
        file.write(line)
