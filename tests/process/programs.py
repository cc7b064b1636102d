"""Processes that a test starts, watches and ends.

Each belongs to one Program, whose block ends them all. They share one pipe as their output. So a test waits for a
line there, or for its end when all have ended, without asking again and again.
"""

import asyncio
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import IO, Protocol, Self

from tests.process.waiting import PATIENCE_SECONDS, POLL_SECONDS, until
from tests.process.wire import get


class Started(Protocol):
    """A process, as `subprocess.Popen` is one."""

    pid: int

    def poll(self) -> int | None:
        """Return the exit code, negative for a signal, or None while the process runs."""

    def wait(self) -> int:
        """Return the exit code when the process has ended."""


class Program:
    """One run of a command with all processes that it starts, in a group of its own as in a terminal."""

    def __init__(self, start: Callable[[int], Started]) -> None:
        """Start the process by a function that gets the descriptor of its output."""
        read_end, write_end = os.pipe()
        self._read_end = read_end
        try:
            self._process = start(write_end)
        finally:
            os.close(write_end)
        self.pid = self._process.pid
        self.lines: list[str] = []
        self._news = asyncio.Condition()
        self._over = False
        self._known_children: list[int] = []

    async def __aenter__(self) -> Self:
        self._pump = asyncio.create_task(self._read_output())
        return self

    async def __aexit__(self, *_: object) -> None:
        self.kill_all()
        await asyncio.to_thread(self._process.wait)
        await asyncio.wait_for(self._pump, PATIENCE_SECONDS)

    @property
    def output(self) -> str:
        """All that the processes have written so far."""
        return "\n".join(self.lines)

    @property
    def end(self) -> str:
        """The last lines of the output, for the message of a failure."""
        return "\n".join(self.lines[-30:])

    async def line(self, *words: str, times: int = 1, within: float = PATIENCE_SECONDS) -> str:
        """Return the line number `times` that holds all these words, as soon as it is written."""

        def found() -> list[str]:
            return [line for line in self.lines if all(word in line for word in words)]

        with self._output_on_failure(f"line {times} with {words}"):
            async with asyncio.timeout(within), self._news:
                await self._news.wait_for(lambda: self._over or len(found()) >= times)
        assert len(found()) >= times, f"the program ended without line {times} with {words}:\n{self.output}"
        return found()[times - 1]

    async def gone(self) -> None:
        """Return when the program and every process it has started have ended, however that came."""
        with self._output_on_failure("the end of all processes"):
            async with asyncio.timeout(PATIENCE_SECONDS), self._news:
                await self._news.wait_for(lambda: self._over)

    async def exit_code(self) -> int:
        """Return the exit code of the program itself, negative for a signal."""
        with self._output_on_failure("the program's end"):
            async with asyncio.timeout(PATIENCE_SECONDS):
                return await asyncio.to_thread(self._process.wait)

    @contextmanager
    def unread(self) -> Iterator[None]:
        """Leave the output in its pipe for a block. Some line must have been waited for before."""
        self._transport.pause_reading()
        try:
            yield
        finally:
            self._transport.resume_reading()

    def errors(self) -> list[str]:
        """Return the lines that tell of a fault: of level error, or out of a traceback. For JSON logs."""
        return [line for line in self.lines if '"level": "error"' in line or "Traceback" in line]

    def has_ended(self) -> bool:
        """Tell whether the program itself has ended."""
        return self._process.poll() is not None

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal to the program itself."""
        self.children()
        if not self.has_ended():
            os.kill(self.pid, number)

    def send_signal_to_group(self, number: signal.Signals) -> None:
        """Send a signal as a terminal does, to what runs in the program's own process group."""
        self.children()
        os.killpg(self.pid, number)

    def kill_all(self) -> None:
        """End the program and what it has started, as suddenly as it can be."""
        if self._over:
            return  # all have ended, and their numbers may belong to others
        for child in self.children():
            kill(child)
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)

    def children(self) -> list[int]:
        """Return the processes that the program has started and that live; once it has ended, the last known."""
        if not self.has_ended():
            self._known_children = children_of(self.pid)
        return self._known_children

    def children_with(self, word: str) -> list[int]:
        """Return those of them that have this word in their command line."""
        return [child for child in self.children() if word in command_line(child)]

    @asynccontextmanager
    async def _lines_of(self) -> AsyncIterator[asyncio.StreamReader]:
        reader = asyncio.StreamReader(limit=2**20)
        pipe: IO[bytes] = os.fdopen(self._read_end, "rb", buffering=0)
        self._transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), pipe
        )
        try:
            yield reader
        finally:
            self._transport.close()

    async def _read_output(self) -> None:
        async with self._lines_of() as reader:
            while line := await reader.readline():
                async with self._news:
                    self.lines.append(line.decode("utf-8", "replace").rstrip("\n"))
                    self._news.notify_all()
        async with self._news:
            self._over = True
            self._news.notify_all()

    def _output_on_failure(self, what: str) -> "_OutputOnFailure":
        return _OutputOnFailure(self, what)


class _OutputOnFailure:
    """Turns a time-out into a failure that shows the program's output."""

    def __init__(self, program: Program, what: str) -> None:
        self._program = program
        self._what = what

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and issubclass(kind, TimeoutError):
            raise AssertionError(f"waited in vain for {self._what}; the output ended:\n{self._program.end}")


class Serving(Program):
    """A running `receiver serve`."""

    port = 0

    async def listening(self) -> None:
        """Return when it answers /readyz with 200."""
        line = await self.line("listening", "http://")
        self.port = int(line.partition("http://127.0.0.1:")[2].partition("/")[0])
        await self.becomes_ready()

    async def becomes_ready(self) -> None:
        """Return when a write to the store succeeds."""
        with self._output_on_failure("/readyz to answer 200"):
            async with asyncio.timeout(PATIENCE_SECONDS):
                while (await get(self.port, "/readyz")).status != 200:  # noqa: ASYNC110 - as above
                    await asyncio.sleep(POLL_SECONDS)

    async def worker(self) -> int:
        """Return the process id of the worker, once there is one."""
        return await self._only_with("--name", "a worker process")

    async def writer(self) -> int:
        """Return the process id of the writer, once there is one."""
        return await self._only_with("receiver.stores.writer_process", "a process that writes")

    async def _only_with(self, word: str, what: str) -> int:
        await until(lambda: bool(self.children_with(word)), what)
        return self.children_with(word)[0]


def command_line(pid: int) -> str:
    """Return the words of a process's command line; none if it has ended."""
    with suppress(OSError):
        if Path("/proc").is_dir():
            return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
        return subprocess.run(["ps", "-o", "args=", str(pid)], capture_output=True, text=True, check=False).stdout
    return ""


def children_of(pid: int) -> list[int]:
    """Return the child processes; from /proc where there is one, as images for containers often have no `ps`."""
    listed = Path(f"/proc/{pid}/task/{pid}/children")
    if listed.exists():
        with suppress(OSError):
            return [int(child) for child in listed.read_text().split()]
        return []
    rows = subprocess.run(["ps", "-axo", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    pairs = (row.split() for row in rows.splitlines())
    return [int(child) for child, parent in pairs if int(parent) == pid]


async def stand_still(pid: int) -> None:
    """Stop a child of this process; it runs on for a moment after the signal was sent."""
    os.kill(pid, signal.SIGSTOP)
    await until(lambda: os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOHANG) is not None, f"{pid} to stand still")


def kill(pid: int) -> None:
    """End a process that a test has started, as suddenly as it can be."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
