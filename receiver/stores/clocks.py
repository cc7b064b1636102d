"""The clock that goes with a store."""

from contextlib import AbstractAsyncContextManager, nullcontext
from typing import TYPE_CHECKING

from receiver.core.clock import Clock, SystemClock

if TYPE_CHECKING:  # as in `receiver.stores`
    from receiver.core.ports.store import Store


def open_clock(store: "Store", clock: Clock | None) -> AbstractAsyncContextManager[Clock]:
    """Open the clock that was given, or the one that all processes which share the store have."""
    return store.clock(SystemClock()) if clock is None else nullcontext(clock)
