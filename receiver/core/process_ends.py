"""How a process of ours ended: in words, and whether it meant to.

A handler can end its process with any exit code, so the code alone tells nothing about the receiver. A process that
a supervisor started tells it the code just before it ends by itself.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache

_VARIABLE = "CRAWL_RECEIVER_TELLS_EXIT_CODE_TO"
"""The environment has it and not the command line: a process tells the code of a wrong command line too. It does
not begin as our settings do, so no version takes it for an unknown one."""


def end_of(code: int) -> str:
    """Describe an exit code as Python has it: negative for a signal."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:  # a real-time signal
        return f"killed by signal {-code}"


class ExitNote:
    """The pipe in which one process tells its supervisor with which exit code it is about to end."""

    def __init__(self, reader: int, writer: int) -> None:
        self._reader = reader
        self.writer = writer
        """The descriptor that the process inherits."""

    @property
    def environment(self) -> dict[str, str]:
        """The variable by which the process knows the descriptor."""
        return {_VARIABLE: str(self.writer)}

    def has(self, code: int) -> bool:
        """Tell whether the process, which has ended, has told this exit code last."""
        with suppress(BlockingIOError):  # it has told nothing, and a process that it forked has the pipe open
            return os.read(self._reader, 1024).split()[-1:] == [str(code).encode()]
        return False


@contextmanager
def exit_note() -> Iterator[ExitNote]:
    """Open the pipe for a process that is about to start. Raises OSError if this process has too many files."""
    reader, writer = os.pipe()
    try:
        os.set_blocking(reader, False)
        yield ExitNote(reader, writer)
    finally:
        os.close(reader)
        os.close(writer)


@cache
def find_supervisor() -> int | None:
    """Return the descriptor to the supervisor of this process, or None if it has none.

    The first call takes it away from programs that this process starts: they have other descriptors.
    """
    found = os.environ.pop(_VARIABLE, None)
    if found is None:
        return None
    os.set_inheritable(int(found), False)
    return int(found)


def tell_exit_code(code: int) -> None:
    """Tell the supervisor, if there is one, that this process ends by itself now, with this exit code."""
    if (supervisor := find_supervisor()) is not None:
        with suppress(OSError):  # the supervisor has died
            os.write(supervisor, f"{code}\n".encode())
