"""What keeps a store tidy beside the work, in small steps: deleting what is old, and filling the search index."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import datetime, timedelta
from functools import partial

from receiver.core import activity, recorded_actions
from receiver.core.activity import PruneRule, Step
from receiver.core.clock import Clock, running_beside
from receiver.core.ports.store import Maintenance, SearchIndex
from receiver.errors import ReceiverError
from receiver.runtime.log_lines import event_log

log = event_log(__name__)

EVERY = timedelta(minutes=5)
"""Time between two rounds. Checking a million deliveries takes a second."""
_PAUSE = timedelta(milliseconds=50)
"""Between two steps: acks and work have the write lock most of the time."""
MAX_ITEMS = 200
MAX_BYTES = 800 * 1024


class Retention:
    """Prunes, compresses and shrinks a store every few minutes.

    Bodies are deleted after `bodies`. Whole deliveries, and the keys of `ctx.once`, are deleted after `keys`. None
    keeps them for ever. If the clock jumps forward, only time that this worker has seen pass counts towards an age.
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
        self._began_at, self._began_steady = clock.now(), clock.steady()
        self._bodies = bodies
        self._keys = keys

    async def run(self) -> None:
        """Prune every few minutes until cancelled, first at once. Errors are logged."""
        while True:
            try:
                async with self._open() as maintenance:
                    await self._tidy(maintenance)
            except (ReceiverError, OSError) as exc:  # handlers may have used up all descriptors
                log.warning("maintenance_failed", extra={"reason": str(exc)})
            except Exception:  # a bug of ours
                log.exception("maintenance_crashed")
            await self._clock.sleep(EVERY)

    async def _tidy(self, maintenance: Maintenance) -> None:
        # A wrong clock must not delete everything. The steady clock may stand still while a machine sleeps.
        now = min(self._clock.now(), self._began_at + (self._clock.steady() - self._began_steady))
        bodies = deliveries = 0
        if self._bodies is not None:
            bodies = await self._prune(maintenance, PruneRule(now - self._bodies, bodies=True), now)
        if self._keys is not None:
            before = now - self._keys
            deliveries = await self._prune(maintenance, PruneRule(before), now)
            await self._repeat(lambda: maintenance.forget(before, limit=MAX_ITEMS), most=MAX_ITEMS)
        await self._repeat(lambda: maintenance.forget_activity(now - activity.ACTIVITY_KEPT), most=1)
        await maintenance.forget_workers(now - activity.WORKERS_KEPT)
        forget_actions = partial(maintenance.forget_actions, keep=recorded_actions.MAX_KEPT, limit=MAX_ITEMS)
        await self._repeat(lambda: forget_actions(now - recorded_actions.KEPT), most=MAX_ITEMS)
        smaller = await self._compress(maintenance)
        reclaimed = await self._repeat(lambda: maintenance.reclaim(MAX_BYTES), most=1)
        if bodies or deliveries:
            log.info("pruned", extra={"bodies": bodies, "deliveries": deliveries})
        if smaller or reclaimed:
            log.debug("store_shrunk", extra={"compressed": smaller, "bytes": reclaimed})

    async def _prune(self, maintenance: Maintenance, rule: PruneRule, now: datetime) -> int:
        return await self._walk(lambda after: maintenance.prune(rule, after=after, limit=MAX_ITEMS, now=now))

    async def _compress(self, maintenance: Maintenance) -> int:
        async def step(_: int) -> Step:
            done = await maintenance.compress(limit=MAX_ITEMS)
            await maintenance.reclaim(MAX_BYTES)  # what a long pass frees must not wait for its end
            return done

        return await self._walk(step)

    async def _walk(self, step: Callable[[int], Awaitable[Step]]) -> int:
        """Take all steps. Return how many deliveries they changed."""
        total = 0
        after: int | None = 0
        while after is not None:
            done = await step(after)
            total, after = total + done.count, done.after
            if done.count:
                await self._clock.sleep(_PAUSE)
        return total

    async def _repeat(self, step: Callable[[], Awaitable[int]], *, most: int) -> int:
        """Take steps until one changes less than `most`. Return how much all have changed."""
        total = 0
        while True:
            done = await step()
            total += done
            if done < most:
                return total
            await self._clock.sleep(_PAUSE)


INDEX_MAX_ITEMS = 100
"""Deliveries in one transaction, for which acks wait."""
INDEX_MAX_BYTES = 4 * 1024 * 1024
_BUSY_PAUSE = timedelta(milliseconds=20)
"""Between two transactions: handlers have most of the time while there is much to index."""
_IDLE_PAUSE = timedelta(milliseconds=500)
"""Between two checks for new deliveries."""
_STORE_PAUSE = timedelta(seconds=1)
_BUG_PAUSE = timedelta(minutes=1)
"""After a bug of ours: the next try probably fails too."""


@asynccontextmanager
async def indexing(
    open_index: Callable[[], AbstractAsyncContextManager[SearchIndex]], clock: Clock
) -> AsyncIterator[None]:
    """Fill the search index for as long as the block lasts."""
    async with open_index() as index, running_beside(keep_indexed(index, clock)):
        yield


async def keep_indexed(index: SearchIndex, clock: Clock) -> None:
    """Index stored and new deliveries until cancelled. Errors are logged, and it tries again."""
    while True:
        try:
            taken = await index.index(limit=INDEX_MAX_ITEMS, max_bytes=INDEX_MAX_BYTES)
        except ReceiverError as exc:
            log.error("search_index_retrying", extra={"reason": str(exc)})
            await clock.sleep(_STORE_PAUSE)
        except Exception:
            log.exception("search_index_crashed")
            await clock.sleep(_BUG_PAUSE)
        else:
            await clock.sleep(_BUSY_PAUSE if taken else _IDLE_PAUSE)
