"""The event of a stored delivery, and the handlers that want it."""

import logging
from collections.abc import Iterable, Sequence

from receiver.core.deliveries import StoredDelivery
from receiver.core.types import Origin, Trigger
from receiver.events import Event, UnknownEvent, parse_event
from receiver.routing import Handler

log = logging.getLogger(__name__)


def read_event(stored: StoredDelivery) -> Event:
    """Return the event of a delivery. A body that no model can read becomes an UnknownEvent."""
    delivery = stored.delivery
    try:
        return parse_event(delivery.body)
    except Exception:
        log.exception("event_unreadable", extra={"id": delivery.key, "type": delivery.type})
        return UnknownEvent(
            type=delivery.type,
            job_id=delivery.job_id,
            webhook_id=delivery.webhook_id,
            success=delivery.success,
        )


def wanting(handlers: Iterable[Handler], event: Event) -> Sequence[Handler]:
    """Return the handlers that want this event.

    A handler whose `where` raises counts too: its attempt asks `where` again and fails, and the store keeps why.
    """
    return [handler for handler in handlers if _wants(handler, event)]


TRIGGERS = {Origin.SENDER: Trigger.DELIVERY, Origin.BACKFILL: Trigger.BACKFILL}
"""The trigger of the first attempt, by the delivery's origin. Imported deliveries run only when replayed."""


def _wants(handler: Handler, event: Event) -> bool:
    try:
        return handler.wants(event)
    except (Exception, SystemExit):
        return True
