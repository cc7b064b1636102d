"""Events that no handler wants: each type is logged once, with a handler ready to paste."""

import logging

from receiver.events import EVENT_CLASSES, Event, TerminalEvent, UnknownEvent
from receiver.routing import Router

log = logging.getLogger(__name__)

MAX_LOGGED_TYPES = 1_000
"""Types come from outside, and memory is bounded."""
MAX_TYPE_LENGTH = 200
MAX_NAME_LENGTH = 60
MAX_EXTRA_FIELDS = 8


class Unhandled:
    """Remembers which types of events have been logged since the worker started."""

    def __init__(self) -> None:
        self._logged: set[str] = set()

    def log_new(self, event: Event, router: Router) -> None:
        """Log a handler ready to paste for the first event of a type.

        Nothing is logged if some handler is for this type and only its `where` refused the event.
        """
        kind = event.type[:MAX_TYPE_LENGTH]
        if kind in self._logged or len(self._logged) >= MAX_LOGGED_TYPES:
            return
        self._logged.add(kind)
        if any(handler.is_for(event) for handler in router):
            return
        log.info("event_unhandled", extra={"type": kind, "stub": handler_stub(event)})


def handler_stub(event: Event) -> str:
    """Return the text of a handler for events like this one, with imports and the attributes worth reading."""
    event_class = EVENT_CLASSES.get(event.type, UnknownEvent)
    wanted = repr(event.type[:MAX_TYPE_LENGTH]) if event_class is UnknownEvent else event_class.__name__
    characters = event.type[:MAX_NAME_LENGTH].lower()
    name = "on_" + "".join(c if c.isascii() and c.isalnum() else "_" for c in characters)
    values = {f'"{attribute}"': f"event.{attribute}" for attribute in _readable(event_class)}
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
    entries = [f"        {key}: {value}," for key, value in values.items()]
    return "\n".join([*lines, "    seen = {", *entries, "    }", '    ctx.log.info("%s", seen)', ""])


def _readable(event_class: type[Event]) -> list[str]:
    """Return the attributes of a class of events that are worth a first look."""
    if event_class is UnknownEvent:
        return ["job_id", "success", "error", "data"]
    own = [
        name
        for base in reversed(event_class.__mro__)
        if issubclass(base, Event) and base is not Event
        for name, value in vars(base).items()
        if isinstance(value, property)
    ]
    end = ["success", "error"] if issubclass(event_class, TerminalEvent) else []
    return ["job_id", *end, *own] if end or own else ["job_id", "metadata"]
