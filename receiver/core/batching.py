"""So many items or so many bytes: what one batch takes."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

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
        """Tell whether nothing more fits."""
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
    taken = BatchSize(max_items, max_bytes)
    batch: list[T] = []
    for item in items:
        if not taken.take(size_of(item)):
            break
        batch.append(item)
    return batch
