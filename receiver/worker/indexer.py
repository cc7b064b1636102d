"""Fills the search index beside the work, a few deliveries at a time, with pauses."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import timedelta

from receiver.core.clock import Clock
from receiver.core.log_lines import event_log
from receiver.core.ports.search import SearchIndex
from receiver.errors import ReceiverError
from receiver.worker.background import running_beside

log = event_log(__name__)

MAX_ITEMS = 100
"""Deliveries in one transaction. Acks wait for the write lock meanwhile."""
MAX_BYTES = 4 * 1024 * 1024
_BUSY_PAUSE = timedelta(milliseconds=20)
"""Between two transactions, so that handlers have most of the time while there is much to index."""
_IDLE_PAUSE = timedelta(milliseconds=500)
"""Between two checks for new deliveries."""
_STORE_PAUSE = timedelta(seconds=1)
_BUG_PAUSE = timedelta(minutes=1)
"""After a bug of ours: the next try will probably fail too."""


@asynccontextmanager
async def indexing(
    open_index: Callable[[], AbstractAsyncContextManager[SearchIndex]], clock: Clock
) -> AsyncIterator[None]:
    """Fill the search index for as long as the block lasts."""
    async with open_index() as index, running_beside(keep_indexed(index, clock)):
        yield


async def keep_indexed(index: SearchIndex, clock: Clock) -> None:
    """Index stored and new deliveries until cancelled. Every error is logged, and the next try follows."""
    while True:
        try:
            taken = await index.index(limit=MAX_ITEMS, max_bytes=MAX_BYTES)
        except ReceiverError as exc:
            log.error("search_index_retrying", extra={"reason": str(exc)})
            await clock.sleep(_STORE_PAUSE)
        except Exception:
            log.exception("search_index_crashed")
            await clock.sleep(_BUG_PAUSE)
        else:
            await clock.sleep(_BUSY_PAUSE if taken else _IDLE_PAUSE)
