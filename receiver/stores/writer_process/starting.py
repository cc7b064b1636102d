"""Starts the process that writes. This loads next to nothing: a server does it before it loads all the rest."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from receiver.errors import StoreError
from receiver.runtime.processes import leave_terminal

END_SECONDS = 5.0
"""How long a process may take to write what it has, and then to close the store."""


@dataclass(frozen=True, slots=True)
class StartedWriter:
    """A process that writes, and our end of the socket to it."""

    process: subprocess.Popen[bytes]
    connection: socket.socket

    def close(self) -> None:
        """Let the process end, and return when it has. One that hangs is killed."""
        self.connection.close()
        try:
            self.process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def can_use_writer_process() -> bool:
    """Return whether another process would run beside this one, and can be given a socket."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return cores > 1 and sys.platform != "win32"


def writer_command(store: str, *, log_level: str, json_logs: bool) -> Sequence[str]:
    """Return the command of the process that writes to the store at this address."""
    log_format = "json" if json_logs else "text"
    return sys.executable, "-P", "-m", "receiver.stores.writer_process", store, log_level, log_format


def start_writer(command: Sequence[str]) -> StartedWriter:
    """Start a process that writes; the number of its socket is added to the command.

    Raises StoreError if the system starts none.
    """
    try:
        ours, theirs = socket.socketpair()
        with ExitStack() as if_failed, theirs:
            if_failed.callback(ours.close)
            process = subprocess.Popen(  # noqa: S603 - this very Python
                (*command, str(theirs.fileno())),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                preexec_fn=leave_terminal,  # Ctrl-C reaches only this process
            )
            if_failed.pop_all()
    except OSError as exc:  # for example out of memory, processes or files
        raise StoreError(f"the process that writes was not started: {exc.strerror}") from exc
    return StartedWriter(process, ours)


@contextmanager
def writer_started(command: Sequence[str]) -> Iterator[StartedWriter]:
    """Start a process that writes, for whoever takes it over within the block. It has ended when the block has."""
    writer = start_writer(command)
    try:
        yield writer
    finally:
        writer.close()
