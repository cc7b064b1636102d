"""What handlers asked for once, in a store in memory."""

from collections.abc import Collection
from datetime import datetime

from receiver.core.types import HandlerName
from receiver.stores.memory.search import MemorySearch


class MemoryOnces(MemorySearch):
    """The keys that handlers asked for, and until when that holds."""

    def __init__(self) -> None:
        super().__init__()
        self._onces: dict[tuple[HandlerName, str], tuple[datetime, datetime | None]] = {}
        """When something was asked for last, and when that lapses."""

    async def once(self, handler: HandlerName, key: str, *, now: datetime, until: datetime | None = None) -> bool:
        """Return True the first time."""
        first = self._is_free(handler, key, now)
        if first:
            self._onces[handler, key] = now, until
        return first

    async def available_once_keys(
        self, handler: HandlerName, keys: Collection[str], *, now: datetime
    ) -> frozenset[str]:
        """Return those that nobody has asked for, or that have lapsed."""
        return frozenset(key for key in keys if self._is_free(handler, key, now))

    async def set_once_expiry(self, handler: HandlerName, key: str, *, until: datetime | None) -> None:
        """Change when that lapses."""
        if (asked := self._onces.get((handler, key))) is not None:
            self._onces[handler, key] = asked[0], until

    def _is_free(self, handler: HandlerName, key: str, now: datetime) -> bool:
        _, until = self._onces.get((handler, key), (now, now))
        return until is not None and until <= now
