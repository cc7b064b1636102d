"""Routing in a store in memory."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from receiver.core.batching import first_batch
from receiver.core.claims import Lease, RoutingBatch
from receiver.core.rules import with_worker
from receiver.core.types import DeliveryKey, HandlerName, HandlerSwitch, Origin
from receiver.core.work import NewWork
from receiver.stores.memory.face import MemoryFace


class MemoryRouting(MemoryFace):
    """A RoutingQueue."""

    async def routing_batch(self, *, limit: int, max_bytes: int) -> RoutingBatch:
        """Return the oldest deliveries that no worker has routed."""
        found = first_batch(self.state.unrouted(), limit, max_bytes, lambda one: len(one.delivery.body))
        backfilled = any(one.delivery.origin is Origin.BACKFILL for one in self.state.deliveries.values())
        return RoutingBatch(self.state.routed, tuple(found), backfilled)

    async def route(
        self, batch: RoutingBatch, work: Sequence[NewWork], *, lease: Lease, now: datetime
    ) -> Sequence[int | None] | None:
        """Make work items and mark the batch as routed, unless another worker was first."""
        if batch.after != self.state.routed:
            return None
        self.state.routed = batch.deliveries[-1].seq
        made = [self.state.make(one, lease, now) for one in work]
        self.state.changes.set()
        ours = with_worker(work, [one.state for one in made])
        return [one.id if is_ours else None for one, is_ours in zip(made, ours, strict=True)]

    async def backfilled(self, keys: Collection[DeliveryKey]) -> frozenset[DeliveryKey]:
        """Return those of the keys under which a backfill has stored a delivery."""
        found = [self.state.deliveries[self.state.seqs[key]] for key in keys if key in self.state.seqs]
        return frozenset(one.delivery.key for one in found if one.delivery.origin is Origin.BACKFILL)

    async def switches(self) -> Mapping[HandlerName, HandlerSwitch]:
        """Return the handlers that are not ON."""
        return dict(self.state.switches)
