"""Our processes: how one ended, its terminal, memory, shared files and event loop, and its end after its parent's.

A handler can end its process with any exit code: the code alone says nothing about the receiver. A process that a
supervisor started therefore reports the code just before it ends by itself.
"""

import ctypes
import gc
import os
import select
import signal
import sys
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

_VARIABLE = "CRAWL_RECEIVER_TELLS_EXIT_CODE_TO"
"""In the environment, because the exit code of a wrong command line is reported too. It does not have the prefix of
our settings, of which it would be an unknown one."""


def end_of(code: int) -> str:
    """Return the meaning of an exit code in Python's form, which is negative for a signal."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:  # a real-time signal
        return f"killed by signal {-code}"


class ExitNote:
    """The pipe in which a process reports to its supervisor the exit code with which it is about to end."""

    def __init__(self, reader: int, writer: int) -> None:
        self._reader = reader
        self.writer = writer
        """The descriptor that the process inherits."""

    @property
    def environment(self) -> dict[str, str]:
        """The variable by which the process knows the descriptor."""
        return {_VARIABLE: str(self.writer)}

    def has(self, code: int) -> bool:
        """Return whether this is the last exit code that the process reported; it has ended."""
        with suppress(BlockingIOError):  # it reported nothing, and a process that it forked has the pipe open
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
    """Return the descriptor to the supervisor of this process, or None without one.

    The first call hides it from programs that this process starts, whose descriptors are others.
    """
    found = os.environ.pop(_VARIABLE, None)
    if found is None:
        return None
    os.set_inheritable(int(found), False)
    return int(found)


def tell_exit_code(code: int) -> None:
    """Report to the supervisor, if there is one, that this process now ends by itself with this exit code."""
    if (supervisor := find_supervisor()) is not None:
        with suppress(OSError):  # the supervisor has died
            os.write(supervisor, f"{code}\n".encode())


if sys.platform == "linux":
    import fcntl
    import termios


def leave_terminal() -> None:
    """Leave the process group and the terminal of the parent, for this process and all that it will start.

    Ctrl-C in the terminal does not reach them. They cannot ask at the terminal either, which would stop the whole
    group: opening /dev/tty fails, as in a deployment. This is for the `preexec_fn` of a program with other threads:
    it makes a few system calls, and needs no lock.
    """
    if sys.platform != "linux":
        os.setsid()
        return
    # A session of its own would do all this. But Linux shares the processors among sessions first (sched(7), the
    # autogroup feature), and a writer in its own waits longer for one: in a shared session there are 10 % more acks
    # at 1 KB with a worker.
    os.setpgrp()
    with suppress(OSError):  # there is no terminal
        terminal = os.open("/dev/tty", os.O_RDWR)
        # Only for this process, since it does not lead the session (TIOCNOTTY(2const)).
        fcntl.ioctl(terminal, termios.TIOCNOTTY)
        os.close(terminal)


_CGROUPS = Path("/sys/fs/cgroup")
_OWN = Path("/proc/self/cgroup")


def memory_limit(*, cgroups: Path = _CGROUPS, own: Path = _OWN) -> int:
    """Return the bytes of memory that this machine has, or that the container or service may use, if fewer.

    The limit of a container is that of its control group or of one around it (Linux, Documentation/admin-guide/
    cgroup-v2.rst, "memory.max", and cgroup-v1/memory.rst, "memory.limit_in_bytes").
    """
    limits = [limit for path in _limit_files(cgroups, own) if (limit := _read_limit(path)) is not None]
    return min([os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), *limits])


def _limit_files(cgroups: Path, own: Path) -> list[Path]:
    files = [cgroups / "memory.max", cgroups / "memory" / "memory.limit_in_bytes"]
    try:
        lines = own.read_text().splitlines()
    except OSError:
        return files
    for line in lines:
        _, controllers, group = line.split(":", 2)
        name = "memory.limit_in_bytes" if controllers else "memory.max"
        root = cgroups / "memory" if controllers else cgroups
        if not controllers or "memory" in controllers.split(","):
            folder = root / group.lstrip("/")
            files += [path / name for path in (folder, *folder.parents) if path.is_relative_to(root)]
    return files


def _read_limit(path: Path) -> int | None:
    try:
        text = path.read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None


def write_some(descriptor: int, data: bytes | memoryview) -> int:
    """Write as much of `data` as the file accepts at once, and return how many bytes that was.

    It waits while the file accepts nothing, even if another program has made a shared pipe non-blocking.
    """
    while True:
        try:
            return os.write(descriptor, data)
        except BlockingIOError:
            select.select((), (descriptor,), ())


_PR_SET_PDEATHSIG = 1


def end_after_parent(grace: timedelta) -> None:
    """Ask the kernel to end this process when its parent has been dead for the grace time, or slightly longer.

    C code that keeps the interpreter lock can block all threads of this process; then only the kernel can end it.
    On systems other than Linux this does nothing.
    """
    if sys.platform == "linux":
        arm(min(max(round(grace.total_seconds() + 0.5), signal.SIGRTMIN), signal.SIGRTMAX))


def arm(number: int) -> None:
    """Ask for the signal `number` at the parent's death. This process then ends after `number` seconds.

    A signal handler in Python would wait for the interpreter lock; this one is libc's function alarm(). The system
    calls it with the number of the signal, and alarm() sends SIGALRM after that many seconds. POSIX allows alarm()
    in a signal handler (System Interfaces, 2.4.3).
    """
    libc = ctypes.CDLL(None)
    libc.signal.argtypes = (ctypes.c_int, ctypes.c_void_p)
    libc.signal.restype = ctypes.c_void_p
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    libc.signal(number, ctypes.cast(libc.alarm, ctypes.c_void_p))
    libc.prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(number), 0, 0, 0)


T = TypeVar("T")

_THRESHOLDS = (50_000, 50, 100)
"""A request leaves hardly any cycles; the default of Python searches for them every 700 objects, too often. For
eight batches of a hundred events a worker makes 20,000 objects: to search those each time took 5 % of its time."""


def run(main: Coroutine[Any, Any, T], *, fastest: bool = True) -> T:
    """Run a coroutine to its end; with `fastest` on uvloop, or on asyncio's own loop where uvloop has no wheel."""
    import asyncio  # a command that needs no event loop does not wait for it

    gc.collect()
    gc.freeze()  # the modules loaded so far live as long as the process
    gc.set_threshold(*_THRESHOLDS)
    factory = None
    if fastest:
        with suppress(ImportError):
            import uvloop

            factory = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(main)
