"""Batches: how much one takes, and how one gathers while another is written, without a timer."""

import asyncio
import sys
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextvars import Context, copy_context
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(slots=True)
class BatchSize:
    """Counts what a batch holds: at most `max_items`, and at most `max_bytes` unless its first item is larger."""

    max_items: int
    max_bytes: int
    items: int = 0
    bytes: int = 0

    @property
    def is_full(self) -> bool:
        """Whether nothing more fits."""
        return self.items >= self.max_items or self.bytes >= self.max_bytes

    def add(self, size: int) -> None:
        """Count an item of this size."""
        self.items += 1
        self.bytes += size

    def take(self, size: int) -> bool:
        """Count an item of this size and return True; return False, and count nothing, if it does not fit."""
        if self.items >= self.max_items or (self.items and self.bytes + size > self.max_bytes):
            return False
        self.add(size)
        return True


def batches(items: Iterable[T], max_items: int, max_bytes: int, size_of: Callable[[T], int]) -> Iterator[list[T]]:
    """Split items into batches, in their order."""
    batch: list[T] = []
    taken = BatchSize(max_items, max_bytes)
    for item in items:
        size = size_of(item)
        if not taken.take(size):
            yield batch
            batch, taken = [], BatchSize(max_items, max_bytes)
            taken.take(size)
        batch.append(item)
    if batch:
        yield batch


def first_batch(items: Iterable[T], max_items: int, max_bytes: int, size_of: Callable[[T], int]) -> list[T]:
    """Return the items of the first batch."""
    return next(batches(items, max_items, max_bytes, size_of), [])


Item = TypeVar("Item")
Result = TypeVar("Result")

Then = Callable[[Result | BaseException], None]
"""Takes the result of an item, or the error with which it failed."""
Gathered = tuple[Item, Context, Then[Result]]


def nothing_to_see() -> None:
    """Do nothing: results come between two turns of the event loop."""


class GroupCommit(Generic[Item, Result]):
    """Passes the items that have gathered to `write` as one batch, and then gives each item its result.

    At most `at_once` batches are written at a time; `write` is called in their order. It returns one result for
    each item, in order. A result that is an exception fails its item alone. If `write` raises, all items of that
    batch fail with the error, and no others. A batch holds at most `max_items`, and at most `max_bytes` unless its
    first item is larger; `size_of` returns the bytes of an item.

    The items of one turn of the event loop form one batch. Once `part` items have gathered and another batch may be
    written, they are written at once: set `part` only if `write` starts immediately and returns a future. Fewer
    wait while another batch is written, because each batch costs a sync. `look` resolves the futures that it can
    resolve by now; it must not raise.
    """

    def __init__(
        self,
        write: Callable[[list[Item]], Awaitable[Sequence[Result]]],
        *,
        max_items: int,
        max_bytes: int = sys.maxsize,
        size_of: Callable[[Item], int] = lambda item: 0,
        at_once: int = 1,
        part: int | None = None,
        look: Callable[[], None] = nothing_to_see,
    ) -> None:
        self._write = write
        self._max_items = max_items
        self._max_bytes = max_bytes
        self._size_of = size_of
        self._at_once = at_once
        self._part = part
        self._look = look
        self._gathered: deque[Gathered[Item, Result]] = deque()
        self._writing: list[asyncio.Future[Sequence[Result]]] = []
        self._end_is_due = False
        """`_end_turn` will be called at the end of this turn of the event loop."""

    def submit(self, item: Item) -> asyncio.Future[Result]:
        """Put an item into the next batch. It stays there even if the future is cancelled."""
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self.submit_then(item, partial(resolve, future))
        return future

    def submit_then(self, item: Item, then: Then[Result]) -> None:
        """Put an item into the next batch, and call `then` once in the present context: faster than a future.

        `then` gets a CancelledError if writing is cancelled, as when the event loop ends.
        """
        self._gathered.append((item, copy_context(), then))
        if self._part is not None and len(self._gathered) >= self._part:
            if not self._may_write():
                self._look()
            self._write_next()
        elif not self._end_is_due and self._may_write():
            self._end_is_due = True
            asyncio.get_running_loop().call_soon(self._end_turn)

    async def aclose(self) -> None:
        """Return when every submitted item was written or has failed."""
        self._write_next()
        while self._writing:
            await asyncio.wait(self._writing)
            await asyncio.sleep(0)  # lets the results reach the items, and the next batches begin

    def _end_turn(self) -> None:
        self._end_is_due = False
        self._write_next()

    def _may_write(self) -> bool:
        written_now = len([one for one in self._writing if not one.done()])
        return not written_now or (written_now < self._at_once and len(self._gathered) >= (self._part or 1))

    def _write_next(self) -> None:
        while self._gathered and self._may_write():
            batch = self._next_batch()
            writing = self._begin([item for item, *_ in batch])
            self._writing.append(writing)
            writing.add_done_callback(partial(self._written, batch))

    def _begin(self, items: list[Item]) -> asyncio.Future[Sequence[Result]]:
        try:
            return asyncio.ensure_future(self._write(items))
        except Exception as exc:
            failed: asyncio.Future[Sequence[Result]] = asyncio.get_running_loop().create_future()
            failed.set_exception(exc)
            return failed

    def _written(self, batch: list[Gathered[Item, Result]], writing: asyncio.Future[Sequence[Result]]) -> None:
        self._writing.remove(writing)
        try:
            results: Sequence[Result | BaseException] = writing.result()
            if len(results) != len(batch):
                raise RuntimeError(f"{len(results)} results for {len(batch)} items")
        except Exception as exc:
            results = [exc] * len(batch)
        except BaseException:  # the event loop ends
            batch += self._gathered
            self._gathered.clear()
            results = [asyncio.CancelledError()] * len(batch)
        self._write_next()  # first: the writer need not wait until the results are taken
        _tell(batch, results)

    def _next_batch(self) -> list[Gathered[Item, Result]]:
        taken = BatchSize(self._max_items, self._max_bytes)
        batch: list[Gathered[Item, Result]] = []
        while self._gathered and taken.take(self._size_of(self._gathered[0][0])):
            batch.append(self._gathered.popleft())
        return batch


def _tell(batch: Sequence[Gathered[Item, Result]], results: Sequence[Result | BaseException]) -> None:
    for (_, context, then), result in zip(batch, results, strict=True):
        try:
            context.run(then, result)
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as exc:  # the others get theirs all the same
            report = {"message": "a result was not taken", "exception": exc}
            asyncio.get_running_loop().call_exception_handler(report)


def resolve(future: asyncio.Future[Result], result: Result | BaseException) -> None:
    """Resolve a future with a result or an error, unless it is done. It need not have a reader."""
    if future.done():
        return
    if isinstance(result, asyncio.CancelledError):
        future.cancel()
    elif isinstance(result, BaseException):
        future.set_exception(result)
        future.exception()  # asyncio reports an exception that was never read
    else:
        future.set_result(result)
