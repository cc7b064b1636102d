"""The three faces of a store: the web process appends, the worker claims and settles, readers read."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Protocol

from receiver.records import (
    Delivery,
    DeliveryDetail,
    DeliveryFilter,
    DeliverySummary,
    Lease,
    NewWork,
    Quarantined,
    Receipt,
    Settlement,
    Unrouted,
    Wanted,
    WorkItem,
)
from receiver.types import DeliveryKey, HandlerName, WorkerId


class DeliveryLog(Protocol):
    """What the web process needs.

    The futures resolve only when the transaction is durable, and fail with StoreError when nothing of the
    item was kept. Giving up on one of them does not stop its write.
    """

    def append(self, delivery: Delivery) -> asyncio.Future[Receipt]:
        """Store a delivery unless its key is stored.

        A second arrival with the same body is counted on the first. With another body it is also put in
        quarantine as `conflict`. Both happen in the transaction that found the first.
        """

    def quarantine(self, request: Quarantined) -> asyncio.Future[None]:
        """Keep a refused request."""

    def probe(self, now: datetime) -> asyncio.Future[None]:
        """Write a mark, to find out whether deliveries could be written now."""


class WorkQueue(Protocol):
    """What a worker needs."""

    async def unrouted(self, *, limit: int, max_bytes: int) -> Unrouted:
        """Return the oldest deliveries that no worker has routed, in the order of arrival.

        At most `limit` of them, and no more than fit in `max_bytes` of bodies, but always one if there is one.
        """

    async def route(self, batch: Unrouted, work: Sequence[NewWork], *, lease: Lease) -> Sequence[int] | None:
        """Make work items, already claimed under the lease, and mark the deliveries of the batch as routed.

        Returns the ids in the order of `work`, or None, changing nothing, when another worker has routed since
        the batch was read.
        """

    async def claim(
        self, handlers: Sequence[HandlerName], wanted: Wanted, *, lease: Lease, now: datetime
    ) -> Sequence[WorkItem]:
        """Claim work items of these handlers that are due or whose lease has ended.

        Handlers are served in the order given, and of each the longest due first. Each claim counts as an
        attempt. An item whose lease had ended gets its lost attempt recorded, and counted before it is compared
        with what is wanted.
        """

    async def renew(self, work_ids: Sequence[int], lease: Lease) -> None:
        """Move the end of the lease on those of the items that its worker still holds."""

    async def settle(self, settlements: Sequence[Settlement]) -> Sequence[bool]:
        """Record attempts and move their work items, each only if its worker still holds that attempt.

        Returns for each whether it did. False means that the lease ended and another attempt owns the item.
        """

    async def give_back(self, work_ids: Sequence[int], worker: WorkerId, *, now: datetime) -> None:
        """Make items that this worker still holds due at once, and uncount the attempt."""

    async def take_over(self, worker: WorkerId, *, now: datetime) -> int:
        """End all leases of a worker that is known to be dead; return how many there were."""

    async def next_due(self, handlers: Sequence[HandlerName], *, lost: range) -> datetime | None:
        """Return when the next item of these handlers, lost as often as said, becomes due or loses its lease."""

    async def changed(self) -> None:
        """Return soon after another process, or this one, has appended a delivery."""


class Reports(Protocol):
    """What listings, health and tools need."""

    def deliveries(self, wanted: DeliveryFilter) -> AsyncIterator[DeliverySummary]:
        """Yield the wanted deliveries, the newest first, in flat memory."""

    async def resolve(self, prefix: str) -> DeliveryKey:
        """Return the one key that begins so, or raise UnknownDelivery naming the candidates."""

    async def detail(self, key: DeliveryKey) -> DeliveryDetail:
        """Return all that is known of a delivery, or raise UnknownDelivery."""

    async def unfinished(self) -> int:
        """Return how many deliveries are NEW or WORKING."""


class Store(Protocol):
    """Where the three faces are opened. Nothing is touched before one of them is entered.

    Entering raises StoreError or StoreRefused when the database cannot be used. `log` and `queue` create and
    migrate it, `reports` migrates it but does not create it. Leaving finishes what was submitted.
    """

    def exists(self) -> bool:
        """Tell whether there is a database. Raises StoreRefused if there is none and none could be created."""

    def log(self) -> AbstractAsyncContextManager[DeliveryLog]:
        """Open for appending."""

    def queue(self) -> AbstractAsyncContextManager[WorkQueue]:
        """Open for working."""

    def reports(self) -> AbstractAsyncContextManager[Reports]:
        """Open for reading."""
