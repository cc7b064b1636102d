"""A standard output whose failures differ from those of other files, and a standard error that has none."""

import io
import os
import sys
from pathlib import Path
from typing import Any, TextIO

from receiver.runtime.processes import write_some


class StdoutFailed(OSError):
    """Standard output cannot be written, as on a full disk."""


class StdoutClosed(OSError):
    """The reader of standard output has closed its pipe."""

    # Without the number of the error: click ends a program by itself for EPIPE, whatever file it comes from
    # (click 8.5, core.py, Command.main).


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
    """Let writes to sys.stdout raise StdoutClosed or StdoutFailed instead of other errors from now on.

    If there is no standard output, as after `>&-`, the output is discarded.
    """
    now = sys.stdout
    if now is None:
        sys.stdout = _nowhere()
    elif isinstance(now, io.TextIOWrapper):  # a test may have replaced it
        now.flush()
        at_once = now.line_buffering or now.write_through
        sys.stdout = _over(_Stdout(now.fileno(), "wb", closefd=False), now, line_buffering=at_once)


def guard_stderr() -> None:
    """Let writes to sys.stderr never fail from now on: what cannot be written is discarded."""
    now = sys.stderr
    if now is None:
        sys.stderr = _nowhere()
    elif isinstance(now, io.TextIOWrapper):
        sys.stderr = _over(_Stderr(now.fileno(), "wb", closefd=False), now, line_buffering=True)


def _nowhere() -> TextIO:
    return Path(os.devnull).open("w")


def _over(raw: io.FileIO, now: io.TextIOWrapper, *, line_buffering: bool) -> TextIO:
    return io.TextIOWrapper(io.BufferedWriter(raw), now.encoding, now.errors, line_buffering=line_buffering)


class _Stdout(io.FileIO):
    def write(self, data: Any, /) -> int:
        try:
            return write_some(self.fileno(), data)
        except BrokenPipeError as exc:
            raise StdoutClosed from exc
        except OSError as exc:
            raise StdoutFailed(exc.errno, exc.strerror) from exc


class _Stderr(io.FileIO):
    def write(self, data: Any, /) -> int:
        try:
            return write_some(self.fileno(), data)
        except OSError:
            return len(data)  # the reader is gone or the disk full, and there is nowhere to say so


def drop_stdout() -> None:
    """Discard the buffer, so that the interpreter does not try to write it again when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
