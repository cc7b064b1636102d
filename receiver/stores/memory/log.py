"""Appending to a store in memory."""

import asyncio
from datetime import datetime
from typing import TypeVar

from receiver.core.deliveries import Delivery, Receipt, StoredDelivery
from receiver.core.group_commit import Then
from receiver.core.quarantine import Quarantined, conflict
from receiver.core.types import AppendOutcome
from receiver.stores.memory.face import MemoryFace
from receiver.stores.memory.state import MemoryState

T = TypeVar("T")


class MemoryLog(MemoryFace):
    """A DeliveryLog."""

    def append(self, delivery: Delivery, then: Then[Receipt]) -> None:
        """Store a delivery unless its key is stored, and call `then`."""
        asyncio.get_running_loop().call_soon(then, append(self.state, delivery))

    def quarantine(self, request: Quarantined) -> asyncio.Future[None]:
        """Keep a refused request."""
        quarantine(self.state, request)
        return _done(None)

    def probe(self, now: datetime, size: int = 0) -> asyncio.Future[None]:
        """Succeed."""
        return _done(None)


def append(state: MemoryState, delivery: Delivery) -> Receipt:
    """Store a delivery unless its key is stored."""
    seq = state.seqs.get(delivery.key)
    if seq is None:
        add(state, delivery)
        return Receipt(delivery.key, AppendOutcome.ACCEPTED)
    stored = state.deliveries[seq]
    state.deliveries[seq] = stored._replace(duplicates=stored.duplicates + 1)
    if same_body(state, stored, delivery):
        return Receipt(delivery.key, AppendOutcome.DUPLICATE)
    quarantine(state, conflict(delivery))
    return Receipt(delivery.key, AppendOutcome.CONFLICT)


def add(state: MemoryState, delivery: Delivery, duplicates: int = 0) -> None:
    """Store a delivery whose key is not stored."""
    state.last_seq += 1
    state.seqs[delivery.key] = state.last_seq
    state.deliveries[state.last_seq] = StoredDelivery(state.last_seq, duplicates, delivery)
    state.changes.set()


def same_body(state: MemoryState, stored: StoredDelivery, delivery: Delivery) -> bool:
    """Tell whether a delivery has the body of a stored one, or the size that a pruned body had."""
    if stored.seq in state.pruned:
        return state.pruned[stored.seq] == len(delivery.body)
    return stored.delivery.body == delivery.body


def quarantine(state: MemoryState, request: Quarantined) -> None:
    """Keep a request in quarantine."""
    state.last_quarantined += 1
    state.quarantined[state.last_quarantined] = request


def _done(result: T) -> asyncio.Future[T]:
    future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
    future.set_result(result)
    return future
