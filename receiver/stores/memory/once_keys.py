"""The keys that a handler may use only one time, in a store in memory."""

from collections.abc import Collection
from datetime import datetime

from receiver.core.types import HandlerName
from receiver.stores.memory.face import MemoryFace


class MemoryOnceKeys(MemoryFace):
    """OnceKeys."""

    async def once(self, handler: HandlerName, key: str, *, now: datetime, until: datetime | None = None) -> bool:
        """Return True the first time."""
        first = self._is_available(handler, key, now)
        if first:
            self.state.once_keys[handler, key] = now, until
        return first

    async def available_once_keys(
        self, handler: HandlerName, keys: Collection[str], *, now: datetime
    ) -> frozenset[str]:
        """Return those of the keys that are unused or have expired."""
        return frozenset(key for key in keys if self._is_available(handler, key, now))

    async def set_once_expiry(self, handler: HandlerName, key: str, *, until: datetime | None) -> None:
        """Change when a key expires."""
        if (used := self.state.once_keys.get((handler, key))) is not None:
            self.state.once_keys[handler, key] = used[0], until

    def _is_available(self, handler: HandlerName, key: str, now: datetime) -> bool:
        _, until = self.state.once_keys.get((handler, key), (now, now))
        return until is not None and until <= now
