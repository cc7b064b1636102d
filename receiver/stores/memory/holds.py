"""Held work items in a store in memory."""

from collections.abc import Sequence
from datetime import datetime

from receiver.core.claims import HeldItem, JobPages
from receiver.core.types import HandlerName, Trigger, WorkState
from receiver.core.work_states import OPEN, Cause
from receiver.stores.memory.face import MemoryFace
from receiver.stores.memory.rows import WorkRow


class MemoryHolds(MemoryFace):
    """A HoldQueue."""

    async def held(self, handlers: Sequence[HandlerName], *, now: datetime, limit: int) -> Sequence[HeldItem]:
        """Return held items that are due for a check."""
        names = set(handlers) - self.state.switches.keys()
        due = [
            (one.recheck_at, one.id)
            for one in self.state.work.values()
            if one.handler in names
            and one.state is WorkState.HELD
            and one.recheck_at is not None
            and one.recheck_at <= now
        ]
        return [self._held_item(self.state.work[work_id]) for _, work_id in sorted(due)[:limit]]

    async def pages(self, job_id: str, *, page_type: str, handlers: Sequence[HandlerName]) -> JobPages:
        """Return how far these handlers have come with the pages of a job."""
        state = self.state
        pages = [
            one
            for one in state.deliveries.values()
            if (one.delivery.job_id, one.delivery.type) == (job_id, page_type)
        ]
        unhandled = {
            one.seq
            for one in state.work.values()
            if one.handler in handlers and one.state in OPEN and one.first_trigger is not Trigger.LATER
        }
        missing = [one.delivery.key for one in pages if one.seq > state.routed or one.seq in unhandled]
        return JobPages(pages[-1].delivery.received_at if pages else None, missing[-1] if missing else None)

    async def recheck(self, work_id: int, *, at: datetime, note: str) -> None:
        """Keep a held item until the next check."""
        if (one := self._held(work_id)) is not None:
            one.recheck_at, one.note = min(at, one.hold_until or at), note

    async def release(self, work_id: int, *, now: datetime, note: str) -> None:
        """Make a held item due."""
        if (one := self._held(work_id)) is not None:
            one.move(Cause.HOLD_ENDED if one.lane is None else Cause.HOLD_ENDED_IN_LANE)
            one.due_at, one.note = now, note
            self.state.note_time(now)
            self.state.free_lanes([work_id], now)

    def _held(self, work_id: int) -> WorkRow | None:
        one = self.state.work.get(work_id)
        return one if one is not None and one.state is WorkState.HELD else None

    def _held_item(self, row: WorkRow) -> HeldItem:
        delivery = self.state.deliveries[row.seq].delivery
        return HeldItem(
            id=row.id,
            handler=row.handler,
            event_type=delivery.type,
            job_id=delivery.job_id or "",
            received_at=delivery.received_at,
            until=row.hold_until or delivery.received_at,
        )
