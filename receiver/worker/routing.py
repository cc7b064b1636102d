"""Routing: which work items new deliveries make, and what holds those of terminal events."""

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NamedTuple

from receiver.core.claims import HeldItem, JobPages, RoutingBatch, WorkItem
from receiver.core.clock import Clock
from receiver.core.deliveries import StoredDelivery
from receiver.core.ports.queue import HoldQueue, RoutingQueue
from receiver.core.rules import MAX_FOLLOWERS, RecheckAt, Release, check_hold
from receiver.core.types import HandlerName, Origin
from receiver.core.work import Hold, NewWork
from receiver.events import EVENT_CLASSES, Event
from receiver.events.identity import subject_key
from receiver.routing import Handler, Router
from receiver.routing.handler import wants_type
from receiver.runtime.log_lines import event_log
from receiver.worker.attempts import Claimed
from receiver.worker.claiming import NewClaims
from receiver.worker.events import (
    TRIGGERS,
    DriftLogger,
    RoutedEvent,
    Unhandled,
    claim_on_memory,
    lane_of,
    lane_of_job,
    read_to_route,
    wants,
)
from receiver.worker.trial import Culprits, RoutingTrial, RoutingWatch, runs_code
from receiver.worker.work_in_hand import ClaimedWork, ReadyQueues

log = event_log(__name__)


async def find_repeats(queue: RoutingQueue, read: Sequence[tuple[StoredDelivery, Event]]) -> frozenset[int]:
    """Return the seqs of webhooks whose event a backfill has imported before: they are not handled again."""
    keys = {
        stored.seq: key
        for stored, event in read
        if stored.delivery.origin is Origin.SENDER
        and (key := subject_key(event)) is not None
        and key != stored.delivery.key
    }
    if not keys or not (known := await queue.backfilled(set(keys.values()))):
        return frozenset()
    repeats = {stored.seq: stored.delivery for stored, _ in read if keys.get(stored.seq) in known}
    for seq, delivery in repeats.items():
        log.info("late_webhook_skipped", extra={"id": delivery.key, "type": delivery.type, "as": keys[seq]})
    return frozenset(repeats)


MAX_ITEMS = 100


def hold_for(handler: Handler, router: Router, stored: StoredDelivery, now: datetime) -> Hold | None:
    """Return how long an event is held for a handler; None if it is not."""
    delivery, wait = stored.delivery, handler.after_pages
    if wait is None or delivery.job_id is None or router.page_type(delivery.type) is None:
        return None
    # The limit counts from now, not from the arrival: after an outage the pages wait for their handlers too.
    until = now + wait.at_most
    recheck_at = min(delivery.received_at + wait.quiet, until)
    return Hold(recheck_at, until, f"waits for the pages of its job, until {recheck_at:%H:%M:%S} UTC at least")


class Holds:
    """Holds terminal events until the pages of their jobs are handled."""

    def __init__(self, queue: HoldQueue, router: Router, clock: Clock) -> None:
        self._queue = queue
        self._router = router
        self._clock = clock
        # All handlers: one may have held items from a time when it had `after_pages`.
        self._handlers: Sequence[HandlerName] = tuple(handler.name for handler in router)

    def hold(self, handler: Handler, stored: StoredDelivery) -> Hold | None:
        """Return how long this event is held for this handler; None if it is not."""
        return hold_for(handler, self._router, stored, self._clock.now())

    async def check(self) -> None:
        """Check held items that are due for it."""
        for item in await self._queue.held(self._handlers, now=self._clock.now(), limit=MAX_ITEMS):
            await self._check(item)

    async def _check(self, item: HeldItem) -> None:
        now = self._clock.now()
        wait = self._router[item.handler].after_pages
        page_type = self._router.page_type(item.event_type)
        if wait is None or page_type is None:  # the handler had other options when the item was made
            await self._queue.release(item.id, now=now, note="its handler does not wait for pages any more")
            return
        pages: JobPages = await self._queue.pages(
            item.job_id, page_type=page_type, handlers=self._router.page_handlers(item.event_type)
        )
        match check_hold(item, pages, quiet=wait.quiet, now=now):
            case Release(note):
                log.info("work_released", extra={"work_id": item.id, "job_id": item.job_id, "note": note})
                await self._queue.release(item.id, now=now, note=note)
            case RecheckAt(at, note):
                await self._queue.recheck(item.id, at=at, note=note)


