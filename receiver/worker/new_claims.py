"""Which new work items their worker claims as it makes them, and which of those start at once."""

from collections import Counter
from collections.abc import Iterable

from receiver.core.types import HandlerName
from receiver.routing import Handler
from receiver.routing.policies import Batch
from receiver.worker.slots import ReadyQueue, ReadyQueues


class NewClaims:
    """Decides this for the items of one routed batch, in their order.

    Items are claimed while their queue has capacity, unless a limit over all workers has to be checked first. What
    starts at once is noted as started by the transaction that makes it.
    """

    def __init__(self, ready: ReadyQueues, coming: Iterable[HandlerName]) -> None:
        """`coming` has the name of the handler of each item that will run."""
        self._ready = ready
        self._coming = Counter(coming)
        self._claimable = {id(queue): queue.claimable for queue in ready}
        self._slots = {id(one): one.startable for queue in ready for one in queue.with_parents()}
        """How many more calls may start in a queue, or in those that share its slots."""
        self._startable_in_all = ready.startable
        self._in_batches: Counter[HandlerName] = Counter()
        """How many of the next items of a handler complete batches that start at once."""

    def next(self, handler: Handler, *, refused: bool) -> tuple[bool, bool]:
        """Tell whether the next item, of this handler, is claimed, and whether it starts at once."""
        queue = id(self._ready[handler.name])
        unlimited = handler.rate is None and (handler.concurrency is None or handler.batch is not None)
        claim = refused or (unlimited and self._claimable[queue] > 0)
        self._claimable[queue] -= claim
        if handler.batch is not None:
            starts = claim and not refused and self._completes_batch(handler, handler.batch)
        else:
            starts = claim and self._startable_in_all > 0 and self._startable(self._ready[handler.name]) > 0
            if starts:
                self._take_slots(self._ready[handler.name], 1)
        return claim, starts

    def _startable(self, queue: ReadyQueue) -> int:
        return min(self._startable_in_all, *[self._slots[id(one)] for one in queue.with_parents()])

    def _take_slots(self, queue: ReadyQueue, calls: int) -> None:
        self._startable_in_all -= calls
        for one in queue.with_parents():
            self._slots[id(one)] -= calls

    def _completes_batch(self, handler: Handler, batch: Batch) -> bool:
        """Tell whether the next item of a handler, which is claimed, is one of a batch that starts at once."""
        if handler.name not in self._in_batches:
            queue, waiting = self._ready[handler.name], self._ready.incomplete(handler.name)
            coming = min(self._coming[handler.name], self._claimable[id(queue)] + 1)
            calls = min((waiting + coming) // batch.size, self._startable(queue))
            self._in_batches[handler.name] = max(0, calls * batch.size - waiting)
            self._take_slots(queue, calls)
        self._in_batches[handler.name] -= 1
        return self._in_batches[handler.name] >= 0
