"""Batches without a timer: while some are written, the next one gathers."""

import asyncio
import sys
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from receiver.core.batching import BatchSize

Item = TypeVar("Item")
Result = TypeVar("Result")


class GroupCommit(Generic[Item, Result]):
    """Gives what has gathered to `write`, and then resolves the future of each item.

    At most `at_once` batches are written at a time; `write` is called in their order. It returns one result for
    each item, in order. A result that is an exception fails its item alone. When it raises, the items of that batch
    fail with what it raised, and no others. A batch holds at most `max_items`, and at most `max_bytes` unless its
    first item is larger; `size_of` returns the bytes of an item.
    """

    def __init__(
        self,
        write: Callable[[list[Item]], Awaitable[Sequence[Result]]],
        *,
        max_items: int,
        max_bytes: int = sys.maxsize,
        size_of: Callable[[Item], int] = lambda item: 0,
        at_once: int = 1,
    ) -> None:
        self._write = write
        self._max_items = max_items
        self._max_bytes = max_bytes
        self._size_of = size_of
        self._gathered: deque[tuple[Item, asyncio.Future[Result]]] = deque()
        self._at_once = at_once
        self._writers: set[asyncio.Task[None]] = set()
        self._beginning: asyncio.Task[None] | None = None  # it will take what gathers until then

    def submit(self, item: Item) -> asyncio.Future[Result]:
        """Put an item into the next batch. It stays there even if the future is cancelled."""
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._gathered.append((item, future))
        if len(self._writers) < self._at_once and (self._beginning is None or self._beginning.done()):
            self._begin()
        return future

    async def aclose(self) -> None:
        """Return when every submitted item was written or has failed."""
        while writers := [one for one in self._writers if not one.done()]:
            await asyncio.wait(writers)
        self._cancel_gathered()  # only when a writer was cancelled before it began

    def _begin(self) -> None:
        self._beginning = asyncio.create_task(self._write_all())
        self._writers.add(self._beginning)
        self._beginning.add_done_callback(self._writers.discard)  # also of one that was cancelled before it began

    async def _write_all(self) -> None:
        writer, self._beginning = self._beginning, None
        try:
            while self._gathered:
                await self._write_batch(self._next_batch())
        finally:
            self._writers -= {writer}
            if not self._writers:
                self._cancel_gathered()  # only when the writers were cancelled

    def _cancel_gathered(self) -> None:
        for _, future in self._gathered:
            future.cancel()
        self._gathered.clear()

    async def _write_batch(self, batch: list[tuple[Item, asyncio.Future[Result]]]) -> None:
        try:
            results = await self._write([item for item, _ in batch])
            if len(results) != len(batch):
                raise RuntimeError(f"{len(results)} results for {len(batch)} items")
        except BaseException as exc:
            for _, future in batch:
                _fail(future, exc)
            if not isinstance(exc, Exception):
                raise
        else:
            for (_, future), result in zip(batch, results, strict=True):
                if isinstance(result, Exception):
                    _fail(future, result)
                elif not future.done():
                    future.set_result(result)

    def _next_batch(self) -> list[tuple[Item, asyncio.Future[Result]]]:
        taken = BatchSize(self._max_items, self._max_bytes)
        batch: list[tuple[Item, asyncio.Future[Result]]] = []
        while self._gathered and taken.take(self._size_of(self._gathered[0][0])):
            batch.append(self._gathered.popleft())
        return batch


def _fail(future: asyncio.Future[Result], exc: BaseException) -> None:
    if future.done():
        return
    if isinstance(exc, Exception):
        future.set_exception(exc)
        # The waiter may have left already. Reading the exception keeps asyncio from reporting it.
        future.exception()
    else:
        future.cancel()