MAX_KEPT = 256
"""Work items whose events wait in memory for their attempts."""


class HandlerMatch(NamedTuple):
    """A new delivery, its event, and a handler that wants the event.

    `event` is None if routing did not read it. `kept` is the event for the attempt, None if the attempt has to read
    it. `refusal` says why the handler's `where` and `lane` must not run for the event.
    """

    stored: StoredDelivery
    event: Event | None
    handler: Handler
    kept: Event | None = None
    refusal: str | None = None


@dataclass(frozen=True, slots=True)
class PlannedBatch:
    """Deliveries to route together. A costly one is alone and needs `memory` free bytes."""

    batch: RoutingBatch
    memory: int = 0


class RoutingPlanner:
    """Plans the work items of new deliveries."""

    def __init__(
        self,
        queue: RoutingQueue,
        router: Router,
        ready: ReadyQueues,
        holds: Holds,
        *,
        drift: DriftLogger,
        trial: RoutingTrial | None = None,
        unhandled: Unhandled | None = None,
        watch: RoutingWatch | None = None,
    ) -> None:
        self._unread = _handlers_by_type(router)
        if any(runs_code(one) for one in router):
            ready.claim_at_most(MAX_KEPT)
        self._trial = trial
        self._watch = watch
        self._queue = queue
        self._router = router
        self._ready = ready
        self._holds = holds
        self._unhandled = unhandled or Unhandled()
        self._drift = drift

    def costly_apart(self, batch: RoutingBatch) -> PlannedBatch:
        """Return the first deliveries that may be routed together. Those that are not read take no memory."""
        if batch.any_backfilled:
            self._ready.claim_at_most(MAX_KEPT)
        unread = self._unread_of(batch)
        for index, stored in enumerate(batch.deliveries):
            if stored.delivery.type not in unread and (memory := claim_on_memory(stored.delivery.body)):
                if index:
                    return PlannedBatch(replace(batch, deliveries=batch.deliveries[:index]))
                return PlannedBatch(replace(batch, deliveries=(stored,)), memory)
        return PlannedBatch(batch)

    async def matches(self, planned: PlannedBatch) -> Sequence[HandlerMatch]:
        """Return the handlers that want these deliveries."""
        batch, costly = planned.batch, planned.memory > 0
        wanted = [one for one in batch.deliveries if one.delivery.origin in TRIGGERS]
        culprits: Culprits = await self._trial.culprits(wanted) if self._trial is not None else {}
        unread = self._unread_of(batch)
        read: dict[int, RoutedEvent] = {}
        repeats: frozenset[int] = frozenset()
        if batch.any_backfilled:
            read = {one.seq: await _read(one, in_thread=costly) for one in wanted}
            repeats = await find_repeats(self._queue, [(one, read[one.seq].event) for one in wanted])
        matches: list[HandlerMatch] = []
        for stored in wanted:
            if (handlers := unread.get(stored.delivery.type)) is not None:
                matches += [HandlerMatch(stored, None, handler) for handler in handlers]
                continue
            routed = read.pop(stored.seq, None) or await _read(stored, in_thread=costly)
            self._drift.log_new(routed.event, stored.delivery)
            if stored.seq not in repeats:
                matches += self._matches_of(stored, routed, culprits, costly=costly)
        return matches

    def _unread_of(self, batch: RoutingBatch) -> Mapping[str, Sequence[Handler]]:
        """Return the handlers of the types that are not read; after a backfill all are, to find repeats."""
        return {} if batch.any_backfilled else self._unread

    def _matches_of(
        self, stored: StoredDelivery, routed: RoutedEvent, culprits: Culprits, *, costly: bool
    ) -> Sequence[HandlerMatch]:
        refused = [one for one in self._router if (stored.seq, one.name) in culprits]
        handlers = [one for one in self._router if one not in refused and self._wants(one, stored, routed)]
        if not handlers and not refused:
            self._unhandled.log_new(routed.event, self._router)
        # A costly event would use its memory while the work item waits.
        kept = None if costly else routed.whole_event
        return [
            *(HandlerMatch(stored, routed.event, one, None, culprits[stored.seq, one.name]) for one in refused),
            *(HandlerMatch(stored, routed.event, one, kept) for one in handlers),
        ]

    def new_work(self, matches: Sequence[HandlerMatch]) -> list[NewWork]:
        """Return the work items of these matches."""
        claims = NewClaims(self._ready, [one.handler.name for one in matches if one.refusal is None])
        work: list[NewWork] = []
        for match in matches:
            handler, refused = match.handler, match.refusal is not None
            claim, starts = claims.next(handler, refused=refused)
            hold = None if refused or handler.after_pages is None else self._holds.hold(handler, match.stored)
            trigger = TRIGGERS[match.stored.delivery.origin]
            lane = None if refused or handler.lane is None else self._lane(match)
            work.append(NewWork(match.stored.seq, handler.name, claim, starts, lane, hold, trigger))
        return work

    def _wants(self, handler: Handler, stored: StoredDelivery, routed: RoutedEvent) -> bool:
        if self._watch is None or not runs_code(handler):
            return wants(handler, routed)
        with self._watch.asking(handler.name, stored.delivery):
            return wants(handler, routed)

    def _lane(self, match: HandlerMatch) -> str | None:
        handler = match.handler
        if match.event is None or match.stored.unreadable:  # without its data, `lane` would name a wrong one
            return lane_of_job(match.stored.delivery.job_id)
        if self._watch is None or not runs_code(handler):
            return lane_of(handler, match.event)
        with self._watch.asking(handler.name, match.stored.delivery):
            return lane_of(handler, match.event)


