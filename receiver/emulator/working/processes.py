"""Runs functions beside the event loop: small work in threads, all other work in processes that can be ended.

Parsers, regular expressions and comparisons hold the lock of the interpreter, and no thread can be stopped: a page
that takes hours would stop the whole emulator. In a process it costs its own time only.
"""

import asyncio
import json
import os
import pickle
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, Protocol, Self

from typing_extensions import override

from receiver.emulator.failures import ScrapeFailed
from receiver.errors import ReceiverError

LONG = 100_000
"""Characters of a text that follows the JSON of an answer, where reading it takes less time at once."""
PREFIX = 8
"""Bytes of the length of a piece."""
_CODEC = ("utf-8", "surrogatepass")


def pack_answer(answer: dict[str, Any]) -> list[bytes]:
    """Return the pieces of an answer, each after its length: its JSON, then its long texts."""
    value = answer.get("value")
    texts: list[bytes] = []
    names: list[str] = []
    if isinstance(value, dict):
        names = [name for name, one in value.items() if isinstance(one, str) and len(one) > LONG]
        texts = [value[name].encode(*_CODEC) for name in names]
        answer = {**answer, "value": {name: one for name, one in value.items() if name not in names}}
    head = json.dumps({**answer, "apart": names}).encode()
    return [part for piece in (head, *texts) for part in (len(piece).to_bytes(PREFIX), piece)]


CHILD = "receiver.emulator.working.child"
SMALL = 20_000
"""Bytes of work that a thread does, since it cannot take long."""
LARGE = 2_000_000
"""Bytes of work after which a process ends, since it would keep the memory."""
LONGEST_SECONDS = 300.0
"""Real seconds after which a process is ended in any case."""
_THREADS = 8
_PIPE_BYTES = 1 << 20


class WorkLost(ReceiverError):
    """The work took too much time or memory, and its process was ended."""


class HeavyWork(Protocol):
    """Runs functions beside the event loop."""

    async def run(self, function: Callable[..., Any], *arguments: Any, size: int) -> Any:
        """Return the result of a function of a module, which is JSON. `size` is the bytes that it works on.

        Raises the function's ScrapeFailed, and WorkLost for one that takes too much.
        """


class InThreads(HeavyWork):
    """Work without processes, for pages without danger."""

    @override
    async def run(self, function: Callable[..., Any], *arguments: Any, size: int) -> Any:
        return await asyncio.to_thread(function, *arguments)


class WorkProcesses(HeavyWork):
    """As many processes as processors, which start when they are needed, and end with the block.

    Cancelled work ends its process; a thread continues to its end, which is near.
    """

    def __init__(self, processes: int | None = None, *, child: str = CHILD) -> None:
        """`child` is the module that a process runs."""
        self._turns = asyncio.Semaphore(processes or os.cpu_count() or 1)
        self._idle: list[_WorkProcess] = []
        self._child = child
        # Threads of its own, which slow work elsewhere cannot take.
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="emulator-work")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
        for process in self._idle:
            await process.end()

    @override
    async def run(self, function: Callable[..., Any], *arguments: Any, size: int) -> Any:
        if size <= SMALL:
            return await asyncio.get_running_loop().run_in_executor(self._threads, function, *arguments)
        answer = await self._in_process(pickle.dumps((function, arguments)), is_kept=size < LARGE)
        if "code" in answer:
            raise ScrapeFailed(answer["code"], answer["text"])
        return answer["value"]

    async def _in_process(self, request: bytes, *, is_kept: bool) -> dict[str, Any]:
        async with self._turns:
            process = self._idle.pop() if self._idle else await _WorkProcess.start(self._child)
            is_done = False
            try:
                async with asyncio.timeout(LONGEST_SECONDS):
                    answer = await process.ask(request)
                is_done = True
            except (asyncio.IncompleteReadError, ConnectionError, TimeoutError):
                raise WorkLost("it needs too much time or memory") from None
            finally:
                if is_done and is_kept:
                    self._idle.append(process)
                else:
                    await process.end()
        return answer


class _WorkProcess:
    """One process that answers requests, one after the other."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    async def start(cls, child: str) -> "_WorkProcess":
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-W", "ignore", "-P", "-m", child),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=_PIPE_BYTES,
            start_new_session=True,  # Ctrl-C is for the emulator, which ends its processes itself
        )
        return cls(process)

    async def ask(self, request: bytes) -> dict[str, Any]:
        """Return the answer to a request. Raises IncompleteReadError or ConnectionError if the process ended."""
        into = self._process.stdin
        assert into is not None  # noqa: S101 - for mypy: it is a pipe
        into.writelines((len(request).to_bytes(PREFIX), request))
        await into.drain()
        head: dict[str, Any] = json.loads(await self._piece())
        for name in head.get("apart", ()):
            piece = await self._piece()
            head["value"][str(name)] = piece.decode(*_CODEC)
        return head

    async def _piece(self) -> bytes:
        out = self._process.stdout
        assert out is not None  # noqa: S101 - for mypy: it is a pipe
        return await out.readexactly(int.from_bytes(await out.readexactly(PREFIX)))

    async def end(self) -> None:
        """End the process, whatever it does."""
        if self._process.returncode is None:
            self._process.kill()
        if self._process.stdin is not None:
            self._process.stdin.close()
        await asyncio.shield(self._process.wait())
