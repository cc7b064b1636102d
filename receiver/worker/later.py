"""What a call of a handler asks for with `ctx.later`: it is made when the attempt is recorded as a success."""

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from receiver.core.text import did_you_mean
from receiver.core.types import HandlerName
from receiver.errors import HandlerError
from receiver.events import Event
from receiver.routing import Handler

MAX_CALLS = 100
"""For one event, and one more for each other event of a batch: more is a loop that does not end."""


@dataclass(frozen=True, slots=True)
class LaterCall:
    """A handler to run for the same delivery, so long after the end of the attempt."""

    handler: HandlerName
    after: timedelta


class LaterCalls:
    """The calls of one attempt, or of one call with a batch. Threads may add to it."""

    def __init__(self, handlers: Collection[Handler], events: Sequence[Event], work_ids: Sequence[int]) -> None:
        """`events` are what the handler got, and `work_ids` the work items that they belong to."""
        self._handlers = handlers
        self._events = events
        self._places = {id(event): place for place, event in enumerate(events)}
        self._work_ids = work_ids
        self._calls: dict[int, list[LaterCall]] = {}
        self._left = MAX_CALLS + len(events) - 1
        self._ended = False

    def add(self, wanted: object, event: object, after: timedelta) -> None:
        """Note a call. Raises HandlerError if it cannot be made, and RuntimeError if the attempt has ended."""
        if self._ended:
            raise RuntimeError("ctx.later was called after the attempt had ended, so nothing would come of it")
        place = self._places.get(id(event))
        if place is None:  # the handler may have copied it
            place = next((at for at, one in enumerate(self._events) if one == event), None)
        if place is None:
            raise HandlerError(
                "ctx.later takes the event that the handler got: the later call reads the stored delivery again, "
                f"and {type(event).__name__} was not delivered here"
            )
        if not self._left:
            most = MAX_CALLS + len(self._events) - 1
            raise HandlerError(f"ctx.later was called more than {most:,} times in one attempt")
        handler = self._found(wanted)
        if not handler.is_for(self._events[place]):
            kind = self._events[place].type
            raise HandlerError(f"ctx.later: the handler {handler.name} is not registered for {kind}")
        if handler.lane is not None or handler.after_pages is not None:
            raise HandlerError(
                f"ctx.later: the handler {handler.name} has an order or waits for pages, and work for later would "
                "stop that; register another function with @router.later"
            )
        self._left -= 1
        self._calls.setdefault(self._work_ids[place], []).append(LaterCall(handler.name, after))

    def end(self) -> Mapping[int, Sequence[LaterCall]]:
        """Return the calls by work item. From now on none is taken."""
        self._ended = True
        return self._calls

    def _found(self, wanted: object) -> Handler:
        """Return the handler with this name or this function."""
        if not isinstance(wanted, str) and not callable(wanted):
            raise HandlerError(f"ctx.later takes a handler's function or its name, not {wanted!r}")
        found = [one for one in self._handlers if _is(one, wanted)]
        if len(found) == 1:
            return found[0]
        shown = wanted if isinstance(wanted, str) else getattr(wanted, "__qualname__", repr(wanted))
        if found:
            names = ", ".join(one.name for one in found)
            raise HandlerError(f"ctx.later: the function {shown} has several handlers; give one by name: {names}")
        close = [repr(str(one.name)) for one in self._handlers if one.name.rpartition(".")[2] in shown.split(".")]
        raise HandlerError(
            f"ctx.later: no handler of the router is {shown!r}{did_you_mean(close[:1])}"
            + ("" if close else "; register it with @router.later(...) or @router.on(...)")
        )


NO_CALLS = LaterCalls((), (), ())
"""For functions without a context."""


def _is(handler: Handler, wanted: str | Callable[..., Any]) -> bool:
    if isinstance(wanted, str):
        return handler.name == wanted
    return handler.function is wanted or inspect.unwrap(handler.function) is inspect.unwrap(wanted)
