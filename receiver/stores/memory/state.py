"""What a store in memory keeps. All its faces share one of these."""

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from receiver.core.activity import MinuteRow
from receiver.core.claims import Lease
from receiver.core.deliveries import StoredDelivery
from receiver.core.quarantine import Quarantined
from receiver.core.recorded_actions import RecordedAction
from receiver.core.rules import TIME_STEP, made_by, set_back_by
from receiver.core.search import Texts
from receiver.core.types import DeliveryKey, HandlerName, HandlerSwitch, WorkerId, WorkState
from receiver.core.work import NewWork
from receiver.core.work_states import CLAIMABLE, Cause
from receiver.core.workers import WorkerSign
from receiver.stores.memory.rows import WorkRow

NEVER = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(slots=True)
class MemoryState:
    """Deliveries, work items and the rest, the oldest first everywhere. Numbers are never used again."""

    deliveries: dict[int, StoredDelivery] = field(default_factory=dict)
    """By seq."""
    seqs: dict[DeliveryKey, int] = field(default_factory=dict)
    pruned: dict[int, int] = field(default_factory=dict)
    """The size that a pruned body had, by seq."""
    last_seq: int = 0
    routed: int = 0
    """The seq up to which deliveries are routed."""
    latest: datetime = NEVER
    """The latest moment at which items were made, or attempts ended."""
    quarantined: dict[int, Quarantined] = field(default_factory=dict)
    """By id."""
    last_quarantined: int = 0
    work: dict[int, WorkRow] = field(default_factory=dict)
    """By id."""
    last_work: int = 0
    switches: dict[HandlerName, HandlerSwitch] = field(default_factory=dict)
    """Those that are not ON."""
    paced_until: dict[HandlerName, datetime] = field(default_factory=dict)
    once_keys: dict[tuple[HandlerName, str], tuple[datetime, datetime | None]] = field(default_factory=dict)
    """When a key was used last, and when it expires."""
    schedules: dict[HandlerName, tuple[str, datetime]] = field(default_factory=dict)
    """The schedule of a handler as it is written in the code, and when its next run is due."""
    workers: dict[WorkerId, tuple[WorkerSign, datetime]] = field(default_factory=dict)
    """Who has not signed off, and when each was seen."""
    actions: dict[int, RecordedAction] = field(default_factory=dict)
    """By number."""
    last_action: int = 0
    minutes: Counter[MinuteRow] = field(default_factory=Counter)
    """How many attempts ended."""
    words: dict[int, Texts] | None = None
    """The index of words by seq; None before it is made."""
    indexed: int = 0
    """The seq up to which deliveries are in the index."""
    changes: asyncio.Event = field(default_factory=asyncio.Event)

    async def changed(self) -> None:
        """Return when something has changed since the last call."""
        await self.changes.wait()
        self.changes.clear()

    def note_time(self, now: datetime) -> None:
        """Note the moment of a change, if it is later than those before."""
        if now >= self.latest + TIME_STEP:
            self.latest = now

    def follow_clock_back(self, now: datetime) -> None:
        """Move everything that waits, if the clock was set back."""
        if not (by := set_back_by(self.latest, now)):
            return
        self.latest = now
        for one in self.work.values():
            if one.state in CLAIMABLE and one.due_at > now:
                one.due_at = max(now, one.due_at - by)
            if one.state is WorkState.HELD and one.recheck_at is not None and one.hold_until is not None:
                one.recheck_at, one.hold_until = max(now, one.recheck_at - by), max(now, one.hold_until - by)
        for key, (used_at, until) in self.once_keys.items():
            if until is not None and until > now:
                self.once_keys[key] = used_at, max(now, until - by)

    def unrouted(self) -> list[StoredDelivery]:
        """Return the deliveries that no worker has routed."""
        return [one for seq, one in self.deliveries.items() if seq > self.routed]

    def has_body(self, seq: int) -> bool:
        """Tell whether a delivery is stored with its body."""
        return seq in self.deliveries and seq not in self.pruned

    def chosen(self, work_ids: Sequence[int]) -> list[WorkRow]:
        """Return the work items with these ids that exist, in the order of ids."""
        return [self.work[work_id] for work_id in sorted(set(work_ids)) if work_id in self.work]

    def work_of(self, seq: int) -> Iterator[WorkRow]:
        """Yield the work items of a delivery."""
        return (one for one in self.work.values() if one.seq == seq)

    def switch_of(self, handler: HandlerName) -> HandlerSwitch:
        """Return a handler's switch."""
        return self.switches.get(handler, HandlerSwitch.ON)

    def new_row(self, new: NewWork, now: datetime) -> WorkRow:
        """Return a new work item, which has no state yet."""
        self.last_work += 1
        row = self.work[self.last_work] = WorkRow(
            id=self.last_work,
            seq=new.seq,
            handler=new.handler,
            due_at=new.due_at or now,
            first_trigger=new.trigger,
            lane=new.lane,
            hold_until=new.hold.until if new.hold else None,
            recheck_at=new.hold.check_at if new.hold else None,
            note=new.hold.note if new.hold else None,
        )
        return row

    def make(self, new: NewWork, lease: Lease | None, now: datetime) -> WorkRow:
        """Make a work item in the state in which it begins. Without a lease it may not ask to be claimed."""
        self.note_time(now)
        busy = new.lane is not None and self._lane_has_head(new.handler, new.lane)
        row = self.new_row(new, now)
        row.move(made_by(new, self.switch_of(new.handler), lane_busy=busy))
        if row.state is WorkState.RUNNING and lease is not None:
            row.lease(lease.worker, lease.until, started=new.starts)
        return row

    def free_lanes(self, work_ids: Sequence[int], now: datetime) -> None:
        """In the lanes of these items that have no head, make the oldest in the queue the head."""
        for handler, lane in {(one.handler, one.lane) for one in self.chosen(work_ids)}:
            if lane is None or self._lane_has_head(handler, lane):
                continue
            mine = (one for one in self.work.values() if (one.handler, one.lane) == (handler, lane))
            if (oldest := next((one for one in mine if one.state is WorkState.QUEUED), None)) is not None:
                oldest.move(Cause.LANE_FREED)
                oldest.due_at = now

    def queue_behind(self, head: WorkRow) -> list[WorkRow]:
        """Return what is queued in the lane of its head, in order."""
        lane = (head.handler, head.lane)
        return [
            one for one in self.work.values() if (one.handler, one.lane) == lane and one.state is WorkState.QUEUED
        ]

    def _lane_has_head(self, handler: HandlerName, lane: str) -> bool:
        return any(one.heads_lane and (one.handler, one.lane) == (handler, lane) for one in self.work.values())
