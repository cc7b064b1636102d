"""Choose a store by its address, and the clock that goes with it.

`sql` has what all SQL stores share. `writer_process` appends to one in another process.
"""

from contextlib import AbstractAsyncContextManager, nullcontext
from typing import TYPE_CHECKING

from receiver.core.addresses import is_postgres
from receiver.errors import ConfigurationError

if TYPE_CHECKING:  # it names everything that a store can hold, of which a process that writes needs little
    from receiver.core.clock import Clock
    from receiver.core.ports.store import Store

__all__ = ["open_clock", "open_store"]


def open_store(url: str, *, in_process: bool = False) -> "Store":
    """Return the store at this address. Nothing is opened or created yet.

    `memory://` is a new store in memory. Only this object leads to it, so it is refused unless `in_process` says
    that intake and worker both use this object.
    """
    scheme = url.partition(":")[0]
    if scheme == "memory":
        if not in_process:
            raise ConfigurationError(
                "a store in memory ends with its process, and no other process sees it: "
                "write sqlite:///receiver.db, or in tests use receiver.testing"
            )
        from receiver.stores.memory import MemoryStore  # few programs need it

        return MemoryStore()
    if scheme == "sqlite":
        from receiver.stores.sqlite.store import SqliteStore  # with its driver, which parsing an event needs not

        return SqliteStore(url)
    if is_postgres(url):
        try:
            from receiver.stores.postgres.store import PostgresStore  # with its driver, which is an extra
        except ImportError:
            raise ConfigurationError(
                "a PostgreSQL store needs its driver: pip install 'crawl-receiver[postgres]'"
            ) from None
        return PostgresStore(url)
    wrong = f"no store has addresses that begin with {scheme}:" if "://" in url else "this is no address of a store"
    raise ConfigurationError(f"{wrong}; write sqlite:///receiver.db")


def open_clock(store: "Store", clock: "Clock | None") -> "AbstractAsyncContextManager[Clock]":
    """Open the clock that was given, or the one that all processes which share the store have."""
    from receiver.core.clock import SystemClock  # with an event loop, which most commands need not

    return store.clock(SystemClock()) if clock is None else nullcontext(clock)
