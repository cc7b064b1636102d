"""Reads pages beside the event loop: small ones in a thread, all others in processes that can be ended.

The parser of HTML and its CSS selectors hold the lock of the interpreter while they work, and no thread can be
stopped. A page or a selector that takes hours would stop the whole emulator; so it costs no more than its own time.
"""

import asyncio
import json
import os
import pickle
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, Self

from receiver.service.emulator.content.kinds import ContentKind, kind_of
from receiver.service.emulator.content.page import PageContent, read_page
from receiver.service.emulator.failures import ScrapeFailed
from receiver.service.emulator.scrapes import FetchedPage, ScrapePlan

_CHILD = "receiver.service.emulator.content.reader_child"
_SMALL = 20_000
"""A page of so many bytes cannot take long, unless a selector looks through it."""
_LARGE = 2_000_000
"""A process that has read such a page is not kept: it would keep the memory."""
_THREADS = 8
_PREFIX = 8
_PIPE_BYTES = 1 << 20
_TOO_MUCH = "The page could not be read: it needs too much time or memory."


class PageReaders:
    """Reads pages, in as many processes as there are processors. They start when they are needed.

    Its block ends them. A read that is cancelled ends its process; a thread goes on to its end, which is near.
    """

    def __init__(self, processes: int | None = None) -> None:
        self._turns = asyncio.Semaphore(processes or os.cpu_count() or 1)
        self._idle: list[_ReaderProcess] = []
        # Threads of its own: documents that take long must not stop what else waits for a thread.
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="emulator-read")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
        for reader in self._idle:
            await reader.end()

    async def read(self, page: FetchedPage, plan: ScrapePlan) -> PageContent:
        """Return the content of a page, as `read_page` does."""
        if not _needs_process(page, plan):
            return await asyncio.get_running_loop().run_in_executor(self._threads, read_page, page, plan)
        async with self._turns:
            reader = self._idle.pop() if self._idle else await _ReaderProcess.start()
            is_kept = False
            try:
                answer = await reader.ask(page, plan)
                is_kept = len(page.body) < _LARGE
            except (asyncio.IncompleteReadError, ConnectionError):
                raise ScrapeFailed("SCRAPE_ALL_ENGINES_FAILED", _TOO_MUCH) from None
            finally:
                if is_kept:
                    self._idle.append(reader)
                else:
                    await reader.end()
        return await asyncio.to_thread(_content, answer)


class _ReaderProcess:
    """One process that reads pages, one after the other."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    async def start(cls) -> "_ReaderProcess":
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-W", "ignore", "-P", "-m", _CHILD),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=_PIPE_BYTES,
            start_new_session=True,  # Ctrl-C is for the emulator, which ends its readers itself
        )
        return cls(process)

    async def ask(self, page: FetchedPage, plan: ScrapePlan) -> bytes:
        """Return the answer to a request; IncompleteReadError or ConnectionError if the process ended."""
        into, out = self._process.stdin, self._process.stdout
        assert into is not None  # noqa: S101 - for mypy: both are pipes
        assert out is not None  # noqa: S101
        request = pickle.dumps((page, plan))
        into.writelines((len(request).to_bytes(_PREFIX), request))
        await into.drain()
        return await out.readexactly(int.from_bytes(await out.readexactly(_PREFIX)))

    async def end(self) -> None:
        """End the process, whatever it does."""
        if self._process.returncode is None:
            self._process.kill()
        if self._process.stdin is not None:
            self._process.stdin.close()
        await asyncio.shield(self._process.wait())


def _needs_process(page: FetchedPage, plan: ScrapePlan) -> bool:
    has_selectors = bool(plan.include_tags or plan.exclude_tags or plan.format("attributes"))
    if len(page.body) <= _SMALL and not has_selectors:
        return False
    # Documents are read in processes of their own.
    return kind_of(page.body, page.content_type, page.url) is ContentKind.HTML


def _content(answer: bytes) -> PageContent:
    fields: dict[str, Any] = json.loads(answer)
    if "code" in fields:
        raise ScrapeFailed(fields["code"], fields["text"])
    tuples: Sequence[str] = ("links", "images", "warnings")
    return PageContent(**fields | {name: tuple(fields[name]) for name in tuples} | {"kind": ContentKind.HTML})
