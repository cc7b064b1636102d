"""A standard output whose failures differ from those of other files."""

import asyncio
import io
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


class StdoutFailed(OSError):
    """Standard output cannot be written, as on a full disk. A closed pipe is still a BrokenPipeError."""


def open_standard_files() -> None:
    """Let whichever of the first three descriptors are closed lead nowhere.

    A socket would get such a number. The event loop ends the process when it closes one, and other processes would
    inherit it.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # it gets the lowest number that is free


def guard_stdout() -> None:
    """Let writes to sys.stdout raise StdoutFailed instead of OSError from now on.

    If there is no standard output, as after `>&-`, the output is discarded.
    """
    now = sys.stdout
    if now is None:
        sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115 - open until the process ends
        return
    if not isinstance(now, io.TextIOWrapper):
        return  # a test has replaced it
    now.flush()
    at_once = now.line_buffering or now.write_through
    raw = io.BufferedWriter(_Guarded(now.fileno(), "wb", closefd=False))
    sys.stdout = io.TextIOWrapper(raw, now.encoding, now.errors, line_buffering=at_once)


class _Guarded(io.FileIO):
    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            raise
        except OSError as exc:
            raise StdoutFailed(exc.errno, exc.strerror) from exc


@contextmanager
def ending_without_reader() -> Iterator[None]:
    """Cancel the running task within the block when the reader of standard output closes its pipe, as `head` does.

    A command that only waits would not notice. Only Linux tells it: an end of a pipe whose other end is closed is
    an error condition of its descriptor (poll(2), POLLERR), which an event loop reports to readers.
    """
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    if sys.platform != "linux" or task is None or not _is_pipe(sys.stdout):
        yield
        return
    descriptor, gone = sys.stdout.fileno(), False

    def end() -> None:
        nonlocal gone
        gone = True
        loop.remove_reader(descriptor)
        task.cancel()

    loop.add_reader(descriptor, end)
    try:
        yield
    except asyncio.CancelledError:
        if not gone:
            raise
        task.uncancel()
        raise BrokenPipeError from None
    finally:
        loop.remove_reader(descriptor)


def _is_pipe(stream: Any) -> bool:
    try:
        return stat.S_ISFIFO(os.fstat(stream.fileno()).st_mode)
    except (OSError, ValueError, AttributeError):  # closed, or replaced by a test
        return False


def drop_stdout() -> None:
    """Discard the buffer, so that the interpreter does not try to write it again when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
