"""What a worker checks once a second."""

from collections.abc import Sequence
from datetime import timedelta

from receiver.core.claims import HandlerClaim
from receiver.core.clock import Clock
from receiver.core.log_lines import event_log
from receiver.core.ports.queue import WorkQueue
from receiver.worker.holds import Holds
from receiver.worker.isolation import Isolation
from receiver.worker.lane_runs import LaneRuns
from receiver.worker.leases import Leases
from receiver.worker.slots import ReadyQueues

log = event_log(__name__)

CHECK_EVERY = timedelta(seconds=1)


class Checks:
    """Checks for what no claim finds: dead workers, suspects, held items, handlers that are off, and slow queues.

    A queue is stuck when all its slots have been taken for a time `lease`.
    """

    def __init__(
        self,
        queue: WorkQueue,
        clock: Clock,
        leases: Leases,
        lanes: LaneRuns,
        ready: ReadyQueues,
        holds: Holds,
        isolation: Isolation,
        lease: timedelta,
    ) -> None:
        self._queue = queue
        self._clock = clock
        self._leases = leases
        self._lanes = lanes
        self._ready = ready
        self._holds = holds
        self._isolation = isolation
        self._lease = lease
        self._checked_at = clock.steady() - CHECK_EVERY
        self.waits = False
        """The last call came before it was time."""

    @property
    def until_next(self) -> timedelta:
        """The time until the next check."""
        return self._checked_at + CHECK_EVERY - self._clock.steady()

    async def check(self, claims: Sequence[HandlerClaim]) -> None:
        """Check, if it is time. Suspects are checked for those handlers that more can be claimed for."""
        steady = self._clock.steady()
        self.waits = not self._isolation.active and steady - self._checked_at < CHECK_EVERY
        if self.waits:
            return
        self._checked_at = steady
        if dead := await self._queue.expire_dead(self._leases.worker, steady=steady):
            log.warning("workers_died", extra={"workers": list(dead)})
            self._lanes.note_death()
        off = await self._queue.switches()
        self._lanes.stop_all(off=off)
        unwanted = self._ready.withdraw(lambda one: one.item.handler in off)
        # Other workers may have free slots.
        unwanted += self._ready.withdraw_stuck(self._lease) + self._ready.withdraw_excess()
        self._lanes.withdrawn(unwanted)
        await self._leases.release([one.item.id for one in unwanted])
        await self._holds.check()
        if claims:
            suspects_due = await self._queue.suspects_due(claims, now=self._clock.now())
            self._isolation.check(steady, due=suspects_due)
            if suspects_due:
                self._lanes.note_death()
