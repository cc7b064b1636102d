"""The worker's loop: claim what is due, route what is new, run it, settle it, and stop without losing anything."""

import asyncio
import logging
import random
from collections import deque
from collections.abc import Coroutine, Sequence
from concurrent.futures import Executor
from datetime import datetime, timedelta
from typing import Any, assert_never

from receiver.clock import Clock, time_limit
from receiver.decisions import ALONE_AFTER, POISON_AFTER, Bury, Complete, RetryAt, decide
from receiver.dispatch.fanout import Unhandled, read_event, wanting
from receiver.dispatch.runner import Claimed, Ended, Runner, tell_attempt
from receiver.errors import StoreError
from receiver.events import Event
from receiver.group_commit import GroupCommit
from receiver.ports import WorkQueue
from receiver.records import Lease, NewWork, Settlement, StoredDelivery, Wanted, WorkItem
from receiver.routing import Handler, Router
from receiver.types import HandlerName, Trigger, WorkerId, WorkState

log = logging.getLogger(__name__)

_AHEAD = 4
"""Work items claimed for each that may run at one time, so that one transaction fetches many."""
MAX_BYTES = 64 * 1024 * 1024
"""Bodies held at one time, and one more."""
_MOST_SETTLED = 1_000
_TRUSTED, _SUSPECTED, _ANY = range(ALONE_AFTER), range(ALONE_AFTER, 2**31), range(2**31)
_STORE_PAUSE = timedelta(seconds=1)
_LOOK = timedelta(seconds=1)
"""How often to look for work items that may be killing workers."""
_CANCEL_SECONDS = 1
"""How long a cancelled handler may take to end; one that refuses to is left behind with the process."""


