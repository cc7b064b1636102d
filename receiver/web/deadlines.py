"""Many deadlines of the same length, with one timer of the event loop for all of them."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

Item = TypeVar("Item")


class Deadlines(Generic[Item]):
    """Calls `expire` with each item that was not discarded within `seconds` after it was added.

    Nearly all are discarded after milliseconds, so a timer for each would be wasted.
    """

    def __init__(self, seconds: float, expire: Callable[[Item], None]) -> None:
        """Make it where an event loop runs; it belongs to that."""
        self._loop = asyncio.get_running_loop()
        self._seconds = seconds
        self._expire = expire
        self._due: OrderedDict[Item, float] = OrderedDict()  # in the order of their deadlines
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._due)

    def add(self, item: Item) -> None:
        """Start the time of an item. An item that is waiting keeps its time."""
        due = self._loop.time() + self._seconds
        self._due.setdefault(item, due)
        if self._timer is None:
            self._timer = self._loop.call_at(due, self._expire_due)

    def discard(self, item: Item) -> None:
        """Stop the time of an item. An item that is not waiting changes nothing."""
        self._due.pop(item, None)

    def first(self) -> Item:
        """Return the item that has waited for the longest time. Raises StopIteration if none is waiting."""
        return next(iter(self._due))

    def close(self) -> None:
        """Forget all items."""
        self._due.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _expire_due(self) -> None:
        now = self._loop.time()
        try:
            while self._due and self._first_due() <= now:
                item, _ = self._due.popitem(last=False)
                self._expire(item)
        finally:  # an error with one item does not stop the time of the others
            self._timer = self._loop.call_at(self._first_due(), self._expire_due) if self._due else None

    def _first_due(self) -> float:
        return next(iter(self._due.values()))
