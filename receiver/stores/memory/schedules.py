"""Scheduled runs in a store in memory."""

from collections.abc import Sequence
from datetime import datetime

from receiver.core.claims import DueRun
from receiver.core.schedules import FORGOTTEN_AFTER, KEPT_RUNS, PlannedRun, RunOutcome, counts_still, run_keys
from receiver.core.types import HandlerName, HandlerSwitch, Origin, Trigger
from receiver.core.work import NewWork
from receiver.core.work_states import OPEN
from receiver.stores.memory.face import MemoryFace
from receiver.stores.memory.log import add
from receiver.stores.memory.maintenance import remove_delivery
from receiver.stores.memory.search import forget_words


class MemorySchedules(MemoryFace):
    """A ScheduleQueue."""

    async def follow_schedules(self, planned: Sequence[PlannedRun], *, now: datetime) -> Sequence[datetime]:
        """Note when handlers run next."""
        schedules = self.state.schedules
        for name in [name for name, (_, next_at) in schedules.items() if next_at < now - FORGOTTEN_AFTER]:
            del schedules[name]
        for one in planned:
            if one.handler not in schedules or not counts_still(one, *schedules[one.handler]):
                schedules[one.handler] = one.schedule, one.next_at
        return [schedules[one.handler][1] for one in planned]

    async def make_run(self, run: DueRun, *, now: datetime) -> RunOutcome:
        """Store a run with its work item."""
        state, handler = self.state, run.handler
        schedule, noted = state.schedules.get(handler, ("", None))
        if noted != run.noted:
            return RunOutcome.TAKEN
        state.schedules[handler] = schedule, run.next_at
        if state.switch_of(handler) is HandlerSwitch.DISABLED:
            return RunOutcome.DISABLED
        if any(self._is_open(seq, handler) for seq in self._runs(handler)):
            return RunOutcome.UNFINISHED
        if run.delivery.key in state.seqs:
            return RunOutcome.TAKEN
        add(state, run.delivery)
        state.make(NewWork(state.last_seq, handler, claim=False, trigger=Trigger.SCHEDULE), None, now)
        ended = [seq for seq in self._runs(handler) if seq <= state.routed and not self._is_open(seq)]
        for seq in ended[:-KEPT_RUNS]:
            forget_words(state, seq)
            remove_delivery(state, seq)
        state.changes.set()
        return RunOutcome.MADE

    def _runs(self, handler: HandlerName) -> list[int]:
        """Return the runs of a handler by seq, the one that was due first in front."""
        begin = run_keys(handler)
        found = {
            one.delivery.key: seq
            for seq, one in self.state.deliveries.items()
            if one.delivery.origin is Origin.SCHEDULE and one.delivery.key.startswith(begin)
        }
        return [found[key] for key in sorted(found)]

    def _is_open(self, seq: int, handler: HandlerName | None = None) -> bool:
        return any(one.state in OPEN and handler in (None, one.handler) for one in self.state.work_of(seq))
