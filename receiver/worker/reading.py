"""Reads the events of claimed work items."""

from collections.abc import Sequence

from receiver.core.deliveries import StoredDelivery
from receiver.core.types import Origin
from receiver.errors import CostlyBody, UnreadableBody
from receiver.events import Event
from receiver.worker.attempts import Claimed
from receiver.worker.drift_log import DriftLogger
from receiver.worker.fanout import read_event
from receiver.worker.memory_budget import claim_on_memory
from receiver.worker.slots import HandlerCall


class EventReader:
    """Gives work items their events when their calls are near, so that few events are in memory at one time.

    An item has none if its event takes much memory or cannot be read, is a scheduled run, or is not one that its
    handler is for: then its attempt reads it, and decides.
    """

    def __init__(self, drift: DriftLogger) -> None:
        self._drift = drift

    def read_singles(self, calls: Sequence[HandlerCall]) -> Sequence[HandlerCall]:
        """Return calls that are next in a queue, those of one item with its event.

        To read many in one go takes two thirds of the time of reading each between two calls of handlers. An event
        that several of them want is read once.
        """
        events: dict[int, Event | None] = {}
        return [
            call if len(call) > 1 or _is_costly(call[0]) else (self._with_event(call[0], events),) for call in calls
        ]

    def read_batch(self, call: HandlerCall) -> HandlerCall:
        """Return a call that is about to run, one of a batch with its events. None of those takes much memory.

        So the processor has them in its cache. With the events of all that waits, a worker took a tenth longer.
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


def _is_costly(claimed: Claimed) -> bool:
    return claim_on_memory(claimed.item.source.delivery.body) > 0
