"""The reader of standard output: a command that only waits ends when it goes."""

import asyncio
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from receiver.cli.common.stdout import StdoutClosed


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
        raise StdoutClosed from None
    finally:
        loop.remove_reader(descriptor)


def _is_pipe(stream: Any) -> bool:
    try:
        return stat.S_ISFIFO(os.fstat(stream.fileno()).st_mode)
    except (OSError, ValueError, AttributeError):  # closed, or replaced by a test
        return False
