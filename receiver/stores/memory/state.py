"""What a store in memory keeps, and how it changes: the one object that all its faces share."""

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from itertools import islice

from receiver.core.activity import MinuteRow, WorkerSign
from receiver.core.claims import Lease
from receiver.core.deliveries import (
    Delivery,
    DeliveryFilter,
    DeliverySummary,
    Quarantined,
    Receipt,
    StoredDelivery,
    conflict,
)
from receiver.core.recorded_actions import RecordedAction
from receiver.core.rules import TIME_STEP, made_by, set_back_by
from receiver.core.subjects import Texts, parse_query, texts_of
from receiver.core.types import (
    AppendOutcome,
    DeliveryKey,
    DeliveryState,
    HandlerName,
    HandlerSwitch,
    Origin,
    Trigger,
    WorkerId,
    WorkState,
    glob_list,
)
from receiver.core.work import NO_REASON, Attempt, LaneHead, NewWork, WorkFilter, WorkSummary
from receiver.core.work_states import CLAIMABLE, LANE_HEADS, LEASED, OPEN, Cause, next_state
from receiver.errors import NoSearchIndex

NEVER = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(slots=True)
class WorkRow:
    """A work item as it changes. Only `move` changes its state, and only as the table of states allows."""

    id: int
    seq: int
    handler: HandlerName
    due_at: datetime
    first_trigger: Trigger = Trigger.DELIVERY
    lane: str | None = None
    heads_lane: bool = False
    hold_until: datetime | None = None
    recheck_at: datetime | None = None
    worker: WorkerId | None = None
    lease_until: datetime | None = None
    started: bool = False
    attempts: int = 0
    uncounted: int = 0
    lost: int = 0
    deaths: int = 0
    suspect: bool = False
    note: str | None = None
    last_error: str | None = None
    action_id: int | None = None
    history: list[Attempt] = field(default_factory=list)
    _state: WorkState | None = field(default=None, init=False)

    @property
    def state(self) -> WorkState:
        """Raises LookupError before the first move."""
        if self._state is None:
            raise LookupError(f"work item {self.id} has no state before its first move")
        return self._state

    def move(self, cause: Cause) -> None:
        """Change the state. Raises ImpossibleMove, and changes nothing, if the table of states has no such move."""
        self._state = next_state(self._state, cause)
        self.heads_lane = self.lane is not None and self._state in LANE_HEADS

    def lease(self, worker: WorkerId, until: datetime, *, started: bool) -> None:
        """Begin an attempt under a lease."""
        self.worker, self.lease_until, self.started = worker, until, started
        self.attempts += 1

    def end_lease(self) -> None:
        """Forget the worker."""
        self.worker, self.lease_until, self.started = None, None, False

    def leased_by(self, worker: WorkerId) -> bool:
        """Return whether this worker has the lease."""
        return self.state in LEASED and self.worker == worker

    def trigger(self) -> Trigger:
        """Return why the present attempt runs."""
        return self.first_trigger if self.attempts == 1 else Trigger.RETRY

    def follows(self) -> bool:
        """Return whether it is queued in its lane and was never attempted."""
        return self.state is WorkState.QUEUED and self.attempts == 0

    def is_untried(self) -> bool:
        """Return whether it was not attempted since it was made or retried, and no other waits for it."""
        return self.attempts == self.uncounted and not self.heads_lane

    def failed(self) -> bool:
        """Return whether it is dead or its last attempt failed."""
        return self.state is WorkState.DEAD or self.last_error is not None


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
    """Workers that have not signed off, and when each was last seen."""
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
        """If the clock was set back, move everything that waits back with it."""
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

    def append(self, delivery: Delivery) -> Receipt:
        """Store a delivery unless its key is stored. One with another body goes into quarantine."""
        seq = self.seqs.get(delivery.key)
        if seq is None:
            self.add(delivery)
            return Receipt(delivery.key, AppendOutcome.ACCEPTED)
        stored = self.deliveries[seq]
        self.deliveries[seq] = stored._replace(duplicates=stored.duplicates + 1)
        if self.has_same_body(stored, delivery):
            return Receipt(delivery.key, AppendOutcome.DUPLICATE)
        self.quarantine(conflict(delivery))
        return Receipt(delivery.key, AppendOutcome.CONFLICT)

    def add(self, delivery: Delivery, duplicates: int = 0) -> None:
        """Store a delivery whose key is not stored."""
        self.last_seq += 1
        self.seqs[delivery.key] = self.last_seq
        self.deliveries[self.last_seq] = StoredDelivery(self.last_seq, duplicates, delivery)
        self.changes.set()

    def has_same_body(self, stored: StoredDelivery, delivery: Delivery) -> bool:
        """Return whether a delivery has the body of a stored one, or the size that a pruned body had."""
        if stored.seq in self.pruned:
            return self.pruned[stored.seq] == len(delivery.body)
        return stored.delivery.body == delivery.body

    def quarantine(self, request: Quarantined) -> None:
        """Keep a request in quarantine."""
        self.last_quarantined += 1
        self.quarantined[self.last_quarantined] = request

    def remove_body(self, seq: int) -> None:
        """Remove the body, the headers and the words of a delivery."""
        stored = self.deliveries[seq]
        self.pruned[seq] = len(stored.delivery.body)
        self.deliveries[seq] = stored._replace(delivery=stored.delivery._replace(headers=(), body=b""))
        self._forget_words(seq)

    def restore_body(self, seq: int, delivery: Delivery) -> None:
        """Give a delivery its body, its headers and its words back."""
        del self.pruned[seq]
        stored = self.deliveries[seq]
        restored = stored.delivery._replace(headers=delivery.headers, body=delivery.body)
        self.deliveries[seq] = stored._replace(delivery=restored)
        if self.words is not None:
            self.words[seq] = texts_of(delivery.body)

    def remove(self, seq: int) -> None:
        """Remove a delivery with its work items."""
        for row in list(self.work_of(seq)):
            del self.work[row.id]
        del self.seqs[self.deliveries.pop(seq).delivery.key]
        self.pruned.pop(seq, None)
        self._forget_words(seq)

    def _forget_words(self, seq: int) -> None:
        if self.words is not None:
            self.words.pop(seq, None)

    def unrouted(self) -> list[StoredDelivery]:
        """Return the deliveries that no worker has routed."""
        return [one for seq, one in self.deliveries.items() if seq > self.routed]

    def has_body(self, seq: int) -> bool:
        """Return whether a delivery is stored with its body."""
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
        busy = new.lane is not None and self.lane_head(new.handler, new.lane) is not None
        row = self.new_row(new, now)
        row.move(made_by(new, self.switch_of(new.handler), lane_busy=busy))
        if row.state is WorkState.RUNNING and lease is not None:
            row.lease(lease.worker, lease.until, started=new.starts)
        return row

    def lane_head(self, handler: HandlerName, lane: str | None) -> WorkRow | None:
        """Return the work item for which the others of a lane wait."""
        return next((one for one in self._in_lane(handler, lane) if one.heads_lane), None)

    def queue_behind(self, head: WorkRow) -> list[WorkRow]:
        """Return what is queued in the lane of its head, in order."""
        return [one for one in self._in_lane(head.handler, head.lane) if one.state is WorkState.QUEUED]

    def free_lanes(self, work_ids: Sequence[int], now: datetime) -> None:
        """In the lanes of these items that have no head, make the oldest in the queue the head."""
        for handler, lane in {(one.handler, one.lane) for one in self.chosen(work_ids)}:
            if lane is None or self.lane_head(handler, lane) is not None:
                continue
            oldest = next((one for one in self._in_lane(handler, lane) if one.state is WorkState.QUEUED), None)
            if oldest is not None:
                oldest.move(Cause.LANE_FREED)
                oldest.due_at = now

    def _in_lane(self, handler: HandlerName, lane: str | None) -> Iterator[WorkRow]:
        return (one for one in self.work.values() if one.handler == handler and one.lane == lane)

    def count_for(self, action: int | None, *, seen: int, changed: int, now: datetime) -> None:
        """Count for a recorded action; None is no action."""
        if action is not None and (found := self.actions.get(action)) is not None:
            self.actions[action] = replace(
                found, seen=found.seen + seen, changed=found.changed + changed, seen_at=now
            )

    def newest(
        self, wanted: DeliveryFilter, *, before: int | None = None
    ) -> Iterator[tuple[StoredDelivery, DeliverySummary]]:
        """Yield the wanted deliveries, the newest first. The store may change meanwhile.

        Raises NoSearchIndex if the filter asks for words and there is no index, and ValueError if it is malformed.
        """
        if wanted.text is not None:
            parse_query(wanted.text)
            if self.words is None:
                raise NoSearchIndex
        seqs = (seq for seq in reversed(list(self.deliveries)) if before is None or seq < before)
        stored = (self.deliveries[seq] for seq in seqs if seq in self.deliveries)
        found = ((one, self.delivery_summary(one)) for one in stored)
        return islice((one for one in found if self._is_wanted(one[1], wanted)), wanted.limit)

    def newest_work(self, wanted: WorkFilter, *, before: int | None = None) -> Iterator[WorkSummary]:
        """Yield the wanted work items, the newest first. The store may change meanwhile."""
        ids = (work_id for work_id in reversed(list(self.work)) if before is None or work_id < before)
        rows = (self.work[work_id] for work_id in ids if work_id in self.work)
        decided = (
            row
            for row in rows
            if wanted.action in (None, row.action_id) and (not wanted.untried or row.is_untried())
        )
        found = (self.work_summary(row) for row in decided)
        return islice((one for one in found if _is_wanted_work(one, wanted)), wanted.limit)

    def has_words(self, seq: int, wanted: DeliveryFilter) -> bool:
        """Return whether a delivery has the words of a filter."""
        if wanted.text is None:
            return True
        texts = (self.words or {}).get(seq, Texts())
        return all(
            any(phrase.is_in(text) for text in (texts.url, texts.title, texts.error))
            for phrase in parse_query(wanted.text)
        )

    def delivery_summary(self, stored: StoredDelivery) -> DeliverySummary:
        """Return a delivery as a listing shows it."""
        one = stored.delivery
        return DeliverySummary(
            seq=stored.seq,
            key=one.key,
            type=one.type,
            job_id=one.job_id,
            webhook_id=one.webhook_id,
            success=one.success,
            received_at=one.received_at,
            size=self.pruned.get(stored.seq, len(one.body)),
            duplicates=stored.duplicates,
            state=self._delivery_state(stored.seq),
            origin=one.origin,
            has_body=stored.seq not in self.pruned,
        )

    def work_summary(self, row: WorkRow) -> WorkSummary:
        """Return a work item as a listing shows it."""
        delivery = self.deliveries[row.seq].delivery
        head = self.lane_head(row.handler, row.lane) if row.state is WorkState.QUEUED else None
        recheck_at = row.recheck_at if row.state is WorkState.HELD else None
        return WorkSummary(
            id=row.id,
            key=delivery.key,
            type=delivery.type,
            job_id=delivery.job_id,
            received_at=delivery.received_at,
            handler=row.handler,
            state=row.state,
            attempts=row.attempts,
            lane=row.lane,
            due_at=row.due_at if row.state in CLAIMABLE else recheck_at,
            last_error=row.last_error,
            note=row.note,
            holds_lane=row.heads_lane and row.state is WorkState.DEAD,
            behind=None if head is None else _head(head),
        )

    def _delivery_state(self, seq: int) -> DeliveryState:
        if seq > self.routed:
            return DeliveryState.NEW
        states = {one.state for one in self.work_of(seq)}
        if states & set(OPEN):
            return DeliveryState.WORKING
        return DeliveryState.DEAD if WorkState.DEAD in states else DeliveryState.DONE

    def _is_wanted(self, summary: DeliverySummary, wanted: DeliveryFilter) -> bool:
        return (
            _fits(summary, wanted)
            and (summary.origin is not Origin.SCHEDULE or wanted.selects_runs)
            and wanted.state in (None, summary.state)
            and self._has_work(summary.seq, wanted)
            and self.has_words(summary.seq, wanted)
        )

    def _has_work(self, seq: int, wanted: DeliveryFilter) -> bool:
        if wanted.handler is None and not wanted.failed:
            return True
        return any(
            _is_for(one.handler, wanted) and (not wanted.failed or one.failed()) for one in self.work_of(seq)
        )


def _head(row: WorkRow) -> LaneHead:
    return LaneHead(row.id, row.state, max((one.ended_at for one in row.history), default=None))


def _is_for(handler: HandlerName, wanted: DeliveryFilter | WorkFilter) -> bool:
    return wanted.handler is None or any(fnmatchcase(handler, glob) for glob in glob_list(wanted.handler))


def _is_wanted_work(summary: WorkSummary, wanted: WorkFilter) -> bool:
    return (
        _fits(summary, wanted)
        and _is_for(summary.handler, wanted)
        and wanted.state in (None, summary.state)
        and (wanted.error is None or fnmatchcase(summary.last_error or summary.note or NO_REASON, wanted.error))
        and (not wanted.among or summary.state in wanted.among)
        and (not wanted.stuck or summary.state is not WorkState.DEAD or summary.holds_lane)
    )


def _fits(summary: DeliverySummary | WorkSummary, wanted: DeliveryFilter | WorkFilter) -> bool:
    return (
        (wanted.type is None or fnmatchcase(summary.type, wanted.type))
        and wanted.job_id in (None, summary.job_id)
        and (wanted.since is None or summary.received_at >= wanted.since)
        and (wanted.until is None or summary.received_at < wanted.until)
    )
