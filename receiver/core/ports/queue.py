"""What a worker needs of a store, one face for each concern."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from receiver.core.claims import (
    ClaimLimits,
    HandlerClaim,
    HeldItem,
    JobPages,
    Lease,
    RoutingBatch,
    Settlement,
    WorkItem,
)
from receiver.core.types import DeliveryKey, HandlerName, HandlerSwitch, WorkerId
from receiver.core.work import NewWork


class RoutingQueue(Protocol):
    """From stored deliveries to work items."""

    async def routing_batch(self, *, limit: int, max_bytes: int) -> RoutingBatch:
        """Return the oldest deliveries that no worker has routed, in the order of arrival.

        At most `limit` of them, and no more than fit in `max_bytes` of bodies, but always one if there is one.
        """

    async def route(
        self, batch: RoutingBatch, work: Sequence[NewWork], *, lease: Lease, now: datetime
    ) -> Sequence[int | None] | None:
        """Make work items and mark the deliveries of the batch as routed.

        Returns, in the order of `work`, the ids of those that are now claimed under the lease, and None for the
        others: those that did not ask for it, are held, are queued behind another in their lane, or whose
        handler is paused or disabled. Returns None, changing nothing, when another worker has routed since the
        batch was read.
        """

    async def backfilled(self, keys: Collection[DeliveryKey]) -> frozenset[DeliveryKey]:
        """Return those of the keys under which a delivery of the origin BACKFILL is stored."""

    async def switches(self) -> Mapping[HandlerName, HandlerSwitch]:
        """Return the handlers that are not ON."""


class ClaimQueue(Protocol):
    """Claim work items and settle them."""

    async def claim(
        self, claimants: Sequence[HandlerClaim], wanted: ClaimLimits, *, lease: Lease, now: datetime
    ) -> Sequence[WorkItem]:
        """Claim work items of these handlers that are due, within each handler's limits.

        Handlers are served in the order given, and of each the longest due first; none of a handler that is
        paused or disabled. Each claim counts as an attempt. Before that, what dead workers held, of whatever
        handler, has its lost attempt recorded and becomes due; and what waits for one of these handlers that is
        disabled is skipped.
        """

    async def suspects_due(self, claimants: Sequence[HandlerClaim], *, now: datetime) -> bool:
        """Tell whether an item is due that may have killed its worker.

        One is suspected when its worker died after it had begun, or when two of its workers died.
        """

    async def settle(self, settlements: Sequence[Settlement]) -> Sequence[bool]:
        """Record attempts and move their work items, each only if its worker still holds that attempt.

        Returns for each whether it did. False means that the lease ended and another attempt owns the item.
        """

    async def next_due(self, claimants: Sequence[HandlerClaim], *, now: datetime) -> datetime | None:
        """Return when there may be something to claim or to look at: what is due, a rate, a lease, a held item."""


class LeaseQueue(Protocol):
    """Work items under a lease: note that they have begun, and renew, return or end the lease."""

    async def mark_started(self, work_ids: Sequence[int], worker: WorkerId) -> None:
        """Note that items which this worker still holds have begun."""

    async def clear_started(self, work_ids: Sequence[int], worker: WorkerId) -> None:
        """Take that note back: from now on, whoever ends this worker, it is not the doing of these items."""

    async def renew(self, work_ids: Sequence[int], lease: Lease) -> None:
        """Move the end of the lease on those of the items that its worker still holds."""

    async def release_leases(self, work_ids: Sequence[int], worker: WorkerId, *, now: datetime) -> None:
        """Make items that this worker still holds due at once, and uncount the attempt."""

    async def expire_leases_of(self, worker: WorkerId, *, now: datetime) -> int:
        """End all leases of a worker that is known to be dead; return how many there were."""


class HoldQueue(Protocol):
    """Work items that wait for the pages of their job."""

    async def held(self, handlers: Sequence[HandlerName], *, now: datetime, limit: int) -> Sequence[HeldItem]:
        """Return held items that are due for a look, the longest due first."""

    async def pages(self, job_id: str, *, page_type: str, handlers: Sequence[HandlerName]) -> JobPages:
        """Return how far these handlers have come with the pages of a job; unrouted ones are not handled."""

    async def recheck(self, work_id: int, *, at: datetime, note: str) -> None:
        """Keep a held item until the next look. `note` says what it waits for."""

    async def release(self, work_id: int, *, now: datetime, note: str) -> None:
        """Make a held item due."""


class OnceKeys(Protocol):
    """Keys that a handler may use only one time."""

    async def once(self, handler: HandlerName, key: str, *, now: datetime, until: datetime | None = None) -> bool:
        """Return True the first time this handler asks for this key, and False ever after.

        With `until` that lapses: from then on the next who asks is the first again, and says anew for how long.
        """

    async def available_once_keys(
        self, handler: HandlerName, keys: Collection[str], *, now: datetime
    ) -> frozenset[str]:
        """Return those of the keys for which `once` would say True now."""

    async def set_once_expiry(self, handler: HandlerName, key: str, *, until: datetime | None) -> None:
        """Change when it lapses that this handler has asked for this key once; None for never."""


class WorkSignal(Protocol):
    """Wake a worker."""

    async def changed(self) -> None:
        """Return soon after another process, or this one, has appended a delivery."""


class WorkQueue(RoutingQueue, ClaimQueue, LeaseQueue, HoldQueue, OnceKeys, WorkSignal, Protocol):
    """All that a worker needs."""
