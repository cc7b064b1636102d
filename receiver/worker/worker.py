"""The worker's loop: claim what is due, route what is new, run it, settle it, and stop without losing anything."""

import asyncio
import logging
import random
from collections import deque
from collections.abc import Container, Coroutine, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from receiver.core.claims import ClaimLimits, HandlerClaim, Lease, WorkItem
from receiver.core.clock import Clock
from receiver.core.deliveries import StoredDelivery
from receiver.core.ports.queue import WorkQueue
from receiver.core.rules import POISON_AFTER
from receiver.core.types import HandlerName, WorkerId
from receiver.core.work import NewWork
from receiver.errors import StoreError
from receiver.events import Event
from receiver.routing import Handler, Router
from receiver.routing.policies import RunsIn
from receiver.worker.drift_log import DriftLogger
from receiver.worker.emit import emit_started
from receiver.worker.fanout import TRIGGERS, Unhandled, read_event, wanting
from receiver.worker.holds import Holds
from receiver.worker.isolation import Isolation
from receiver.worker.lanes import lane_of
from receiver.worker.late_webhooks import find_repeats
from receiver.worker.leases import Leases
from receiver.worker.runner import Claimed, Ended, Runner
from receiver.worker.settling import Settling
from receiver.worker.slots import Call, ReadyQueues

log = logging.getLogger(__name__)

MAX_BYTES = 64 * 1024 * 1024
"""Bodies held at one time, and one more."""
_STORE_PAUSE = timedelta(seconds=1)
MAX_UNHANDLED = 128
"""Deliveries looked at together by a worker without handlers."""
_LOOK = timedelta(seconds=1)
"""How often to look for what no claim finds: suspects, held items, and handlers that were switched off."""
_CANCEL_SECONDS = 1
"""How long a cancelled handler may take to end; one that refuses to is left behind with the process."""


