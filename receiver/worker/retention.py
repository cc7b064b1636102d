"""Keeping the store small while the worker runs: what was kept long enough goes, a small step at a time."""

import logging
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from datetime import datetime, timedelta

from receiver.core.clock import Clock
from receiver.core.ports.maintenance import Maintenance
from receiver.core.retention import PruneRule, Step
from receiver.errors import ReceiverError

log = logging.getLogger(__name__)

EVERY = timedelta(minutes=5)
"""How often the worker looks. Nothing is late by more than that, and a look at a million takes a second."""
_PAUSE = timedelta(milliseconds=50)
"""Between steps that hold the write lock, so that acks and work have it most of the time."""
MAX_ITEMS = 200
MAX_BYTES = 800 * 1024


class Retention:
    """Prunes, compresses and shrinks a store now and then. None keeps for ever.

    Bodies go after `bodies`, and whole deliveries, with what handlers asked for once, after `keys`.
    """

    def __init__(
        self,
        maintenance: Callable[[], AbstractAsyncContextManager[Maintenance]],
        clock: Clock,
        *,
        bodies: timedelta | None,
        keys: timedelta | None,
    ) -> None:
        self._open = maintenance
        self._clock = clock
        self._bodies = bodies
        self._keys = keys

    async def run(self) -> None:
        """Look at once, then now and then, until cancelled. Whatever goes wrong is logged, and looked at again."""
        while True:
            try:
                async with self._open() as maintenance:
                    await self._tidy(maintenance)
            except ReceiverError as exc:
                log.warning("upkeep_failed", extra={"reason": str(exc)})
            except Exception:  # a fault of ours: the next look may do without what it stumbled over
                log.exception("maintenance_crashed")
            await self._clock.sleep(EVERY)

    async def _tidy(self, maintenance: Maintenance) -> None:
        now = self._clock.now()
        bodies = deliveries = 0
        if self._bodies is not None:
            bodies = await self._prune(maintenance, PruneRule(now - self._bodies, bodies=True), now)
        if self._keys is not None:
            before = now - self._keys
            deliveries = await self._prune(maintenance, PruneRule(before), now)
            await self._repeat(lambda: maintenance.forget(before, limit=MAX_ITEMS), most=MAX_ITEMS)
        smaller = await self._compress(maintenance)
        reclaimed = await self._repeat(lambda: maintenance.reclaim(MAX_BYTES), most=1)
        if bodies or deliveries:
            log.info("pruned", extra={"bodies": bodies, "deliveries": deliveries})
        if smaller or reclaimed:
            log.debug("store_shrunk", extra={"compressed": smaller, "bytes": reclaimed})

    async def _prune(self, maintenance: Maintenance, rule: PruneRule, now: datetime) -> int:
        return await self._walk(lambda after: maintenance.prune(rule, after=after, limit=MAX_ITEMS, now=now))

    async def _compress(self, maintenance: Maintenance) -> int:
        return await self._walk(lambda _: maintenance.compress(limit=MAX_ITEMS))

    async def _walk(self, step: Callable[[int], Awaitable[Step]]) -> int:
        """Take steps to the end, and return how many deliveries they changed."""
        total = 0
        after: int | None = 0
        while after is not None:
            done = await step(after)
            total, after = total + done.count, done.after
            if done.count:
                await self._clock.sleep(_PAUSE)
        return total

    async def _repeat(self, step: Callable[[], Awaitable[int]], *, most: int) -> int:
        """Take steps until one does less than `most`, and return how much was done."""
        total = 0
        while True:
            done = await step()
            total += done
            if done < most:
                return total
            await self._clock.sleep(_PAUSE)
