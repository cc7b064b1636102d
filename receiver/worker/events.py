"""The events of stored deliveries: reading them within bounded memory, their lanes, and what is logged of them."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from hashlib import blake2b
from typing import NamedTuple

from receiver.core.body_cost import COSTLY_BODY, MAX_BODY_COST, body_cost
from receiver.core.deliveries import Delivery, StoredDelivery
from receiver.core.text import storable
from receiver.core.types import Origin, Trigger
from receiver.errors import CostlyBody, UnreadableBody
from receiver.events import EVENT_CLASSES, Event, ScheduledRun, TerminalEvent, UnknownEvent, parse_event
from receiver.events.drift import MAX_DRIFTS, Drift, drift_of
from receiver.routing import Handler, Router
from receiver.runtime.log_lines import event_log
from receiver.worker.attempts import Claimed, HandlerCall

log = event_log(__name__)

MAX_LENGTH = 200
"""Characters of a lane's name. Stores index it, and a page of an index should hold many entries."""


def lane_of(handler: Handler, event: Event) -> str | None:
    """Return the event's lane for this handler, or None if it may run beside any other event.

    If the handler's `lane` function raises, the event is neither lost nor handled early: its lane is that of its
    job.
    """
    if handler.lane is None:
        return None
    try:
        key: object = handler.lane.key(event)
        return None if key is None else _name(str(key))
    except (Exception, SystemExit):
        instead = "without order, since it has no job" if event.job_id is None else "in the lane of its job"
        fields = {"handler": handler.name, "type": event.type, "job_id": event.job_id}
        log.exception("lane_unknown", extra={**fields, "advice": f"`lane` raised; the event runs {instead}"})
        return lane_of_job(event.job_id)


def lane_of_job(job_id: str | None) -> str | None:
    """Return the lane of a job's events under `ordered=True`; None for events without a job."""
    return None if job_id is None else _name(job_id)


def _name(key: str) -> str:
    """Return the name of a lane: its key, or the beginning of a long key and a hash of all of it."""
    name = storable(key)
    if len(name) <= MAX_LENGTH:
        return name
    digest = blake2b(name.encode(), digest_size=16).hexdigest()
    return f"{name[: MAX_LENGTH - len(digest) - 1]}…{digest}"


def read_event(stored: StoredDelivery) -> Event:
    """Return the event of a delivery, an UnknownEvent if no model can read the body.

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
    """The event of a delivery for routing. One that is not whole has only the fields of the envelope."""

    event: Event
    is_whole: bool = True

    @property
    def whole_event(self) -> Event | None:
        """The event if a handler may be given it."""
        return self.event if self.is_whole else None


def read_to_route(stored: StoredDelivery) -> RoutedEvent:
    """Return the event of a delivery, without data if it cannot be read as a whole."""
    try:
        return RoutedEvent(read_event(stored))
    except (CostlyBody, UnreadableBody):
        delivery = stored.delivery
        event_class = EVENT_CLASSES.get(delivery.type, UnknownEvent)
        return RoutedEvent(_envelope_event(event_class, delivery), is_whole=False)


def wanting(handlers: Iterable[Handler], routed: RoutedEvent) -> Sequence[Handler]:
    """Return the handlers that want this event."""
    return [handler for handler in handlers if wants(handler, routed)]


def wants(handler: Handler, routed: RoutedEvent) -> bool:
    """Return whether a handler wants this event.

    A handler whose `where` raises wants it: the attempt asks again and fails, and the store keeps why. So does that
    for an event that is not whole, whose `where` is not asked. No event by itself runs a handler of `router.later`.
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
"""The trigger of a first attempt, by origin. Imported deliveries run only when replayed."""


def _envelope_event(event_class: type[Event], delivery: Delivery) -> Event:
    return event_class(
        type=delivery.type,
        job_id=delivery.job_id,
        webhook_id=delivery.webhook_id,
        success=delivery.success,
    )


MAX_MEMORY = 2 * MAX_BODY_COST


def claim_on_memory(body: bytes) -> int:
    """Return how much memory to take before reading this body: none if it is cheap, or too large to be read."""
    cost = body_cost(body)
    return cost if COSTLY_BODY < cost <= MAX_BODY_COST else 0


