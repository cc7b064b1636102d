"""What a worker claims: which handlers' work, and how much of it."""

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from receiver.core.claims import ClaimLimits, HandlerClaim, Lease, WorkItem
from receiver.routing import Handler, Router
from receiver.worker.leases import Leases
from receiver.worker.slots import ReadyQueues


class NextClaim(NamedTuple):
    """What to claim in the transaction that records results."""

    claims: Sequence[HandlerClaim]
    limits: ClaimLimits
    lease: Lease


class ClaimedNext(NamedTuple):
    """What was claimed in that transaction."""

    items: Sequence[WorkItem]
    by: NextClaim


class ClaimPlanner:
    """Plans the claims of one worker, by what its queues have room for."""

    def __init__(self, router: Router, ready: ReadyQueues, leases: Leases, *, max_bytes: int) -> None:
        self._router = router
        self._ready = ready
        self._leases = leases
        self._max_bytes = max_bytes
        self._handlers = deque(router)
        self._in_lanes = [
            one for one in router if one.lane is not None and one.concurrency is None and one.rate is None
        ]

    @property
    def bytes_left(self) -> int:
        """Bytes of bodies that may still be claimed; none if it is not positive."""
        return self._max_bytes - self._leases.bytes

    @property
    def few_bytes_left(self) -> bool:
        """Tell whether large bodies have probably ended a claim before its limit."""
        return self.bytes_left < self._max_bytes // 2

    def claims(self) -> Sequence[HandlerClaim]:
        """Return the handlers that more work can be claimed for, starting with another one each time."""
        self._handlers.rotate(-1)  # no handler's backlog may keep the others waiting for ever
        return self._with_room(self._handlers)

    def limits(self, claims: Sequence[HandlerClaim]) -> ClaimLimits:
        """Return how much may be claimed for these handlers together."""
        queues = {id(queue): queue for queue in (self._ready[one.handler] for one in claims)}.values()
        batched = any(self._router[one.handler].batch is not None for one in claims)  # a batch starts later
        starting = 0 if batched else min((self._ready.startable, *(queue.startable for queue in queues)))
        return ClaimLimits(sum(queue.claimable for queue in queues), self.bytes_left, starting)

    def next_in_lanes(self) -> NextClaim | None:
        """Return what to claim of handlers that have lanes and no limits over all workers; None for nothing."""
        claims = self._with_room(self._in_lanes)
        if not claims or self.bytes_left <= 0 or self._leases.are_late:
            return None
        return NextClaim(claims, self.limits(claims), self._leases.new_lease())

    def _with_room(self, handlers: Sequence[Handler]) -> Sequence[HandlerClaim]:
        return [
            HandlerClaim(
                handler.name,
                None if handler.batch is not None else handler.concurrency,
                None if handler.rate is None else handler.rate.interval,
                claimable,
            )
            for handler in handlers
            if (claimable := self._claimable(handler)) > 0
        ]

    def _claimable(self, handler: Handler) -> int:
        """Return how many items may be claimed. A claim uses up the rate, so its items have to start at once."""
        queue = self._ready[handler.name]
        return queue.claimable if handler.rate is None else min(queue.claimable, queue.startable)
