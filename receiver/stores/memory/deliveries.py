"""The deliveries and refused requests of a store in memory, and how they are appended."""

import asyncio
from bisect import bisect_left, bisect_right
from dataclasses import replace
from datetime import datetime
from operator import attrgetter
from typing import TypeVar

from receiver.core.deliveries import Delivery, Receipt, StoredDelivery
from receiver.core.quarantine import Quarantined
from receiver.core.types import AppendOutcome, DeliveryKey

T = TypeVar("T")
_SEQ = attrgetter("seq")


class MemoryDeliveries:
    """A DeliveryLog over lists."""

    def __init__(self) -> None:
        self.quarantined: list[Quarantined] = []
        self._refused_ids: list[int] = []
        """The ids of those in `quarantined`."""
        self._last_refused = 0
        self._deliveries: list[StoredDelivery] = []
        self._by_key: dict[DeliveryKey, int] = {}
        """The seq of each delivery."""
        self._pruned: dict[int, int] = {}
        """The size that a body had, by the seq of its delivery."""
        self._last_seq = 0
        self._routed = 0
        self._changes = asyncio.Event()

    def append(self, delivery: Delivery) -> asyncio.Future[Receipt]:
        """Store a delivery unless its key is stored."""
        return _done(self._append(delivery))

    def quarantine(self, request: Quarantined) -> asyncio.Future[None]:
        """Keep a refused request in `quarantined`."""
        self._last_refused += 1
        self.quarantined.append(request)
        self._refused_ids.append(self._last_refused)
        return _done(None)

    def probe(self, now: datetime) -> asyncio.Future[None]:
        """Succeed."""
        return _done(None)

    def _append(self, delivery: Delivery) -> Receipt:
        if delivery.key not in self._by_key:
            self._add(delivery)
            return Receipt(delivery.key, AppendOutcome.ACCEPTED)
        place = self._place(self._by_key[delivery.key])
        stored = self._deliveries[place]
        self._deliveries[place] = replace(stored, duplicates=stored.duplicates + 1)
        if self._same_body(stored, delivery):
            return Receipt(delivery.key, AppendOutcome.DUPLICATE)
        detail = "a delivery with this key and another body was stored before"
        self.quarantine(
            Quarantined(delivery.received_at, "conflict", detail, delivery.key, delivery.headers, delivery.body)
        )
        return Receipt(delivery.key, AppendOutcome.CONFLICT)

    def _add(self, delivery: Delivery, duplicates: int = 0) -> None:
        self._last_seq += 1
        self._by_key[delivery.key] = self._last_seq
        self._deliveries.append(StoredDelivery(self._last_seq, duplicates, delivery))
        self._changes.set()

    def _same_body(self, stored: StoredDelivery, delivery: Delivery) -> bool:
        if stored.seq in self._pruned:
            return self._pruned[stored.seq] == len(delivery.body)
        return stored.delivery.body == delivery.body

    def _place(self, seq: int) -> int:
        return bisect_left(self._deliveries, seq, key=_SEQ)

    def _new(self) -> list[StoredDelivery]:
        return self._deliveries[bisect_right(self._deliveries, self._routed, key=_SEQ) :]


def _done(result: T) -> asyncio.Future[T]:
    future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
    future.set_result(result)
    return future