class Dispatcher:
    """One worker. It holds leases in its own name on everything it has claimed and not yet settled."""

    def __init__(
        self,
        queue: WorkQueue,
        router: Router,
        clock: Clock,
        threads: Executor,
        *,
        worker: WorkerId,
        concurrency: int,
        lease: timedelta,
        rng: random.Random,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        self._queue = queue
        self._router = router
        self._clock = clock
        self._runner = Runner(clock, threads)
        self._worker = worker
        self._concurrency = concurrency
        self._lease = lease
        self._rng = rng
        self._max_bytes = max_bytes
        self._names: deque[HandlerName] = deque(handler.name for handler in router)
        self._unhandled = Unhandled()
        self._held: dict[int, int] = {}  # work id to size of its body
        self._draining_since: datetime | None = None
        self._cancelling = False
        self._looked_at = clock.now() - _LOOK
        self._ready: deque[Claimed] = deque()
        self._running: dict[asyncio.Task[None], Claimed] = {}
        self._freed = asyncio.Event()
        self._settlements = GroupCommit(self._settle_all, most=_MOST_SETTLED)
        self._renewed_at = clock.now()

    async def run(self, stop: asyncio.Event, *, grace: timedelta) -> int:
        """Work until `stop` is set; return how many handlers could not be ended and still run.

        From then on nothing is claimed; what runs may finish within `grace`; the rest is cancelled without
        counting the attempt, and its leases are given back.
        """
        renewal = asyncio.create_task(self._keep_leases())
        try:
            while not stop.is_set():
                await self._turn(stop)
            return await self._finish(grace)
        finally:
            renewal.cancel()

    # --- claiming

    async def _turn(self, stop: asyncio.Event) -> None:
        self._freed.clear()
        try:
            if self._room() <= 0:
                await first_of(stop.wait(), self._freed.wait(), self._clock.sleep(self._lease))
            elif not await self._fetch():
                await self._wait_for_work(stop)
        except StoreError as exc:
            log.error("store_unavailable", extra={"reason": str(exc)})
            await first_of(stop.wait(), self._clock.sleep(_STORE_PAUSE))

    def _room(self) -> int:
        if self._held and (self._isolating() or self._bytes_left() <= 0):
            return 0
        return self._concurrency * _AHEAD - len(self._held)

    def _bytes_left(self) -> int:
        return self._max_bytes - sum(self._held.values())

    def _isolating(self) -> bool:
        """Tell whether a suspect runs alone or waits to. It may not hold up everything for longer than a lease."""
        since = self._draining_since
        return since is not None and self._clock.now() - since < self._lease

    async def _fetch(self) -> bool:
        """Claim and route as much as there is room for; return whether to go on at once."""
        await self._renew_if_late()
        now = self._clock.now()
        lease = Lease(self._worker, now + self._lease)
        self._names.rotate(-1)  # no handler's backlog may keep the others waiting for ever
        if await self._suspects_due(now):
            if not self._held or not self._isolating():
                await self._claim(Wanted(1, self._max_bytes, _SUSPECTED), lease, now)
            if self._isolating():
                return True
        claimed = await self._claim(Wanted(self._room(), self._bytes_left(), _TRUSTED), lease, now)
        routed = self._room() > 0 and await self._route(self._room(), lease)
        return claimed > 0 or routed

    async def _suspects_due(self, now: datetime) -> bool:
        """Tell whether an item waits that may have killed its workers; it is run with nothing else beside it."""
        if self._draining_since is None and timedelta(0) <= now - self._looked_at < _LOOK:
            return False
        self._looked_at = now
        due = await self._queue.next_due(tuple(self._names), lost=_SUSPECTED)
        if due is None or due > now:
            self._draining_since = None
        elif self._draining_since is None:
            self._draining_since = now
        return self._draining_since is not None

    async def _claim(self, wanted: Wanted, lease: Lease, now: datetime) -> int:
        items = await self._queue.claim(tuple(self._names), wanted, lease=lease, now=now)
        self._take([Claimed(item, self._router[item.handler]) for item in items], lease)
        return len(items)

    async def _route(self, limit: int, lease: Lease) -> bool:
        """Route new deliveries to the handlers that want them; return whether there were any."""
        batch = await self._queue.unrouted(limit=limit, max_bytes=self._bytes_left())
        if not batch.deliveries:
            return False
        wanted = [match for stored in batch.deliveries for match in self._matches(stored)]
        work = [NewWork(stored.seq, handler.name) for stored, handler, _ in wanted]
        ids = await self._queue.route(batch, work, lease=lease)
        if ids is None:
            return True  # another worker was first; there may be more behind
        self._take(
            [
                Claimed(WorkItem(work_id, handler.name, 1, 0, Trigger.DELIVERY, stored), handler, event)
                for work_id, (stored, handler, event) in zip(ids, wanted, strict=True)
            ],
            lease,
        )
        return True

    def _matches(self, stored: StoredDelivery) -> Sequence[tuple[StoredDelivery, Handler, Event]]:
        event = read_event(stored)
        handlers = wanting(self._router, event)
        if not handlers:
            self._unhandled.tell(event)
        return [(stored, handler, event) for handler in handlers]

    async def _wait_for_work(self, stop: asyncio.Event) -> None:
        waits: list[Coroutine[Any, Any, object]] = [stop.wait(), self._freed.wait(), self._queue.changed()]
        due = await self._queue.next_due(tuple(self._names), lost=_ANY)
        if due is not None:
            # What is due already was not when this claimed, or is a suspect; the next look finds both.
            now = self._clock.now()
            waits.append(self._clock.sleep(due - now if due > now else self._looked_at + _LOOK - now))
        await first_of(*waits)

    # --- running

    def _take(self, jobs: Sequence[Claimed], lease: Lease) -> None:
        if jobs and lease.until - self._clock.now() < self._lease * (2 / 3):
            # The event loop was blocked since the lease was made: renew before the next claim.
            self._renewed_at = self._clock.now() - self._lease
        self._held.update((job.item.id, len(job.item.source.delivery.body)) for job in jobs)
        self._ready.extend(jobs)
        self._start_ready()

    def _start_ready(self) -> None:
        while self._ready and len(self._running) < self._concurrency:
            job = self._ready.popleft()
            task = asyncio.create_task(self._run(job))
            self._running[task] = job
            task.add_done_callback(self._ended)

    async def _run(self, job: Claimed) -> None:
        poisonous = job.item.lost >= POISON_AFTER
        try:
            ended = self._runner.refuse(job) if poisonous else await self._runner.run(job)
        except asyncio.CancelledError:
            if self._cancelling:
                raise
            ended = self._runner.failed(job, "the handler cancelled its own task")
        self._settlements.submit(self._settlement(job, ended))

    def _ended(self, task: "asyncio.Task[None]") -> None:
        job = self._running.pop(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("attempt_broken", extra={"handler": job.item.handler}, exc_info=error)
            broken = self._runner.failed(job, "the attempt broke; the worker's log says how")
            self._settlements.submit(self._settlement(job, broken))
        self._start_ready()

    def _settlement(self, job: Claimed, ended: Ended) -> Settlement:
        attempt = ended.attempt
        now = attempt.ended_at
        decision = decide(
            ended.result,
            attempt=attempt.number - job.item.lost,
            schedule=job.handler.schedule,
            now=now,
            rng=self._rng,
        )
        match decision:
            case Complete():
                state, due_at = WorkState.DONE, now
            case RetryAt(due_at):
                state = WorkState.WAITING
            case Bury():
                state, due_at = WorkState.DEAD, now
            case _:
                assert_never(decision)
        tell_attempt(job, ended, state, due_at)
        return Settlement(job.item.id, self._worker, attempt, state, due_at)

    async def _settle_all(self, settlements: list[Settlement]) -> Sequence[bool]:
        """Record results; while the store is away they are kept here, since running again is the alternative."""
        while True:
            try:
                settled = await self._queue.settle(settlements)
                break
            except StoreError as exc:
                log.error("results_waiting", extra={"count": len(settlements), "reason": str(exc)})
                await self._clock.sleep(_STORE_PAUSE)
            except Exception:
                # A fault of ours. The items are let go: their leases end, and they run again where it can be seen.
                log.exception("results_not_recorded", extra={"count": len(settlements)})
                settled = [False] * len(settlements)
                break
        for settlement, done in zip(settlements, settled, strict=True):
            self._held.pop(settlement.work_id, None)
            if not done:
                log.warning("lease_lost", extra={"work_id": settlement.work_id})
        self._freed.set()
        return settled

    # --- leases

    async def _keep_leases(self) -> None:
        while True:
            await self._clock.sleep(self._lease / 3)
            try:
                await self._renew_if_late()
            except StoreError as exc:
                log.error("leases_not_renewed", extra={"reason": str(exc)})

    async def _renew_if_late(self) -> None:
        """Renew every lease once a third of its time has gone.

        Asked before every claim too: after a handler has blocked the event loop for longer than a lease, this
        worker would else claim again what it is still running.
        """
        now, before = self._clock.now(), self._renewed_at
        if not timedelta(0) <= now - before < self._lease / 3:
            if self._held:
                await self._queue.renew(tuple(self._held), Lease(self._worker, now + self._lease))
            if self._renewed_at == before:  # nothing was taken in between
                self._renewed_at = now

    # --- stopping

    async def _finish(self, grace: timedelta) -> int:
        unstarted = [job.item.id for job in self._ready]
        self._ready.clear()  # first of all: whatever ends from here on starts the next one that is ready
        await self._give_back(unstarted)
        if self._running:
            log.info("worker_finishing", extra={"running": len(self._running)})
            await first_of(self._all_ended(), self._clock.sleep(grace))
        self._cancelling = True
        interrupted = dict(self._running)
        for task in interrupted:
            task.cancel()
        if interrupted:
            await asyncio.wait(interrupted, timeout=_CANCEL_SECONDS)
        try:
            async with time_limit(self._clock, _STORE_PAUSE):
                await self._settlements.aclose()
        except TimeoutError:
            log.error("results_lost", extra={"count": len(self._held)})
        await self._give_back(list(self._held))
        return sum(not job.handler.is_async or not task.done() for task, job in interrupted.items())

    async def _all_ended(self) -> None:
        while self._running:
            await asyncio.wait(self._running)

    async def _give_back(self, work_ids: Sequence[int]) -> None:
        if not work_ids:
            return
        for work_id in work_ids:
            self._held.pop(work_id, None)
        try:
            await self._queue.give_back(work_ids, self._worker, now=self._clock.now())
        except StoreError as exc:
            # Their leases end by themselves.
            log.error("work_not_given_back", extra={"count": len(work_ids), "reason": str(exc)})


async def first_of(*waits: Coroutine[Any, Any, object]) -> None:
    """Return when the first of them has returned, and cancel the others; raises what that one raised."""
    tasks = [asyncio.create_task(wait) for wait in waits]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    for task in done:
        task.result()
