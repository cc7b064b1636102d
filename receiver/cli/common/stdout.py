"""Standard output whose failures can be told from those of other files."""

import io
import os
import sys
from pathlib import Path
from typing import Any


class StdoutFailed(OSError):
    """Standard output cannot be written, as on a full disk. A pipe that was closed is a BrokenPipeError as ever."""


def guard_stdout() -> None:
    """Let whatever is written to sys.stdout from now on raise StdoutFailed where it would raise OSError.

    Without a standard output, as after `>&-`, it is read by nobody.
    """
    now = sys.stdout
    if now is None:
        sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115 - to the end of the process
        return
    if not isinstance(now, io.TextIOWrapper):
        return  # somebody's own
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
    """Keep the interpreter from flushing into what cannot be written once more as it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
