"""A log that writes in batches: while some are written, the next one gathers."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Any

from receiver.core.batches import GroupCommit, Then, nothing_to_see
from receiver.core.deliveries import Delivery, Quarantined, Receipt
from receiver.core.ports.log import LogItem, Probe, size_of


class GroupedLog:
    """A DeliveryLog that gives batches to `write`. GroupCommit describes `at_once`, `part` and `look`.

    `write` returns when a batch is durable, with a Receipt for each Delivery and None for the others, in order.
    """

    def __init__(
        self,
        write: Callable[[list[LogItem]], Awaitable[Sequence[Any]]],
        *,
        max_items: int,
        max_bytes: int,
        at_once: int = 1,
        part: int | None = None,
        look: Callable[[], None] = nothing_to_see,
    ) -> None:
        self._commits: GroupCommit[LogItem, Any] = GroupCommit(
            write,
            max_items=max_items,
            max_bytes=max_bytes,
            size_of=size_of,
            at_once=at_once,
            part=part,
            look=look,
        )

    def append(self, delivery: Delivery, then: Then[Receipt]) -> None:
        """Store a delivery unless its key is stored, and call `then`."""
        self._commits.submit_then(delivery, then)

    def quarantine(self, request: Quarantined) -> asyncio.Future[None]:
        """Keep a refused request."""
        return self._commits.submit(request)

    def probe(self, now: datetime, size: int = 0) -> asyncio.Future[None]:
        """Write a mark, and so many bytes that do not stay."""
        return self._commits.submit(Probe(now, size))

    async def aclose(self) -> None:
        """Return when everything submitted was written or has failed."""
        await self._commits.aclose()
