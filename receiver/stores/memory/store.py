"""The store in memory: it opens faces that share one state."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime

from typing_extensions import override

from receiver.core.batches import BatchSize, Then
from receiver.core.clock import Clock
from receiver.core.deliveries import Delivery, Quarantined, Receipt
from receiver.core.ports.log import DeliveryLog
from receiver.core.ports.store import SearchIndex, Store
from receiver.core.subjects import texts_of
from receiver.core.types import Tell
from receiver.stores.memory.controls import MemoryControls, MemoryMaintenance
from receiver.stores.memory.queue import MemoryQueue
from receiver.stores.memory.reports import MemoryReports
from receiver.stores.memory.state import MemoryState


@dataclass(eq=False)
class MemoryLog(DeliveryLog):
    """Appends at once; what it returns resolves in the next turn of the event loop."""

    state: MemoryState

    @override
    def append(self, delivery: Delivery, then: Then[Receipt]) -> None:
        asyncio.get_running_loop().call_soon(then, self.state.append(delivery))

    @override
    def quarantine(self, request: Quarantined) -> asyncio.Future[None]:
        self.state.quarantine(request)
        return _done()

    @override
    def probe(self, now: datetime, size: int = 0) -> asyncio.Future[None]:
        return _done()


def _done() -> asyncio.Future[None]:
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    future.set_result(None)
    return future


@dataclass(eq=False)
class MemorySearch(SearchIndex):
    """Fills the index of words."""

    state: MemoryState

    @override
    async def index(self, *, limit: int, max_bytes: int) -> int:
        state = self.state
        taken = BatchSize(limit, max_bytes)
        for seq, stored in state.deliveries.items():
            if seq <= state.indexed or seq in state.pruned:
                continue
            if taken.is_full:
                break
            if state.words is not None:
                state.words[seq] = texts_of(stored.delivery.body)
            state.indexed = seq
            taken.add(len(stored.delivery.body))
        return taken.items


class MemoryStore(Store):
    """A store whose content is gone when the process ends."""

    def __init__(self) -> None:
        self.state = MemoryState()

    @override
    def exists(self) -> bool:
        return True

    @override
    def schema(self) -> None:
        """Return None: no other version opens this store."""

    @override
    async def health_notes(self) -> Sequence[str]:
        return ()

    @override
    async def require_search(self) -> None:
        """Return: there can always be an index."""

    @override
    @asynccontextmanager
    async def clock(self, clock: Clock) -> AsyncIterator[Clock]:
        yield clock

    @override
    @asynccontextmanager
    async def log(self) -> AsyncIterator[MemoryLog]:
        yield MemoryLog(self.state)

    @override
    @asynccontextmanager
    async def queue(self) -> AsyncIterator[MemoryQueue]:
        yield MemoryQueue(self.state)

    @override
    @asynccontextmanager
    async def search(self) -> AsyncIterator[MemorySearch]:
        self.state.words = self.state.words or {}
        yield MemorySearch(self.state)

    @override
    @asynccontextmanager
    async def controls(self) -> AsyncIterator[MemoryControls]:
        yield MemoryControls(self.state)

    @override
    @asynccontextmanager
    async def reports(self) -> AsyncIterator[MemoryReports]:
        yield MemoryReports(self.state)

    @override
    @asynccontextmanager
    async def maintenance(self, *, tell: Tell | None = None) -> AsyncIterator[MemoryMaintenance]:
        yield MemoryMaintenance(self.state)
