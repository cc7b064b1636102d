"""Plans the work items of new deliveries, and decides which of them this worker claims at once."""

from collections.abc import Sequence
from dataclasses import dataclass

from receiver.core.claims import RoutingBatch
from receiver.core.deliveries import StoredDelivery
from receiver.core.ports.queue import RoutingQueue
from receiver.core.work import NewWork
from receiver.events import Event
from receiver.routing import Handler, Router
from receiver.worker.drift_log import DriftLogger
from receiver.worker.fanout import TRIGGERS, read_event, wanting
from receiver.worker.holds import Holds
from receiver.worker.lanes import lane_of
from receiver.worker.late_webhooks import find_repeats
from receiver.worker.slots import ReadyQueues
from receiver.worker.unhandled import Unhandled


@dataclass(frozen=True, slots=True)
class HandlerMatch:
    """A new delivery, its event, and a handler that wants the event."""

    stored: StoredDelivery
    event: Event
    handler: Handler


class RoutingPlanner:
    """Plans the work items of new deliveries."""

    def __init__(self, queue: RoutingQueue, router: Router, ready: ReadyQueues, holds: Holds) -> None:
        self._queue = queue
        self._router = router
        self._ready = ready
        self._holds = holds
        self._unhandled = Unhandled()
        self._drift = DriftLogger()

    async def matches(self, batch: RoutingBatch) -> Sequence[HandlerMatch]:
        """Return the handlers that want these deliveries."""
        read = [(one, read_event(one)) for one in batch.deliveries if one.delivery.origin in TRIGGERS]
        repeats = await find_repeats(self._queue, read) if batch.any_backfilled else frozenset()
        matches: list[HandlerMatch] = []
        for stored, event in read:
            self._drift.log_new(event, stored.delivery)
            if stored.seq in repeats:
                continue
            handlers = wanting(self._router, event)
            if not handlers:
                self._unhandled.log_new(event, self._router)
            matches += [HandlerMatch(stored, event, handler) for handler in handlers]
        return matches

    def new_work(self, matches: Sequence[HandlerMatch]) -> list[NewWork]:
        """Return the work items of these matches.

        Items are claimed while their queue has capacity, unless a limit over all workers has to be checked first.
        """
        claimable = {id(queue): queue.claimable for queue in self._ready}
        startable = {id(queue): queue.startable for queue in self._ready}
        startable_in_all = self._ready.startable
        work: list[NewWork] = []
        for match in matches:
            handler = match.handler
            queue = id(self._ready[handler.name])
            unlimited = handler.rate is None and (handler.concurrency is None or handler.batch is not None)
            claim = unlimited and claimable[queue] > 0
            starts = claim and handler.batch is None and startable[queue] > 0 and startable_in_all > 0
            claimable[queue] -= claim
            startable[queue] -= starts
            startable_in_all -= starts
            hold = self._holds.hold(handler, match.stored)
            trigger = TRIGGERS[match.stored.delivery.origin]
            lane = lane_of(handler, match.event)
            work.append(NewWork(match.stored.seq, handler.name, claim, starts, lane, hold, trigger))
        return work