class MemoryBudget:
    """The memory that the events of one worker may take together.

    Costly bodies wait for it in order; one always fits.
    """

    def __init__(self, size: int = MAX_MEMORY) -> None:
        self._size = size
        self._taken = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    def take_now(self, cost: int) -> bool:
        """Take this memory if it is free, and return whether it was."""
        if cost and (self._waiting or not self._fits(cost)):
            return False
        self._taken += cost
        return True

    def give_back(self, cost: int) -> None:
        """Let others take this memory."""
        self._taken -= cost
        while self._waiting and self._fits(self._waiting[0][0]):
            wanted, granted = self._waiting.popleft()
            if not granted.done():
                self._taken += wanted
                granted.set_result(None)

    @asynccontextmanager
    async def taken(self, cost: int) -> AsyncIterator[None]:
        """Wait for this memory, and keep it for the length of the block."""
        if not self.take_now(cost):
            granted = asyncio.get_running_loop().create_future()
            self._waiting.append((cost, granted))
            try:
                await granted
            except asyncio.CancelledError:
                self.give_back(0 if granted.cancelled() else cost)  # those behind it may fit
                raise
        try:
            yield
        finally:
            self.give_back(cost)

    def _fits(self, cost: int) -> bool:
        return not self._taken or self._taken + cost <= self._size


class DriftLogger:
    """Logs each field and value that our models do not know once; `receiver drift` searches the whole store."""

    def __init__(self) -> None:
        self._logged: set[Drift] = set()

    def log_new(self, event: Event, delivery: Delivery) -> None:
        """Log what has not been logged before."""
        for one in drift_of(event) - self._logged:
            if len(self._logged) >= MAX_DRIFTS:
                return
            self._logged.add(one)
            fields = {"type": one.type, "kind": one.kind.value, "path": one.path, "id": delivery.key}
            log.info("event_drift", extra=fields)


class EventReader:
    """Reads the events of claimed work items shortly before their calls, to keep few events in memory.

    It leaves an event to the attempt if it takes much memory, cannot be read, is a scheduled run, or is not one
    that the handler is for.
    """

    def __init__(self, drift: DriftLogger) -> None:
        self._drift = drift

    def read_singles(self, calls: Sequence[HandlerCall]) -> Sequence[HandlerCall]:
        """Return calls that are next in a queue, those of one item with its event.

        Reading many at once takes two thirds of the time of reading each between two calls of handlers, and an
        event that several handlers want is read once.
        """
        events: dict[int, Event | None] = {}
        return [
            (self._with_event(call[0], events),)
            if len(call) == 1 and not claim_on_memory(call[0].item.source.delivery.body)
            else call
            for call in calls
        ]

    def read_batch(self, call: HandlerCall) -> HandlerCall:
        """Return a call that is about to run, with the events of a batch, all of which take little memory.

        Read now, they are in the processor's cache: with those of all that waits, a worker took a tenth longer.
        """
        events: dict[int, Event | None] = {}
        return call if len(call) == 1 else tuple([self._with_event(one, events) for one in call])

    def _with_event(self, claimed: Claimed, events: dict[int, Event | None]) -> Claimed:
        if claimed.event or claimed.refusal:
            return claimed
        stored = claimed.item.source
        if stored.seq not in events:
            events[stored.seq] = self._event(stored)
        event = events[stored.seq]
        if event is None or not claimed.handler.is_for(event):
            return claimed
        return Claimed(claimed.item, claimed.handler, event, claimed.refusal, claimed.run)

    def _event(self, stored: StoredDelivery) -> Event | None:
        if stored.delivery.origin is Origin.SCHEDULE:
            return None
        try:
            event = read_event(stored)
        except (CostlyBody, UnreadableBody):
            return None
        self._drift.log_new(event, stored.delivery)
        return event


MAX_LOGGED_TYPES = 1_000
"""Types come from outside, and memory is bounded."""
MAX_TYPE_LENGTH = 200
MAX_NAME_LENGTH = 60
MAX_ATTRIBUTES = 3


class Unhandled:
    """Logs each type of events that no handler wants once."""

    def __init__(self, *, stubs: bool = False) -> None:
        """With `stubs` the line of a type has a handler ready to paste, for developers at a terminal."""
        self._stubs = stubs
        self._logged: set[str] = set()

    def log_new(self, event: Event, router: Router) -> None:
        """Log the first event of a type, unless a handler is for this type and only its `where` refused it."""
        kind = event.type[:MAX_TYPE_LENGTH]
        if kind in self._logged or len(self._logged) >= MAX_LOGGED_TYPES:
            return
        self._logged.add(kind)
        if any(handler.is_for(event) for handler in router):
            return
        stub = {"stub": handler_stub(event)} if self._stubs else {}
        log.info("event_unhandled", extra={"type": kind, **stub})


def handler_stub(event: Event) -> str:
    """Return the source of a handler for events like this one, which logs the attributes worth reading."""
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
    """Return the attributes of a class of events that are worth reading first."""
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
