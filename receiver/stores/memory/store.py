"""The store in memory: all its faces in one."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from receiver.stores.memory.bulk import MemoryKeeping
from receiver.stores.memory.jobs import MemoryJobs
from receiver.stores.memory.maintenance import MemoryMaintenance


class MemoryStore(MemoryKeeping, MemoryMaintenance, MemoryJobs):
    """A Store and all its faces in one. Everything is gone with the process."""

    def exists(self) -> bool:
        """Return True."""
        return True

    @asynccontextmanager
    async def log(self) -> AsyncIterator["MemoryStore"]:
        """Return this store."""
        yield self

    @asynccontextmanager
    async def search(self) -> AsyncIterator["MemoryStore"]:
        """Return this store, with an index of words."""
        await self.make()
        yield self

    queue = log
    controls = log
    reports = log
    maintenance = log
