"""The store in memory: all its faces over one state."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Self

from receiver.core.clock import Clock
from receiver.core.types import Tell
from receiver.stores.memory.controls import MemoryControls, MemoryQuarantine
from receiver.stores.memory.maintenance import MemoryMaintenance
from receiver.stores.memory.queue import (
    MemoryClaims,
    MemoryHolds,
    MemoryLeases,
    MemoryOnceKeys,
    MemoryRouting,
    MemorySchedules,
    MemoryWork,
)
from receiver.stores.memory.reports import MemoryActions, MemoryDeliveries, MemoryFeed, MemoryHealth, MemoryJobs
from receiver.stores.memory.state import MemoryLog, MemorySearch


class MemoryQueue(MemoryRouting, MemoryClaims, MemoryLeases, MemoryHolds, MemoryOnceKeys, MemorySchedules):
    """A WorkQueue."""

    async def changed(self) -> None:
        """Return when something has changed since the last call."""
        await self.state.changed()


class MemoryReports(
    MemoryDeliveries, MemoryFeed, MemoryWork, MemoryQuarantine, MemoryJobs, MemoryHealth, MemoryActions
):
    """Reports."""


class MemoryStore(MemoryLog, MemoryQueue, MemoryControls, MemoryReports, MemoryMaintenance, MemorySearch):
    """A Store, and all its faces in one object. Everything is gone when the process ends."""

    def exists(self) -> bool:
        """Return True."""
        return True

    def schema(self) -> None:
        """Return None: no other version opens this store."""

    async def health_notes(self) -> Sequence[str]:
        """Return nothing."""
        return ()

    async def require_search(self) -> None:
        """Return: there can always be an index."""

    @asynccontextmanager
    async def clock(self, clock: Clock) -> AsyncIterator[Clock]:
        """Open the clock that is given."""
        yield clock

    @asynccontextmanager
    async def log(self) -> AsyncIterator[Self]:
        """Return this store."""
        yield self

    @asynccontextmanager
    async def search(self) -> AsyncIterator[Self]:
        """Return this store, with an index of words."""
        await self.make()
        yield self

    @asynccontextmanager
    async def maintenance(self, *, tell: Tell | None = None) -> AsyncIterator[Self]:
        """Return this store. It has nothing to tell."""
        yield self

    queue = log
    controls = log
    reports = log
