"""A standard output whose failures differ from those of other files."""

import io
import os
import sys
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


def drop_stdout() -> None:
    """Discard the buffer, so that the interpreter does not try to write it again when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
