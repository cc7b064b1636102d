"""Leases in a store in memory."""

from collections.abc import Sequence
from datetime import datetime

from receiver.core.claims import Lease
from receiver.core.types import WorkerId
from receiver.core.work_states import Cause
from receiver.core.workers import WorkerSign
from receiver.stores.memory.face import MemoryFace
from receiver.stores.memory.rows import WorkRow


class MemoryLeases(MemoryFace):
    """A LeaseQueue."""

    async def enlist(self, worker: WorkerId) -> None:
        """Do nothing: all workers live in this process."""

    async def sign_on(self, sign: WorkerSign, *, now: datetime) -> None:
        """Show that a worker lives."""
        self.state.workers[sign.name] = sign, now

    async def sign_off(self, worker: WorkerId) -> None:
        """Show that a worker has ended."""
        self.state.workers.pop(worker, None)

    async def expire_dead(self, worker: WorkerId, *, steady: datetime) -> Sequence[WorkerId]:
        """Return nothing: no other worker of this process is certainly dead."""
        return ()

    async def mark_started(self, work_ids: Sequence[int], worker: WorkerId) -> None:
        """Note that items have started."""
        for one in self._leased(work_ids, worker):
            one.started = True

    async def clear_started(self, work_ids: Sequence[int], worker: WorkerId) -> None:
        """Remove the note that items have started."""
        for one in self._leased(work_ids, worker):
            one.started = False

    async def renew(self, work_ids: Sequence[int], lease: Lease) -> None:
        """Move the end of the lease."""
        for one in self._leased(work_ids, lease.worker):
            one.lease_until = lease.until

    async def release_leases(self, work_ids: Sequence[int], worker: WorkerId, *, now: datetime) -> None:
        """Make items due at once and uncount the attempt."""
        for one in self._leased(work_ids, worker):
            self.state.note_time(now)
            one.move(Cause.RETURNED)
            one.end_lease()
            one.due_at = now
            one.attempts -= 1
        self.state.changes.set()

    async def expire_leases_of(self, worker: WorkerId, *, now: datetime) -> int:
        """End all leases of a dead worker."""
        leased = [one for one in self.state.work.values() if one.leased_by(worker)]
        for one in leased:
            one.lease_until, one.worker = now, None
        return len(leased)

    def _leased(self, work_ids: Sequence[int], worker: WorkerId) -> list[WorkRow]:
        return [one for one in self.state.chosen(work_ids) if one.leased_by(worker)]
