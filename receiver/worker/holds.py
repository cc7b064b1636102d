"""Terminal events that wait for the pages of their jobs."""

import logging
from collections.abc import Sequence
from datetime import datetime

from receiver.core.claims import HeldItem, JobPages
from receiver.core.clock import Clock
from receiver.core.deliveries import StoredDelivery
from receiver.core.ports.queue import HoldQueue
from receiver.core.rules import RecheckAt, Release, check_hold
from receiver.core.types import HandlerName
from receiver.core.work import Hold
from receiver.routing import Handler, Router

log = logging.getLogger(__name__)

MAX_ITEMS = 100


def hold_for(handler: Handler, router: Router, stored: StoredDelivery, now: datetime) -> Hold | None:
    """Return how long an event is held back for a handler, None if it is not."""
    delivery, wait = stored.delivery, handler.after_pages
    if wait is None or delivery.job_id is None or router.page_type(delivery.type) is None:
        return None
    # From now, and not from its arrival: after an outage the pages are still to be handled, too.
    until = now + wait.at_most
    look_at = min(delivery.received_at + wait.quiet, until)
    return Hold(look_at, until, f"waits for the pages of its job, until {look_at:%H:%M:%S} UTC at least")


class Holds:
    """Holds terminal events back at routing, and looks again until they may run."""

    def __init__(self, queue: HoldQueue, router: Router, clock: Clock) -> None:
        self._queue = queue
        self._router = router
        self._clock = clock
        # All of them: one that waits for no pages any more may have held items from the time when it did.
        self._handlers: Sequence[HandlerName] = tuple(handler.name for handler in router)

    def hold(self, handler: Handler, stored: StoredDelivery) -> Hold | None:
        """Return how long this event is held back for this handler, None if it is not."""
        return hold_for(handler, self._router, stored, self._clock.now())

    async def look(self) -> None:
        """Look at every held item that is due for it."""
        for item in await self._queue.held(self._handlers, now=self._clock.now(), limit=MAX_ITEMS):
            await self._look_at(item)

    async def _look_at(self, item: HeldItem) -> None:
        now = self._clock.now()
        wait = self._router[item.handler].after_pages
        page_type = self._router.page_type(item.event_type)
        if wait is None or page_type is None:  # the handler was another when the item was made
            await self._queue.release(item.id, now=now, note="its handler waits for no pages any more")
            return
        pages: JobPages = await self._queue.pages(
            item.job_id, page_type=page_type, handlers=self._router.page_handlers(item.event_type)
        )
        match check_hold(item, pages, quiet=wait.quiet, now=now):
            case Release(note):
                log.info("work_released", extra={"work_id": item.id, "job_id": item.job_id, "note": note})
                await self._queue.release(item.id, now=now, note=note)
            case RecheckAt(at, note):
                await self._queue.recheck(item.id, at=at, note=note)
