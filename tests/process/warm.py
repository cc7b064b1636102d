"""Run a `receiver` command in a fork of a process that has imported the package already.

Such a command has a process, folder, environment, streams and exit code of its own, as `python -m receiver` has.
Only the imports are shared: they take half a second, and the tests run hundreds of commands.
"""

import multiprocessing
import os
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(
    [__name__, *(f"receiver.{name}" for name in ("app", "cli.main", "cli.serve", "cli.work"))]
)


@dataclass(frozen=True)
class Finished:
    """The exit code and the output of a command that has ended."""

    code: int
    stdout: bytes
    stderr: str

    @property
    def text(self) -> str:
        """Return the whole output."""
        return self.stdout.decode("utf-8", "replace") + self.stderr


def run(arguments: Sequence[str], folder: Path, environment: Mapping[str, str], *, within: float) -> Finished:
    """Run a command to its end; one that takes longer than `within` seconds is killed, and the test fails."""
    out, out_end = _FORKS.Pipe(duplex=False)
    err, err_end = _FORKS.Pipe(duplex=False)
    handed_over = (list(arguments), str(folder), dict(environment), out_end, err_end)
    process = _FORKS.Process(target=_command, args=handed_over)
    process.start()
    out_end.close()
    err_end.close()
    with out, err, ThreadPoolExecutor(2) as readers:
        stdout, stderr = readers.submit(_read, out), readers.submit(_read, err)
        process.join(within)
        if process.exitcode is None:
            process.kill()
            raise AssertionError(f"`receiver {' '.join(arguments)}` did not end within {within:g} s")
        return Finished(process.exitcode, stdout.result(), stderr.result().decode("utf-8", "replace"))


def _read(end: Connection) -> bytes:
    with open(end.fileno(), "rb", closefd=False) as stream:
        return stream.read()


def _command(
    arguments: list[str], folder: str, environment: Mapping[str, str], stdout: Connection, stderr: Connection
) -> None:
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for number, descriptor in enumerate((nothing, stdout.fileno(), stderr.fileno())):
        os.dup2(descriptor, number)
    stdout.close()
    stderr.close()
    sys.argv = ["receiver", *arguments]
    sys.path.insert(0, folder)
    from receiver.cli.main import main

    main()
