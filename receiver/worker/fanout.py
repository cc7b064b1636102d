"""From a stored delivery to its event, and from the event to the handlers that want it."""

import logging
from collections.abc import Iterable, Sequence

from receiver.core.deliveries import StoredDelivery
from receiver.core.types import Origin, Trigger
from receiver.events import EVENT_CLASSES, Event, TerminalEvent, UnknownEvent, parse_event
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


def wanting(handlers: Iterable[Handler], event: Event) -> Sequence[Handler]:
    """Return those of the handlers that want this event.

    One whose `where` raises gets the event: the attempt evaluates it again and fails, where it can be seen.
    """
    return [handler for handler in handlers if _wants(handler, event)]


TRIGGERS = {Origin.SENDER: Trigger.DELIVERY, Origin.BACKFILL: Trigger.BACKFILL}
"""Why the first attempt at a delivery runs. What was imported waits for somebody to replay it."""


def _wants(handler: Handler, event: Event) -> bool:
    try:
        return handler.wants(event)
    except (Exception, SystemExit):
        return True


MAX_LOGGED_TYPES = 1_000
"""Types come from outside, and memory is bounded."""
MAX_TYPE_LENGTH = 200
MAX_NAME_LENGTH = 60
MAX_EXTRA_FIELDS = 8


class Unhandled:
    """Says once for each type of event that no handler wants it."""

    def __init__(self) -> None:
        self._told: set[str] = set()

    def tell(self, event: Event, router: Router) -> None:
        """Log a handler ready to paste, at the first sight of this type, unless only some `where` said no."""
        kind = event.type[:MAX_TYPE_LENGTH]
        if kind in self._told or len(self._told) >= MAX_LOGGED_TYPES:
            return
        self._told.add(kind)
        if any(handler.is_for(event) for handler in router):
            return
        log.info("event_unhandled", extra={"type": kind, "stub": stub(event)})


def stub(event: Event) -> str:
    """Return the text of a handler for events like this one, with its imports and what there is to read."""
    event_class = EVENT_CLASSES.get(event.type, UnknownEvent)
    wanted = repr(event.type[:MAX_TYPE_LENGTH]) if event_class is UnknownEvent else event_class.__name__
    name = "on_" + "".join(c if c.isascii() and c.isalnum() else "_" for c in event.type[:MAX_NAME_LENGTH].lower())
    values = {f'"{name}"': f"event.{name}" for name in _readable(event_class)}
    extra = [repr(key) for key in event.model_extra or {} if len(key) <= MAX_NAME_LENGTH][:MAX_EXTRA_FIELDS]
    lines = [
        "from receiver import Context",
        f"from receiver.events import {event_class.__name__}",
        "",
        "",
        f"@router.on({wanted})",
        f"async def {name}(event: {event_class.__name__}, ctx: Context) -> None:",
    ]
    if extra:
        lines.append("    extra = event.model_extra or {}")
        values |= {key: f"extra.get({key})" for key in extra}
    shown = [f"        {name}: {value}," for name, value in values.items()]
    return "\n".join([*lines, "    seen = {", *shown, "    }", '    ctx.log.info("%s", seen)', ""])


def _readable(event_class: type[Event]) -> list[str]:
    """Return what is worth a first look in events of a class."""
    if event_class is UnknownEvent:
        return ["job_id", "success", "error", "data"]
    own = [
        name
        for base in reversed(event_class.__mro__)
        if issubclass(base, Event) and base is not Event
        for name, value in vars(base).items()
        if isinstance(value, property)
    ]
    ended = ["success", "error"] if issubclass(event_class, TerminalEvent) else []
    return ["job_id", *ended, *own] if ended or own else ["job_id", "metadata"]