def _handlers_by_type(router: Iterable[Handler]) -> Mapping[str, Sequence[Handler]]:
    """Return the handlers of each type that is routed without reading its events.

    Such an event is read when its work is claimed, and not twice if it has to wait. Events that no handler wants
    are read, to log what our models do not know of them.
    """
    routes = {}
    for kind in EVENT_CLASSES:
        handlers = [one for one in router if not one.only_later and wants_type(one.wanted, kind)]
        if handlers and not any(runs_code(one) for one in handlers):
            routes[kind] = handlers
    return routes


async def _read(stored: StoredDelivery, *, in_thread: bool) -> RoutedEvent:
    return await asyncio.to_thread(read_to_route, stored) if in_thread else read_to_route(stored)


def from_route(
    ids: Sequence[int | None],
    work: Sequence[NewWork],
    matches: Sequence[HandlerMatch],
    *,
    with_followers: Collection[HandlerName],
) -> ClaimedWork:
    """Return what was claimed as it was routed, with followers for these handlers."""
    claimed: list[Claimed] = []
    followers: dict[int, list[Claimed]] = {}
    started: list[int] = []
    heads: dict[tuple[HandlerName, str], int] = {}
    for work_id, new, match in zip(ids, work, matches, strict=True):
        if work_id is None:
            continue
        item = WorkItem(work_id, new.handler, 1, 0, 0, new.trigger, match.stored, new.lane is not None)
        one = Claimed(item, match.handler, match.kept, match.refusal)
        head = work_id if new.lane is None else heads.setdefault((new.handler, new.lane), work_id)
        if head == work_id:
            claimed.append(one)
            if new.starts:
                started.append(work_id)
        elif new.handler in with_followers and len(followers.setdefault(head, [])) < MAX_FOLLOWERS:
            followers[head].append(one)
    return ClaimedWork(claimed, followers, frozenset(started))
