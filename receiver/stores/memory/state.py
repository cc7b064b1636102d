"""Appending to a store in memory."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from itertools import islice, takewhile
from typing import TypeVar

from receiver.core.activity import MinuteRow, WorkerSign
from receiver.core.batches import BatchSize, Then
from receiver.core.claims import Lease
from receiver.core.deliveries import (
    Delivery,
    DeliveryFilter,
    DeliverySummary,
    ListingPage,
    LookEnd,
    Quarantined,
    Receipt,
    Row,
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


# FOLDED: A work item of a store in memory.
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
        """The state to which the last move led."""
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
        """Tell whether this worker has the lease."""
        return self.state in LEASED and self.worker == worker

    def trigger(self) -> Trigger:
        """Return why the present attempt runs."""
        return self.first_trigger if self.attempts == 1 else Trigger.RETRY

    def follows(self) -> bool:
        """Tell whether it waits in the queue of its lane, and nobody has attempted it."""
        return self.state is WorkState.QUEUED and self.attempts == 0

    def is_untried(self) -> bool:
        """Tell whether nobody has attempted it since it was made or retried, and no other waits for it."""
        return self.attempts == self.uncounted and not self.heads_lane

    def failed(self) -> bool:
        """Tell whether it is dead or its last attempt failed."""
        return self.state is WorkState.DEAD or self.last_error is not None


# FOLDED: What a store in memory keeps. All its faces share one of these.
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


# FOLDED: What all faces of a store in memory have.
class MemoryFace:
    """A face of a store in memory, over the state that all its faces share."""

    def __init__(self) -> None:
        self.state = MemoryState()


T = TypeVar("T")


class MemoryLog(MemoryFace):
    """A DeliveryLog."""

    def append(self, delivery: Delivery, then: Then[Receipt]) -> None:
        """Store a delivery unless its key is stored, and call `then`."""
        asyncio.get_running_loop().call_soon(then, append(self.state, delivery))

    def quarantine(self, request: Quarantined) -> asyncio.Future[None]:
        """Keep a refused request."""
        quarantine(self.state, request)
        return _done(None)

    def probe(self, now: datetime, size: int = 0) -> asyncio.Future[None]:
        """Succeed."""
        return _done(None)


def append(state: MemoryState, delivery: Delivery) -> Receipt:
    """Store a delivery unless its key is stored."""
    seq = state.seqs.get(delivery.key)
    if seq is None:
        add(state, delivery)
        return Receipt(delivery.key, AppendOutcome.ACCEPTED)
    stored = state.deliveries[seq]
    state.deliveries[seq] = stored._replace(duplicates=stored.duplicates + 1)
    if same_body(state, stored, delivery):
        return Receipt(delivery.key, AppendOutcome.DUPLICATE)
    quarantine(state, conflict(delivery))
    return Receipt(delivery.key, AppendOutcome.CONFLICT)


def add(state: MemoryState, delivery: Delivery, duplicates: int = 0) -> None:
    """Store a delivery whose key is not stored."""
    state.last_seq += 1
    state.seqs[delivery.key] = state.last_seq
    state.deliveries[state.last_seq] = StoredDelivery(state.last_seq, duplicates, delivery)
    state.changes.set()


def same_body(state: MemoryState, stored: StoredDelivery, delivery: Delivery) -> bool:
    """Tell whether a delivery has the body of a stored one, or the size that a pruned body had."""
    if stored.seq in state.pruned:
        return state.pruned[stored.seq] == len(delivery.body)
    return stored.delivery.body == delivery.body


def quarantine(state: MemoryState, request: Quarantined) -> None:
    """Keep a request in quarantine."""
    state.last_quarantined += 1
    state.quarantined[state.last_quarantined] = request


def _done(result: T) -> asyncio.Future[T]:
    future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
    future.set_result(result)
    return future


# FOLDED: The index of words of a store in memory.
class MemorySearch(MemoryFace):
    """A SearchIndex."""

    async def make(self) -> None:
        """Make the index if there is none."""
        self.state.words = self.state.words or {}

    async def index(self, *, limit: int, max_bytes: int) -> int:
        """Take the next deliveries in, and return how many there were."""
        state = self.state
        taken = BatchSize(limit, max_bytes)
        for seq, stored in state.deliveries.items():
            if seq <= state.indexed or seq in state.pruned:
                continue
            if taken.is_full:
                break
            if state.words is not None:
                state.words[seq] = texts_of(stored.delivery.body)
            state.indexed = seq
            taken.add(len(stored.delivery.body))
        return taken.items


def forget_words(state: MemoryState, seq: int) -> None:
    """Take a delivery out of the index."""
    if state.words is not None:
        state.words.pop(seq, None)


def restore_words(state: MemoryState, seq: int, body: bytes) -> None:
    """Take a delivery into the index again, when it gets its body back."""
    if state.words is not None:
        state.words[seq] = texts_of(body)


def check_words(state: MemoryState, wanted: DeliveryFilter) -> None:
    """Raise NoSearchIndex if a filter asks for words and there is no index, and ValueError if it is malformed."""
    if wanted.text is None:
        return
    parse_query(wanted.text)
    if state.words is None:
        raise NoSearchIndex


def has_words(state: MemoryState, seq: int, wanted: DeliveryFilter) -> bool:
    """Tell whether a delivery has the words of a filter."""
    if wanted.text is None:
        return True
    texts = (state.words or {}).get(seq, Texts())
    return all(
        any(phrase.is_in(text) for text in (texts.url, texts.title, texts.error))
        for phrase in parse_query(wanted.text)
    )


# FOLDED: Which deliveries and work items of a store in memory fit a filter, and what a listing shows of them.
def newest(
    state: MemoryState, wanted: DeliveryFilter, *, before: int | None = None
) -> Iterator[tuple[StoredDelivery, DeliverySummary]]:
    """Yield the wanted deliveries, the newest first. The store may change meanwhile."""
    check_words(state, wanted)
    seqs = (seq for seq in reversed(list(state.deliveries)) if before is None or seq < before)
    stored = (state.deliveries[seq] for seq in seqs if seq in state.deliveries)
    found = ((one, delivery_summary(state, one)) for one in stored)
    fitting = (one for one in found if _is_wanted(state, one[1], wanted))
    return islice(fitting, wanted.limit)


def newest_work(state: MemoryState, wanted: WorkFilter, *, before: int | None = None) -> Iterator[WorkSummary]:
    """Yield the wanted work items, the newest first. The store may change meanwhile."""
    ids = (work_id for work_id in reversed(list(state.work)) if before is None or work_id < before)
    rows = (state.work[work_id] for work_id in ids if work_id in state.work)
    fitting = (row for row in rows if _was_decided(row, wanted))
    found = (work_summary(state, row) for row in fitting)
    return islice((one for one in found if _is_wanted_work(one, wanted)), wanted.limit)


def look_end(received: Mapping[int, datetime], before: int | None, examine: int) -> LookEnd | None:
    """Return the last of so many rows, the newest first, None if no row is older."""
    places = sorted((one for one in received if before is None or one < before), reverse=True)
    if len(places) <= examine:
        return None
    return LookEnd(places[examine - 1], received[places[examine - 1]])


def page_until(
    end: LookEnd | None, found: Iterable[Row], limit: int | None, place: Callable[[Row], int]
) -> ListingPage[Row]:
    """Return the rows down to the end of a look. `found` has no more than `limit`."""
    rows = tuple(takewhile(lambda one: end is None or place(one) >= end.place, found))
    return ListingPage(rows, None if len(rows) == limit else end)


def delivery_summary(state: MemoryState, stored: StoredDelivery) -> DeliverySummary:
    """Return the line of a delivery."""
    one = stored.delivery
    return DeliverySummary(
        seq=stored.seq,
        key=one.key,
        type=one.type,
        job_id=one.job_id,
        webhook_id=one.webhook_id,
        success=one.success,
        received_at=one.received_at,
        size=state.pruned.get(stored.seq, len(one.body)),
        duplicates=stored.duplicates,
        state=_delivery_state(state, stored.seq),
        origin=one.origin,
        has_body=stored.seq not in state.pruned,
    )


def work_summary(state: MemoryState, row: WorkRow) -> WorkSummary:
    """Return the line of a work item."""
    delivery = state.deliveries[row.seq].delivery
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
        behind=_lane_head(state, row) if row.state is WorkState.QUEUED else None,
    )


def _lane_head(state: MemoryState, row: WorkRow) -> LaneHead | None:
    lane = (row.handler, row.lane)
    heads = (one for one in state.work.values() if one.heads_lane and (one.handler, one.lane) == lane)
    if (head := next(heads, None)) is None:
        return None
    return LaneHead(head.id, head.state, max((one.ended_at for one in head.history), default=None))


def _delivery_state(state: MemoryState, seq: int) -> DeliveryState:
    if seq > state.routed:
        return DeliveryState.NEW
    states = {one.state for one in state.work_of(seq)}
    if states & set(OPEN):
        return DeliveryState.WORKING
    return DeliveryState.DEAD if WorkState.DEAD in states else DeliveryState.DONE


def _is_wanted(state: MemoryState, summary: DeliverySummary, wanted: DeliveryFilter) -> bool:
    return (
        _fits(summary, wanted)
        and (summary.origin is not Origin.SCHEDULE or wanted.selects_runs)
        and (wanted.state is None or summary.state == wanted.state)
        and _has_work(state, summary.seq, wanted)
        and has_words(state, summary.seq, wanted)
    )


def _has_work(state: MemoryState, seq: int, wanted: DeliveryFilter) -> bool:
    if wanted.handler is None and not wanted.failed:
        return True
    return any(_is_for(one.handler, wanted) and (not wanted.failed or one.failed()) for one in state.work_of(seq))


def _is_for(handler: HandlerName, wanted: DeliveryFilter | WorkFilter) -> bool:
    return wanted.handler is None or any(fnmatchcase(handler, glob) for glob in glob_list(wanted.handler))


def _was_decided(row: WorkRow, wanted: WorkFilter) -> bool:
    return (wanted.action is None or row.action_id == wanted.action) and (not wanted.untried or row.is_untried())


def _is_wanted_work(summary: WorkSummary, wanted: WorkFilter) -> bool:
    return (
        _fits(summary, wanted)
        and _is_for(summary.handler, wanted)
        and (wanted.state is None or summary.state == wanted.state)
        and (wanted.error is None or fnmatchcase(summary.last_error or summary.note or NO_REASON, wanted.error))
        and (not wanted.among or summary.state in wanted.among)
        and (not wanted.stuck or summary.state is not WorkState.DEAD or summary.holds_lane)
    )


def _fits(summary: DeliverySummary | WorkSummary, wanted: DeliveryFilter | WorkFilter) -> bool:
    return (
        (wanted.type is None or fnmatchcase(summary.type, wanted.type))
        and (wanted.job_id is None or summary.job_id == wanted.job_id)
        and (wanted.since is None or summary.received_at >= wanted.since)
        and (wanted.until is None or summary.received_at < wanted.until)
    )
