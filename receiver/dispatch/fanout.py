"""From a stored delivery to its event, and from the event to the handlers that want it."""

import logging
from collections.abc import Sequence

from receiver.events import Event, UnknownEvent, parse_event
from receiver.records import StoredDelivery
from receiver.routing import Handler, Router

log = logging.getLogger(__name__)


def read_event(stored: StoredDelivery) -> Event:
    """Return the event of a delivery. One that our models cannot read is an UnknownEvent, and never lost."""
    delivery = stored.delivery
    try:
        return parse_event(delivery.body)
    except Exception:
        log.exception("event_unreadable", extra={"key": delivery.key, "type": delivery.type})
        return UnknownEvent(
            type=delivery.type,
            job_id=delivery.job_id,
            webhook_id=delivery.webhook_id,
            success=delivery.success,
        )


def wanting(router: Router, event: Event) -> Sequence[Handler]:
    """Return the handlers that want this event.

    One whose `where` raises gets the event: the attempt evaluates it again and fails, where it can be seen.
    """
    return [handler for handler in router if _wants(handler, event)]


def _wants(handler: Handler, event: Event) -> bool:
    try:
        return handler.wants(event)
    except (Exception, SystemExit):
        return True


_MOST_TOLD = 1_000
"""Types come from outside, and memory is bounded."""


class Unhandled:
    """Says once for each type of event that no handler wants it."""

    def __init__(self) -> None:
        self._told: set[str] = set()

    def tell(self, event: Event) -> None:
        """Log a handler ready to paste, at the first sight of this type."""
        if event.type in self._told or len(self._told) >= _MOST_TOLD:
            return
        self._told.add(event.type)
        log.info("event_unhandled", extra={"type": event.type, "stub": stub(event)})


def stub(event: Event) -> str:
    """Return the text of a handler for events like this one."""
    if isinstance(event, UnknownEvent):
        wanted, annotation = repr(event.type), "UnknownEvent"
    else:
        wanted = annotation = type(event).__name__
    name = "on_" + "".join(c if c.isascii() and c.isalnum() else "_" for c in event.type.lower())
    return f"@router.on({wanted})\nasync def {name}(event: {annotation}, ctx: Context) -> None: ...\n"
