"""What the web process needs of a store."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from receiver.core.batches import Then
from receiver.core.deliveries import Delivery, Quarantined, Receipt


@dataclass(frozen=True, slots=True)
class Probe:
    """The write of a readiness check."""

    now: datetime
    """When it was asked for."""
    size: int
    """Bytes that are written beside the mark, and do not stay."""


LogItem = Delivery | Quarantined | Probe
"""What can be written to a log."""


def size_of(item: LogItem) -> int:
    """Return how many bytes an item counts in a batch."""
    return item.size if isinstance(item, Probe) else len(item.body)


class DeliveryLog(Protocol):
    """Append requests.

    A future resolves, and `then` gets a receipt, only when the transaction is durable. A future fails, and `then`
    gets the error: a StoreError when nothing of the item was kept. Cancelling a future does not stop its write.
    """

    def append(self, delivery: Delivery, then: Then[Receipt]) -> None:
        """Store a delivery unless its key is stored, and call `then` in a later turn of the event loop.

        It gets a CancelledError if writing is cancelled, as when the loop ends. A future for each delivery took
        half a microsecond more, of fifteen without sockets.

        A second arrival with the same body is counted on the first. One with another body also goes into quarantine
        as a `conflict`. Where many processes append, that is a second transaction, after the one that found the
        first; the receipt comes when both are durable. Where the second fails, `then` gets the error, and nothing
        was counted: the sender comes again.
        """

    def quarantine(self, request: Quarantined) -> asyncio.Future[None]:
        """Keep a refused request in quarantine."""

    def probe(self, now: datetime, size: int = 0) -> asyncio.Future[None]:
        """Write a mark, and so many bytes beside it, as a test whether such a delivery can be written now.

        A small write may succeed on a disk that is full for a larger one. The bytes do not stay.
        """


Write = Callable[[Sequence[LogItem]], Sequence[Receipt | None]]
"""Writes all of a batch in one transaction, and returns when it is durable.

It returns a Receipt for each delivery and None for the others, in order, and raises StoreError when nothing of the
batch was kept.
"""


class WritableLog(DeliveryLog, Protocol):
    """A log that also takes whole batches, from a process that has gathered them."""

    async def in_thread(self, work: Callable[[Write], None]) -> None:
        """Run a function that may block in the thread of the store, where it writes batches without a hop."""