class Worker:
    """One worker. It holds leases in its own name on everything it has claimed and not yet settled."""

    def __init__(
        self,
        queue: WorkQueue,
        router: Router,
        clock: Clock,
        runner: Runner,
        *,
        worker: WorkerId,
        places: Mapping[RunsIn, int],
        lease: timedelta,
        rng: random.Random,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        """`places` is how many calls run at one time of each kind; those of the event loop count for all kinds."""
        self._queue = queue
        self._router = router
        self._clock = clock
        self._runner = runner
        self._lease = lease
        self._max_bytes = max_bytes
        self._handlers: deque[Handler] = deque(router)
        self._unhandled = Unhandled()
        self._drifting = DriftLogger()
        self._freed = asyncio.Event()
        self._leases = Leases(queue, clock, worker, lease)
        self._lines = ReadyQueues(router, places, clock, concurrency=places[RunsIn.LOOP], wake=self._start_ready)
        self._holding = Holds(queue, router, clock)
        self._settling = Settling(queue, clock, self._leases, rng, self._settled)
        self._running: dict[asyncio.Task[None], Call] = {}
        self._doubtful: list[int] = []
        self._isolation = Isolation(lease)
        self._looked_at = clock.now() - _LOOK
        self._stopping = False
        self._cancelling = False

    async def run(self, stop: asyncio.Event, *, grace: timedelta) -> int:
        """Work until `stop` is set; return how many handlers could not be ended and still run.

        From then on nothing is claimed; what runs may finish within `grace`; the rest is cancelled without
        counting the attempt, and its leases are given back.
        """
        keeping = asyncio.create_task(self._leases.keep())
        try:
            while not stop.is_set():
                await self._turn(stop)
            return await self._finish(grace)
        except Exception:
            await self._finish(timedelta(0))  # what runs must not seem to have killed this worker
            raise
        finally:
            keeping.cancel()

    # --- claiming

    async def _turn(self, stop: asyncio.Event) -> None:
        self._freed.clear()
        doubtful, self._doubtful = self._doubtful, []
        try:
            await self._leases.release_leases(doubtful)
            claimants = self._claimants()
            if not claimants and self._handlers:
                await self._look(claimants, self._clock.now())
                await first_of(stop.wait(), self._freed.wait(), self._clock.sleep(_LOOK))
            elif not await self._fetch(claimants):
                await self._wait_for_work(claimants, stop)
        except StoreError as exc:
            log.error("store_unavailable", extra={"reason": str(exc)})
            await first_of(stop.wait(), self._clock.sleep(_STORE_PAUSE))

    def _claimants(self) -> Sequence[HandlerClaim]:
        """Return the handlers for which there is room, each time beginning with another one."""
        if self._leases and self._isolation.holds(self._clock.now()):
            return ()
        if self._leases and self._bytes_left() <= 0:
            self._lines.complete_batches()  # what waits for more to come would keep everything else waiting
            self._start_ready()
            return ()
        self._handlers.rotate(-1)  # no handler's backlog may keep the others waiting for ever
        return [
            HandlerClaim(
                handler.name,
                None if handler.batch is not None else handler.concurrency,
                None if handler.rate is None else handler.rate.interval,
                room,
            )
            for handler in self._handlers
            if (room := self._room(handler)) > 0
        ]

    def _room(self, handler: Handler) -> int:
        """Return how many items may be claimed. Claims keep the rates: what a rate lets through has to begin."""
        line = self._lines[handler.name]
        return line.room if handler.rate is None else min(line.room, line.free)

    def _bytes_left(self) -> int:
        return self._max_bytes - self._leases.bytes

    async def _fetch(self, claimants: Sequence[HandlerClaim]) -> bool:
        """Claim and route as much as there is room for; return whether to go on at once."""
        await self._leases.renew_if_late()
        now = self._clock.now()
        lease = self._leases.new(now)
        await self._look(claimants, now)
        if self._isolation.begins(now, idle=not self._leases):
            suspect = ClaimLimits(1, self._max_bytes, starting=1, suspects=True)
            if not await self._claim(claimants, suspect, lease, now):
                self._isolation.found_none(now)
        if self._isolation.holds(now):
            return True
        lines = {id(line): line for line in (self._lines[one.handler] for one in claimants)}.values()
        batched = any(self._router[one.handler].batch is not None for one in claimants)  # these begin later
        starting = 0 if batched else min((self._lines.free, *(line.free for line in lines)))
        wanted = ClaimLimits(sum(line.room for line in lines), self._bytes_left(), starting)
        claimed = await self._claim(claimants, wanted, lease, now)
        limit = max((line.room for line in lines), default=MAX_UNHANDLED)
        routed = self._bytes_left() > 0 and await self._route(limit, lease, now)
        return claimed > 0 or routed

    async def _look(self, claimants: Sequence[HandlerClaim], now: datetime) -> None:
        """Find, now and then, what no claim finds; a suspect that is due runs with nothing else beside it."""
        if not self._isolation.wanted and timedelta(0) <= now - self._looked_at < _LOOK:
            return
        self._looked_at = now
        off = await self._queue.switches()
        unwanted = self._lines.withdraw(lambda one: one.item.handler in off)
        unwanted += self._lines.withdraw_stuck(self._lease)  # other workers may get on
        await self._leases.release_leases([one.item.id for one in unwanted])
        await self._holding.look()
        if claimants:
            self._isolation.look(now, due=await self._queue.suspects_due(claimants, now=now))

    async def _claim(
        self, claimants: Sequence[HandlerClaim], wanted: ClaimLimits, lease: Lease, now: datetime
    ) -> int:
        items = await self._queue.claim(claimants, wanted, lease=lease, now=now)
        self._take(
            [Claimed(item, self._router[item.handler]) for item in items],
            lease,
            begun=frozenset(item.id for item in items[: wanted.starting]),
        )
        return len(items)

    async def _route(self, limit: int, lease: Lease, now: datetime) -> bool:
        """Route new deliveries to the handlers that want them; return whether there were any."""
        if limit <= 0:
            return False
        batch = await self._queue.routing_batch(limit=limit, max_bytes=self._bytes_left())
        if not batch.deliveries:
            return False
        read = [(one, read_event(one)) for one in batch.deliveries if one.delivery.origin in TRIGGERS]
        repeated = await find_repeats(self._queue, read) if batch.any_backfilled else frozenset()
        wanted = [match for stored, event in read for match in self._matches(stored, event, repeated)]
        work = self._new_work(wanted)
        ids = await self._queue.route(batch, work, lease=lease, now=now)
        if ids is None:
            return True  # another worker was first; there may be more behind
        found = zip(ids, work, wanted, strict=True)
        claimed = [(work_id, new, match) for work_id, new, match in found if work_id is not None]
        self._take(
            [
                Claimed(WorkItem(work_id, handler.name, 1, 0, 0, new.trigger, stored), handler, event)
                for work_id, new, (stored, handler, event) in claimed
            ],
            lease,
            begun=frozenset(work_id for work_id, new, _ in claimed if new.starts),
        )
        return True

    def _matches(
        self, stored: StoredDelivery, event: Event, repeated: Container[int]
    ) -> Sequence[tuple[StoredDelivery, Handler, Event]]:
        self._drifting.look(event, stored.delivery)
        if stored.seq in repeated:
            return ()
        handlers = wanting(self._router, event)
        if not handlers:
            self._unhandled.tell(event, self._router)
        return [(stored, handler, event) for handler in handlers]

    def _new_work(self, wanted: Sequence[tuple[StoredDelivery, Handler, Event]]) -> list[NewWork]:
        """Claim what there is room for at once, as far as no limit over all workers has to be asked first."""
        rooms = {id(line): line.room for line in self._lines}
        free = {id(line): line.free for line in self._lines}
        total = self._lines.free
        work: list[NewWork] = []
        for stored, handler, event in wanted:
            line = id(self._lines[handler.name])
            unlimited = handler.rate is None and (handler.concurrency is None or handler.batch is not None)
            claim = unlimited and rooms[line] > 0
            starts = claim and handler.batch is None and free[line] > 0 and total > 0
            rooms[line] -= claim
            free[line] -= starts
            total -= starts
            hold = self._holding.hold(handler, stored)
            trigger = TRIGGERS[stored.delivery.origin]
            work.append(NewWork(stored.seq, handler.name, claim, starts, lane_of(handler, event), hold, trigger))
        return work

    async def _wait_for_work(self, claimants: Sequence[HandlerClaim], stop: asyncio.Event) -> None:
        waits: list[Coroutine[Any, Any, object]] = [stop.wait(), self._freed.wait(), self._queue.changed()]
        due = await self._queue.next_due(claimants, now=self._clock.now())
        if due is not None:
            # What is due already was not when this claimed, or is for the next look.
            now = self._clock.now()
            # Not all at once: what is due is so by the clock on the wall, which may be moved or sleep meanwhile.
            then = min(due, now + self._lease) if due > now else self._looked_at + _LOOK
            waits.append(self._clock.sleep(then - now))
        await first_of(*waits)

    # --- running

    def _take(self, claimed: Sequence[Claimed], lease: Lease, *, begun: frozenset[int]) -> None:
        if not claimed:
            return
        self._leases.take(claimed, lease)
        for one in claimed:
            self._lines.add(one)
        self._start_ready(begun)

    def _start_ready(self, begun: frozenset[int] = frozenset()) -> None:
        """Begin every call that has a place. Those in `mark_started` are known by the store to begin now."""
        self._withdraw_doubtful()
        while not self._stopping and (call := self._lines.begin_next()):
            for one in call:
                if one.item.id not in begun:
                    self._leases.begins(one.item.id)
            task = asyncio.create_task(self._run(call))
            self._running[task] = call
            task.add_done_callback(self._ended)

    def _withdraw_doubtful(self) -> None:
        """Begin nothing whose lease has ended: another worker may have done it meanwhile, and more in its lane."""
        if self._leases.any_ended() and (
            doubtful := self._lines.withdraw(lambda one: self._leases.ended(one.item.id))
        ):
            self._doubtful += [one.item.id for one in doubtful]
            self._freed.set()

    async def _run(self, call: Call) -> None:
        try:
            ended = await self._attempts(call)
        except asyncio.CancelledError:
            if self._cancelling:
                raise
            ended = [self._runner.failed(one, "the handler cancelled its own task") for one in call]
        for one, end in zip(call, ended, strict=True):
            self._settling.submit(one, end)

    async def _attempts(self, call: Call) -> Sequence[Ended]:
        if call[0].item.deaths >= POISON_AFTER:  # and so it is alone
            return [self._runner.refuse(call[0])]
        if call[0].handler.batch is not None:
            await self._leases.begin_together([one.item.id for one in call])
        now = self._clock.now()
        for one in call:
            emit_started(one.item, now)
        return await self._runner.run_batch(call) if len(call) > 1 else [await self._runner.run(call[0])]

    def _ended(self, task: "asyncio.Task[None]") -> None:
        call = self._running.pop(task)
        self._lines.ended(call)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("attempt_broken", extra={"handler": call[0].item.handler}, exc_info=error)
            for one in call:
                broken = self._runner.failed(one, "the attempt broke; the worker's log says how")
                self._settling.submit(one, broken)
        self._start_ready()

    def _settled(self, handlers: Sequence[HandlerName]) -> None:
        for handler in handlers:
            self._lines.settled(handler)
        self._freed.set()

    # --- stopping

    async def _finish(self, grace: timedelta) -> int:
        self._stopping = True
        await self._leases.clear_started()
        await self._leases.release_leases([one.item.id for one in self._lines.withdraw(lambda _: True)])
        if self._running:
            log.info("worker_finishing", extra={"running": len(self._running)})
            await first_of(self._all_ended(), self._clock.sleep(grace))
        self._cancelling = True
        interrupted = dict(self._running)
        for task in interrupted:
            task.cancel()
        if interrupted:
            await asyncio.wait(interrupted, timeout=_CANCEL_SECONDS)
        await self._settling.aclose()
        await self._leases.give_all_back()
        return sum(
            call[0].handler.runs_in is RunsIn.THREAD or not task.done() for task, call in interrupted.items()
        )

    async def _all_ended(self) -> None:
        while self._running:
            await asyncio.wait(self._running)


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
