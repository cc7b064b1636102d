"""Fills the index of words, beside the work and after it: a few deliveries at a time, with pauses."""

import logging
from datetime import timedelta

from receiver.core.clock import Clock
from receiver.core.ports.search import SearchIndex
from receiver.errors import ReceiverError

log = logging.getLogger(__name__)

MAX_ITEMS = 100
"""Deliveries in a transaction: acks wait for the write lock meanwhile."""
MAX_BYTES = 4 * 1024 * 1024
_BREATH = timedelta(milliseconds=20)
"""Between two transactions, so that most of the time goes to handlers while there is much to take in."""
_LOOK = timedelta(milliseconds=500)
"""Between two looks for what is new."""
_STORE_PAUSE = timedelta(seconds=1)
_BROKEN_PAUSE = timedelta(minutes=1)
"""After a fault of ours: it will probably be there the next time, too."""


async def keep_indexed(index: SearchIndex, clock: Clock) -> None:
    """Take in what is stored and what comes, until cancelled. Whatever goes wrong is logged, and tried again."""
    while True:
        try:
            taken = await index.index(limit=MAX_ITEMS, max_bytes=MAX_BYTES)
        except ReceiverError as exc:
            log.error("search_index_waits", extra={"reason": str(exc)})
            await clock.sleep(_STORE_PAUSE)
        except Exception:
            log.exception("search_index_broken")
            await clock.sleep(_BROKEN_PAUSE)
        else:
            await clock.sleep(_BREATH if taken else _LOOK)
