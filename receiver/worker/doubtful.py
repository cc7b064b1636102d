"""Claimed work whose lease has ended before it could start."""

from collections.abc import Sequence

from receiver.worker.lane_runs import LaneRuns
from receiver.worker.leases import Leases
from receiver.worker.slots import ReadyQueues


class DoubtfulWork:
    """Keeps it from starting: another worker may have run it since, and more items of its lane."""

    def __init__(self, ready: ReadyQueues, leases: Leases, lanes: LaneRuns) -> None:
        self._ready = ready
        self._leases = leases
        self._lanes = lanes
        self._withdrawn: list[int] = []

    def withdraw(self) -> bool:
        """Take such items out of their queues. Return whether there were any."""
        if not self._leases.any_ended():
            return False
        withdrawn = self._ready.withdraw(lambda one: self._leases.ended(one.item.id))
        self._lanes.withdrawn(withdrawn)
        for one in withdrawn:
            self._leases.drop(one.item.id)
            self._withdrawn.append(one.item.id)
        return bool(withdrawn)

    def take(self) -> Sequence[int]:
        """Return the withdrawn items that are to be released; some may have been claimed again since."""
        withdrawn, self._withdrawn = self._withdrawn, []
        return [work_id for work_id in withdrawn if work_id not in self._leases]
