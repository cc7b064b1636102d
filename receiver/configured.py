"""The configured store, opened for one purpose."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

from receiver.ports import Controls, Reports, Store, Upkeep
from receiver.settings import Settings
from receiver.stores import open_store


def configured_store(settings: Settings) -> Store:
    """Return the configured store; nothing is touched before it is opened."""
    return open_store(settings.store)


def store_at(path: Path) -> Store:
    """Return the store in a file."""
    return open_store(f"sqlite:///{path}")


def open_reports(settings: Settings) -> AbstractAsyncContextManager[Reports]:
    """Open the configured store for reading. Entering raises StoreError when there is none."""
    return open_store(settings.store).reports()


def open_upkeep(settings: Settings) -> AbstractAsyncContextManager[Upkeep]:
    """Open the configured store for pruning. Entering raises StoreError when there is none."""
    return open_store(settings.store).upkeep()


@asynccontextmanager
async def open_controls(settings: Settings, *, create: bool = False) -> AsyncIterator[Controls]:
    """Open the configured store for deciding. Entering raises StoreError when there is none; `create` makes it."""
    store = open_store(settings.store)
    if create and not store.exists():
        async with store.log():
            pass
    async with store.controls() as controls:
        yield controls
