"""The event of a stored delivery, and the handlers that want it."""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from receiver.core.deliveries import Delivery, StoredDelivery
from receiver.core.types import Origin, Trigger
from receiver.errors import CostlyBody
from receiver.events import EVENT_CLASSES, Event, UnknownEvent, parse_event
from receiver.routing import Handler

log = logging.getLogger(__name__)


def read_event(stored: StoredDelivery) -> Event:
    """Return the event of a delivery. A body that no model can read becomes an UnknownEvent.

    Raises CostlyBody if the event would take too much memory.
    """
    delivery = stored.delivery
    try:
        return parse_event(delivery.body)
    except CostlyBody:
        raise
    except Exception:
        log.exception("event_unreadable", extra={"id": delivery.key, "type": delivery.type})
        return _envelope_event(UnknownEvent, delivery)


@dataclass(frozen=True, slots=True)
class RoutedEvent:
    """The event of a delivery for routing. Unless it `is_whole` it has only the fields of the envelope."""

    event: Event
    is_whole: bool = True

    @property
    def whole_event(self) -> Event | None:
        """The event that a handler may be given."""
        return self.event if self.is_whole else None


def read_to_route(stored: StoredDelivery) -> RoutedEvent:
    """Return the event of a delivery, without its data if the whole event would take too much memory."""
    try:
        return RoutedEvent(read_event(stored))
    except CostlyBody:
        delivery = stored.delivery
        event_class = EVENT_CLASSES.get(delivery.type, UnknownEvent)
        return RoutedEvent(_envelope_event(event_class, delivery), is_whole=False)


def wanting(handlers: Iterable[Handler], routed: RoutedEvent) -> Sequence[Handler]:
    """Return the handlers that want this event.

    A handler whose `where` raises counts too: its attempt asks `where` again and fails, and the store keeps why. If
    the event is not whole, `where` is not asked: the attempt fails, and the store keeps why.
    """
    event = routed.event
    if not routed.is_whole:
        return [handler for handler in handlers if handler.is_for(event)]
    return [handler for handler in handlers if _wants(handler, event)]


TRIGGERS = {Origin.SENDER: Trigger.DELIVERY, Origin.BACKFILL: Trigger.BACKFILL}
"""The trigger of the first attempt, by the delivery's origin. Imported deliveries run only when replayed."""


def _envelope_event(event_class: type[Event], delivery: Delivery) -> Event:
    return event_class(
        type=delivery.type,
        job_id=delivery.job_id,
        webhook_id=delivery.webhook_id,
        success=delivery.success,
    )


def _wants(handler: Handler, event: Event) -> bool:
    try:
        return handler.wants(event)
    except (Exception, SystemExit):
        return True
