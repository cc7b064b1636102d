"""Events that no handler wants: each type is logged once, for a developer with a handler ready to paste."""

from receiver.core.log_lines import event_log
from receiver.events import EVENT_CLASSES, Event, TerminalEvent, UnknownEvent
from receiver.routing import Router

log = event_log(__name__)

MAX_LOGGED_TYPES = 1_000
"""Types come from outside, and memory is bounded."""
MAX_TYPE_LENGTH = 200
MAX_NAME_LENGTH = 60
MAX_ATTRIBUTES = 3


class Unhandled:
    """Remembers which types of events have been logged since the worker started."""

    def __init__(self, *, stubs: bool = False) -> None:
        """With `stubs` the line of a type has a handler ready to paste, for somebody who develops at a terminal."""
        self._stubs = stubs
        self._logged: set[str] = set()

    def log_new(self, event: Event, router: Router) -> None:
        """Log the first event of a type.

        Nothing is logged if some handler is for this type and only its `where` refused the event.
        """
        kind = event.type[:MAX_TYPE_LENGTH]
        if kind in self._logged or len(self._logged) >= MAX_LOGGED_TYPES:
            return
        self._logged.add(kind)
        if any(handler.is_for(event) for handler in router):
            return
        stub = {"stub": handler_stub(event)} if self._stubs else {}
        log.info("event_unhandled", extra={"type": kind, **stub})


def handler_stub(event: Event) -> str:
    """Return the text of a handler for events like this one, with imports. It logs the attributes worth reading."""
    event_class = EVENT_CLASSES.get(event.type, UnknownEvent)
    wanted = repr(event.type[:MAX_TYPE_LENGTH]) if event_class is UnknownEvent else event_class.__name__
    characters = event.type[:MAX_NAME_LENGTH].lower()
    name = "on_" + "".join(c if c.isascii() and c.isalnum() else "_" for c in characters)
    values = ", ".join(f'"{attribute}": event.{attribute}' for attribute in _readable(event_class)[:MAX_ATTRIBUTES])
    return "\n".join(
        [
            "from receiver import Context",
            f"from receiver.events import {event_class.__name__}",
            "",
            f"@router.on({wanted})",
            f"async def {name}(event: {event_class.__name__}, ctx: Context) -> None:",
            f'    ctx.log.info("seen", extra={{{values}}})',
            "",
        ]
    )


def _readable(event_class: type[Event]) -> list[str]:
    """Return the attributes of a class of events that are worth a first look."""
    if event_class is UnknownEvent:
        return ["data", "model_extra"]
    own = [
        name
        for base in reversed(event_class.__mro__)
        if issubclass(base, Event) and base is not Event
        for name, value in vars(base).items()
        if isinstance(value, property)
    ]
    end = ["success", "error"] if issubclass(event_class, TerminalEvent) else []
    return end + own or ["metadata"]
