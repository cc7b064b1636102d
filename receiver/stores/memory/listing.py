"""Which deliveries and work items of a store in memory fit a filter, and what a listing shows of them."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from fnmatch import fnmatchcase
from itertools import islice, takewhile

from receiver.core.deliveries import DeliveryFilter, DeliverySummary, StoredDelivery
from receiver.core.listing_pages import ListingPage, LookEnd, Row
from receiver.core.types import DeliveryState, HandlerName, Origin, WorkState, glob_list
from receiver.core.work import NO_REASON, LaneHead, WorkFilter, WorkSummary
from receiver.core.work_states import CLAIMABLE, OPEN
from receiver.stores.memory.rows import WorkRow
from receiver.stores.memory.search import check_words, has_words
from receiver.stores.memory.state import MemoryState


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
