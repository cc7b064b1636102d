"""Open two stores for a copy from one to the other."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from receiver.core.ports.store import Store
from receiver.errors import ConfigurationError
from receiver.stores import open_store
from receiver.stores.sql.connection import NamedDatabase, errors_of
from receiver.stores.sql.copying import SOURCE, TARGET, CopySide, CopySizes, sizes_of


@asynccontextmanager
async def open_copy(source: str, target: str, *, create: bool = True) -> AsyncIterator[tuple[CopySide, CopySide]]:
    """Open the stores at two addresses; the target is created if there is none.

    Without `create` the target is opened for reading only. Raises ConfigurationError if they are the same store.
    """
    if source == target:
        raise ConfigurationError("the source and the target are the same store")
    async with AsyncExitStack() as stack:
        with errors_of(SOURCE):
            reading = await stack.enter_async_context(_store(source).reports())
        with errors_of(TARGET):
            writing = await stack.enter_async_context(_opened(_store(target), create=create))
        yield _side(source, reading), _side(target, writing)


async def source_sizes(source: str) -> CopySizes:
    """Return what the store at an address holds, without any other store."""
    with errors_of(SOURCE):
        async with _store(source).reports() as reading:
            return await sizes_of(NamedDatabase(_side(source, reading).database, SOURCE))


@asynccontextmanager
async def _opened(store: Store, *, create: bool) -> AsyncIterator[Any]:
    if not create:
        async with store.reports() as reports:
            yield reports
        return
    async with store.log():
        pass
    async with store.controls() as controls:
        yield controls


def _store(url: str) -> Store:
    if url.startswith("memory:"):
        raise ConfigurationError("a store in memory ends with its process: write the address of another one")
    return open_store(url)


def _side(url: str, face: Any) -> CopySide:
    if url.startswith("sqlite:"):
        from receiver.stores.sqlite.controls import SqliteCopySide  # the other driver need not be installed

        return SqliteCopySide(face.database)
    from receiver.stores.postgres.controls import PostgresCopySide  # as above

    return PostgresCopySide(face.database)
