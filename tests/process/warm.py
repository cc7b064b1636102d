"""Processes that run the `receiver` command without its imports: forks of a process that has imported everything.

The imports take half a second of CPU time, and the tests start hundreds of processes. In all else a fork is like
`python -m receiver`: it has a session, a folder, an environment, streams, signals and an end of its own.
"""

import atexit
import fcntl
import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from receiver.cli.main import main

_ROOT = Path(__file__).parents[2]


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


class Fork:
    """A running command; used like `subprocess.Popen`."""

    def __init__(self, status: int) -> None:
        self._status = status
        self._lock = threading.Lock()
        self._code: int | None = None
        self.pid = int(self._read())

    def poll(self) -> int | None:
        """Return the exit code, negative for a signal, or None while the process runs."""
        with self._lock:
            if self._code is None and self._readable(0):
                self._code = int(self._read())
            return self._code

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code when the process has ended."""
        while (code := self.poll()) is None:
            if not self._readable(timeout):
                raise TimeoutError(f"process {self.pid} did not end within {timeout} s")
        return code

    def __del__(self) -> None:
        os.close(self._status)

    def _readable(self, timeout: float | None) -> bool:
        poller = select.poll()  # `select.select` takes no descriptor above 1023
        poller.register(self._status, select.POLLIN)
        return bool(poller.poll(None if timeout is None else timeout * 1000))

    def _read(self) -> bytes:
        answer = b""
        while not answer.endswith(b"\n"):
            piece = os.read(self._status, 1)
            assert piece, "the process that forks has ended"
            answer += piece
        return answer


class _Parent:
    """The process that has imported everything, seen from the tests."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._line, theirs = socket.socketpair()
        with theirs:
            command = [sys.executable, "-m", __name__, str(theirs.fileno())]
            self._process = subprocess.Popen(command, cwd=_ROOT, pass_fds=[theirs.fileno()], start_new_session=True)
        atexit.register(self._end)

    def fork(self, output: Sequence[int], **request: Any) -> Fork:
        """Start a command that writes to these two descriptors."""
        status, status_end = os.pipe()
        try:
            with self._lock:
                socket.send_fds(self._line, [json.dumps(request).encode() + b"\n"], [*output, status_end])
        finally:
            os.close(status_end)
        return Fork(status)

    def _end(self) -> None:
        self._line.close()
        self._process.wait()


@cache
def _parent() -> _Parent:
    return _Parent()


def start(
    arguments: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    *,
    stdout: int,
    stderr: int,
    on_terminal: bool = False,
) -> Fork:
    """Start `receiver` with these arguments in a session of its own, whose terminal may be its standard output."""
    return _parent().fork(
        [stdout, stderr],
        arguments=list(arguments),
        folder=str(folder),
        environment=dict(environment),
        on_terminal=on_terminal,
    )


def run(arguments: Sequence[str], folder: Path, environment: Mapping[str, str], *, within: float) -> Finished:
    """Run a command to its end; one that takes longer than `within` seconds is killed."""
    (out, out_end), (err, err_end) = os.pipe(), os.pipe()
    try:
        process = start(arguments, folder, environment, stdout=out_end, stderr=err_end)
    finally:
        os.close(out_end)
        os.close(err_end)
    with os.fdopen(out, "rb") as stdout, os.fdopen(err, "rb") as stderr, ThreadPoolExecutor(2) as readers:
        texts = [readers.submit(stream.read) for stream in (stdout, stderr)]
        try:
            code = process.wait(within)
        except TimeoutError:
            os.killpg(process.pid, signal.SIGKILL)
            raise
        return Finished(code, texts[0].result(), texts[1].result().decode("utf-8", "replace"))


# --- the process that forks


class _Forking:
    """Forks for each request, and reports the process id and the exit code of each fork."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line
        self._statuses: dict[int, int] = {}

    def serve(self) -> dict[str, Any] | None:
        """Return a request in each fork; return None in the parent when the tests have ended."""
        ended, wakeup = socket.socketpair()
        for end in (ended, wakeup):
            end.setblocking(False)
        signal.set_wakeup_fd(wakeup.fileno())
        signal.signal(signal.SIGCHLD, lambda *_: None)
        while True:
            ready, _, _ = select.select([self._line, ended], [], [])
            if ended in ready:
                ended.recv(4096)
                self._report_ends()
            if self._line in ready:
                request, descriptors = self._request()
                if not request:
                    return None
                if pid := os.fork():
                    self._started(pid, descriptors)
                    continue
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                for end in (ended, wakeup, self._line):
                    end.close()
                self._become(request, descriptors)
                return request

    def _request(self) -> tuple[dict[str, Any], list[int]]:
        text, descriptors, _, _ = socket.recv_fds(self._line, 2**20, 3)
        while text and not text.endswith(b"\n"):
            text += self._line.recv(2**20)
        return (json.loads(text) if text else {}), descriptors

    def _started(self, pid: int, descriptors: list[int]) -> None:
        *output, status = descriptors
        for descriptor in output:
            os.close(descriptor)
        self._statuses[pid] = status
        os.write(status, b"%d\n" % pid)

    def _report_ends(self) -> None:
        while self._statuses:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            report = self._statuses.pop(pid)
            with suppress(BrokenPipeError):  # nobody waits for it any more
                os.write(report, b"%d\n" % os.waitstatus_to_exitcode(status))
            os.close(report)

    def _become(self, request: dict[str, Any], descriptors: list[int]) -> None:
        os.setsid()
        *output, _ = descriptors
        stdin = os.dup(output[0]) if request["on_terminal"] else os.open(os.devnull, os.O_RDONLY)
        for number, descriptor in enumerate([stdin, *output]):
            os.dup2(descriptor, number)
            os.close(descriptor)
        if request["on_terminal"]:
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # without it Ctrl-C becomes no signal
            sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # as Python begins on a terminal
        for status in (descriptors[-1], *self._statuses.values()):
            os.close(status)
        os.chdir(request["folder"])
        os.environ.clear()
        os.environ.update(request["environment"])
        time.tzset()
        sys.argv = ["receiver", *request["arguments"]]
        sys.path[0] = request["folder"]


def _import_all() -> None:

    import receiver.cli.common.serving
    import receiver.cli.serve
    import receiver.cli.work
    import receiver.service.client
    import receiver.stores.sqlite.store  # noqa: F401

    gc.freeze()


if __name__ == "__main__":
    _import_all()
    with socket.socket(fileno=int(sys.argv[1])) as _line:
        _wanted = _Forking(_line).serve()
    if _wanted:
        main()  # its end is that of an interpreter: exit handlers run, and threads are waited for
