"""The event of a stored delivery, and the handlers that want it."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from receiver.core.deliveries import Delivery, StoredDelivery
from receiver.core.log_lines import event_log
from receiver.core.types import Origin, Trigger
from receiver.errors import CostlyBody, UnreadableBody
from receiver.events import EVENT_CLASSES, Event, ScheduledRun, UnknownEvent, parse_event
from receiver.routing import Handler

log = event_log(__name__)


def read_event(stored: StoredDelivery) -> Event:
    """Return the event of a delivery. A body that no model can read becomes an UnknownEvent.

    Raises CostlyBody if the event would take too much memory, and UnreadableBody if the store could not read it.
    """
    delivery = stored.delivery
    if stored.unreadable:
        raise UnreadableBody(stored.unreadable)
    try:
        if delivery.origin is Origin.SCHEDULE:
            return ScheduledRun.model_validate_json(delivery.body)
        return parse_event(delivery.body)
    except CostlyBody:
        raise
    except Exception:
        log.exception("event_unreadable", extra={"id": delivery.key, "type": delivery.type})
        return _envelope_event(UnknownEvent, delivery)


class RoutedEvent(NamedTuple):
    """The event of a delivery for routing. Unless it `is_whole` it has only the fields of the envelope."""

    event: Event
    is_whole: bool = True

    @property
    def whole_event(self) -> Event | None:
        """The event that a handler may be given."""
        return self.event if self.is_whole else None


def read_to_route(stored: StoredDelivery) -> RoutedEvent:
    """Return the event of a delivery, without its data if the whole event cannot be read."""
    try:
        return RoutedEvent(read_event(stored))
    except (CostlyBody, UnreadableBody):
        delivery = stored.delivery
        event_class = EVENT_CLASSES.get(delivery.type, UnknownEvent)
        return RoutedEvent(_envelope_event(event_class, delivery), is_whole=False)


def wanting(handlers: Iterable[Handler], routed: RoutedEvent) -> Sequence[Handler]:
    """Return the handlers that want this event, as `wants` tells."""
    return [handler for handler in handlers if wants(handler, routed)]


def wants(handler: Handler, routed: RoutedEvent) -> bool:
    """Tell whether a handler wants this event.

    A handler whose `where` raises wants it: its attempt asks `where` again and fails, and the store keeps why. If
    the event is not whole, `where` is not asked: the attempt fails, and the store keeps why. No event runs a
    handler of `router.later` by itself.
    """
    if handler.only_later:
        return False
    if not routed.is_whole:
        return handler.is_for(routed.event)
    try:
        return handler.wants(routed.event)
    except (Exception, SystemExit):
        return True


TRIGGERS = {Origin.SENDER: Trigger.DELIVERY, Origin.BACKFILL: Trigger.BACKFILL}
"""The trigger of the first attempt, by the delivery's origin. Imported deliveries run only when replayed."""


def _envelope_event(event_class: type[Event], delivery: Delivery) -> Event:
    return event_class(
        type=delivery.type,
        job_id=delivery.job_id,
        webhook_id=delivery.webhook_id,
        success=delivery.success,
    )
