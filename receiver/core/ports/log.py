"""What the web process needs from a store."""

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
    """When the check asked for it."""
    size: int
    """Bytes to write beside the mark; they do not stay."""


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

        `then` gets a CancelledError if writing is cancelled, as when the loop ends. It is no future: a future for
        each delivery took half a microsecond more, of fifteen without sockets.

        A second arrival with the same body is counted on the first. One with another body also goes into quarantine
        as a `conflict`. Where many processes append, that takes a second transaction, after the one that found the
        first arrival, and the receipt comes when both are durable. If the second fails, `then` gets the error and
        nothing was counted: the sender will retry.
        """

    def quarantine(self, request: Quarantined) -> asyncio.Future[None]:
        """Keep a refused request in quarantine."""

    def probe(self, now: datetime, size: int = 0) -> asyncio.Future[None]:
        """Write a mark and `size` bytes beside it, to test whether a delivery of that size can be stored now.

        On a nearly full disk a small write may succeed where a larger one fails. The bytes do not stay.
        """


Write = Callable[[Sequence[LogItem]], Sequence[Receipt | None]]
"""Writes a batch in one transaction, and returns when it is durable.

It returns a Receipt for each delivery and None for every other item, in order. It raises StoreError if none
was kept.
"""


class WritableLog(DeliveryLog, Protocol):
    """A log that also takes whole batches, which another process has gathered."""

    async def in_thread(self, work: Callable[[Write], None]) -> None:
        """Run a function, which may block, in the store's thread: it writes batches without switching threads."""
