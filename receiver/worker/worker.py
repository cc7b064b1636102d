"""The worker's loop: claim due work, route new deliveries, run, settle, and stop without losing anything."""

import asyncio
import random
from collections import deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from receiver.core.claims import ClaimLimits, HandlerClaim, Lease
from receiver.core.clock import Clock, first_of
from receiver.core.ports.queue import WorkQueue
from receiver.core.types import HandlerName, WorkerId
from receiver.errors import StoreError
from receiver.routing import Handler, Router
from receiver.routing.policies import RunsIn
from receiver.runtime.log_lines import event_log
from receiver.worker.attempts import AttemptRunner, Ended, HandlerCall, broken, by_end, refused
from receiver.worker.claiming import (
    PAUSE,
    Checked,
    NextCheck,
    SuspectTurns,
    by_start,
    claims_at_checks,
    claims_for,
    from_claim,
    limits_of,
    queues_of,
    wait_for_due,
)
from receiver.worker.events import DriftLogger, EventReader, MemoryBudget, Unhandled
from receiver.worker.routing import Holds, PlannedBatch, RoutingPlanner, from_route
from receiver.worker.settling import ResultSettler, emit_started
from receiver.worker.trial import RoutingTrial, RoutingWatch
from receiver.worker.upkeep.schedules import ScheduledRuns
from receiver.worker.work_in_hand import ClaimedWork, WorkerLimits, WorkInHand

log = event_log(__name__)

CHECK_EVERY = timedelta(seconds=1)


class RegularChecks:
    """Checks for what no claim finds: dead workers, suspects, held items, switched-off handlers, slow queues."""

    def __init__(
        self, queue: WorkQueue, clock: Clock, hand: WorkInHand, holds: Holds, suspects: SuspectTurns
    ) -> None:
        self._queue = queue
        self._clock = clock
        self._hand = hand
        self._holds = holds
        self._suspects = suspects
        self._checked_at = clock.steady() - CHECK_EVERY
        self.waits = False
        """The last call of `check` came too early."""

    @property
    def until_next(self) -> timedelta:
        """The time until the next check."""
        return self._checked_at + CHECK_EVERY - self._clock.steady()

    async def check(self, claims: Sequence[HandlerClaim]) -> None:
        """Check, if it is time. Suspects are checked for those handlers that more can be claimed for."""
        steady = self._clock.steady()
        self.waits = not self._suspects.have_turn and steady - self._checked_at < CHECK_EVERY
        if self.waits:
            return
        self._checked_at = steady
        if dead := await self._queue.expire_dead(self._hand.leases.worker, steady=steady):
            log.warning("workers_died", extra={"workers": list(dead)})
            self._hand.lanes.note_death()
        await self._hand.give_back_unneeded(await self._queue.switches())
        await self._holds.check()
        if claims:
            suspects_due = await self._queue.suspects_due(claims, now=self._clock.now())
            self._suspects.check(steady, due=suspects_due)
            if suspects_due:
                self._hand.lanes.note_death()


_STORE_PAUSE = timedelta(seconds=1)
MAX_UNHANDLED = 128
"""Deliveries that a worker without handlers routes together."""
_CANCEL_SECONDS = 1
"""A cancelled handler that takes longer to end is left running until the process ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """What some workers have and others do without.

    `rng` spreads retries. `memory` is what routing and the runner share. With `trial` the first deliveries are
    tried before they are routed. `watch` ends the process if routing blocks it. `unhandled` logs the events that no
    handler wants. `started` is called with the name of each handler that is about to be called. Commands in the
    log name `store`, if it is given.
    """

    rng: random.Random = field(default_factory=random.Random)
    memory: MemoryBudget = field(default_factory=MemoryBudget)
    trial: RoutingTrial | None = None
    watch: RoutingWatch | None = None
    unhandled: Unhandled | None = None
    started: Callable[[HandlerName], None] | None = None
    store: str | None = None


class Worker:
    """One worker. Everything that it has claimed and not yet settled is leased in its name."""

    def __init__(
        self,
        queue: WorkQueue,
        router: Router,
        clock: Clock,
        runner: AttemptRunner,
        worker: WorkerId,
        limits: WorkerLimits,
        options: WorkerOptions | None = None,
    ) -> None:
        self._options = options = options or WorkerOptions()
        self._queue = queue
        self._router = router
        self._clock = clock
        self._runner = runner
        self._max_bytes = limits.max_bytes
        self._longest_wait = limits.longest_wait or limits.lease
        self._handlers: deque[Handler] = deque(router)
        drift = DriftLogger()
        self._reader = EventReader(drift)
        self._hand = WorkInHand(
            queue, router, clock, worker, limits, read=self._reader.read_singles, wake=self._start_ready
        )
        holds = Holds(queue, router, clock)
        self._planner = RoutingPlanner(
            queue,
            router,
            self._hand.ready,
            holds,
            drift=drift,
            trial=options.trial,
            watch=options.watch,
            unhandled=options.unhandled,
        )
        if options.trial is not None:
            options.trial.begin(max([MAX_UNHANDLED, *(queue.most for queue in self._hand.ready)]))
        self._settling = ResultSettler(queue, clock, self._hand, options.rng, self._settled, options.store)
        self._schedules = ScheduledRuns(queue, router, clock, longest_wait=self._longest_wait)
        self._suspects = SuspectTurns(limits.lease)
        self._checks = RegularChecks(queue, clock, self._hand, holds, self._suspects)
        self._next_check = NextCheck(router)
        self._claimed_at = clock.now()
        self._running: dict[asyncio.Task[None], HandlerCall] = {}
        self._wake = asyncio.Event()
        self._enlisted = False
        self._routing_waits = False
        """Routing waits for memory that attempts use."""
        self._starting = False
        """Ready calls start in the next turn of the event loop."""
        self._stopping = False
        self._cancelling = False

    def note_death(self) -> None:
        """Run items of lanes one by one for a while: this worker replaces one that died."""
        self._hand.lanes.note_death()

    async def run(self, stop: asyncio.Event, *, grace: timedelta) -> int:
        """Work until `stop` is set. Return how many handlers could not be ended and still run.

        After `stop` nothing is claimed. Handlers may finish within `grace`. Those that do not are cancelled, their
        attempts do not count, and their leases are released.
        """
        renewing = asyncio.create_task(self._hand.leases.run())
        try:
            while not stop.is_set():
                await self._turn(stop)
            return await self._finish(grace)
        except Exception:
            await self._finish(timedelta(0))  # what runs must not be blamed for the end of this worker
            raise
        finally:
            renewing.cancel()

    # --- claiming

    async def _turn(self, stop: asyncio.Event) -> None:
        self._wake.clear()
        self._next_check.begin()
        try:
            if not self._enlisted:  # otherwise other workers would take this one for dead, and take its work
                await self._queue.enlist(self._hand.leases.worker)
                self._enlisted = True
            await self._hand.release_dropped()
            await self._schedules.make_due()
            claims = self._claims()
            if not claims and self._handlers:
                await self._checks.check(claims)
                await first_of(stop.wait(), self._wake.wait(), self._clock.sleep(CHECK_EVERY))
                return
            found = await self._fetch(claims)
            if found is Checked.SOME:
                await first_of(stop.wait(), self._wake.wait(), self._queue.changed(), self._clock.sleep(PAUSE))
            elif found is Checked.NOTHING:
                await self._wait_for_work(claims, stop)
        except StoreError as exc:
            log.error("store_unavailable", extra={"reason": str(exc)})
            await first_of(stop.wait(), self._clock.sleep(_STORE_PAUSE))

    def _claims(self) -> Sequence[HandlerClaim]:
        """Return what more work can be claimed for, beginning with another handler each time."""
        if self._hand.leases and self._suspects.block_others(self._clock.steady()):
            return ()
        if self._hand.leases and self._hand.bytes_left <= 0:
            # Otherwise batches that wait for more items would block all other work.
            self._hand.ready.complete_batches()
            self._start_ready()
            return ()
        self._handlers.rotate(-1)  # otherwise one backlog could keep the others waiting
        return claims_for(self._handlers, self._hand)

    async def _fetch(self, claims: Sequence[HandlerClaim]) -> Checked:
        """Claim and route as much as the queues take."""
        steady = self._clock.steady()  # by a later moment the claim could take what this worker is still running
        await self._hand.leases.renew_if_late()
        lease = self._hand.leases.new_lease()
        await self._checks.check(claims)
        if self._suspects.may_start(steady, idle=not self._hand.leases):
            suspect = ClaimLimits(1, self._max_bytes, starting=1, suspects=True)
            if not await self._claim(claims, suspect, lease, steady):
                self._suspects.found_none(steady)
        if self._suspects.block_others(steady):
            return Checked.MORE
        queues = queues_of(claims, self._hand.ready)
        all_may_claim = len(claims) == len(self._handlers) and all(queue.claimable > 0 for queue in queues)
        claimed, at_limit = await self._claim_due(claims, lease, steady)
        limit = max((queue.claimable for queue in queues), default=MAX_UNHANDLED)
        routed = await self._route(limit) if self._hand.bytes_left > 0 else Checked.NOTHING
        # A claim takes all that is due, unless its limit ends it or large bodies do.
        ended_early = at_limit or self._hand.bytes_left < self._max_bytes // 2
        found = Checked.MORE if claimed > 0 and ended_early else routed
        nothing_waits = claimed == 0 and all_may_claim and not (self._routing_waits or self._suspects.have_turn)
        self._next_check.left = not nothing_waits or found is Checked.MORE or self._hand.bytes_left <= 0
        return found

    async def _claim_due(self, claims: Sequence[HandlerClaim], lease: Lease, steady: datetime) -> tuple[int, bool]:
        """Claim what is due. Return the number of items, and whether a limit may have ended the claim."""
        self._claimed_at = self._clock.now()
        claimed, at_limit = 0, False
        for start, group in by_start(claims, self._router).items():
            if self._hand.bytes_left > 0:
                limits = limits_of(group, self._hand, start=start)
                count = await self._claim(group, limits, lease, steady)
                claimed, at_limit = claimed + count, at_limit or count >= limits.limit
        return claimed, at_limit

    async def _claim(
        self, claims: Sequence[HandlerClaim], limits: ClaimLimits, lease: Lease, steady: datetime
    ) -> int:
        items = await self._queue.claim(claims, limits, lease=lease, now=self._clock.now(), steady=steady)
        self._add(from_claim(items, self._router, limits), lease)
        return len(items)

    async def _route(self, limit: int) -> Checked:
        """Route new deliveries to the handlers that want them."""
        if limit <= 0:
            return Checked.NOTHING
        batch = await self._queue.routing_batch(limit=limit, max_bytes=self._hand.bytes_left)
        if not batch.deliveries:
            return Checked.NOTHING
        planned = self._planner.costly_apart(batch)
        self._routing_waits = not self._options.memory.take_now(planned.memory)
        if self._routing_waits:
            return Checked.NOTHING
        try:
            none_left = await self._route_planned(planned)
        finally:
            self._options.memory.give_back(planned.memory)
        is_whole = planned.batch is batch and len(batch.deliveries) < limit
        is_all = is_whole and none_left and self._hand.bytes_left >= self._max_bytes // 2
        return Checked.SOME if is_all else Checked.MORE

    async def _route_planned(self, planned: PlannedBatch) -> bool:
        """Route deliveries unless another worker was first. Return whether a claim could take no more of them."""
        matches = await self._planner.matches(planned)
        lease = self._hand.leases.new_lease()  # not before: a trial may take longer than a lease
        work = self._planner.new_work(matches)
        ids = await self._queue.route(planned.batch, work, lease=lease, now=self._clock.now())
        if ids is None:
            return False  # another worker was first
        with_followers = {one.name for one in self._handlers if self._hand.lanes.allows(one)}
        self._add(from_route(ids, work, matches, with_followers=with_followers), lease)
        return all(
            work_id is not None or self._hand.ready.takes_whole_limit(self._router[one.handler])
            for work_id, one in zip(ids, work, strict=True)
        )

    async def _wait_for_work(self, claims: Sequence[HandlerClaim], stop: asyncio.Event) -> None:
        if self._settling.is_recording and self._next_check.follow_results:
            self._next_check.waits_for_results = True
            await first_of(stop.wait(), self._wake.wait(), self._clock.sleep(CHECK_EVERY))
            return
        waits: list[Coroutine[Any, Any, object]] = [stop.wait(), self._wake.wait(), self._queue.changed()]
        waits.append(self._schedules.until_due())
        now, steady = self._clock.now(), self._clock.steady()
        due = await self._queue.next_due(claims, now=now, steady=steady)
        check = self._checks.until_next
        if due is not None:
            is_new = due > self._claimed_at
            waits.append(self._clock.sleep(min(wait_for_due(due, now, check, is_new=is_new), self._longest_wait)))
        if self._checks.waits or claims_at_checks(claims, due):
            waits.append(self._clock.sleep(check))
        await first_of(*waits)

    # --- running

    def _add(self, work: ClaimedWork, lease: Lease) -> None:
        if not work.items:
            return
        self._hand.take(work, lease)
        self._start_ready(work.marked)
        # An event that takes much memory runs alone, and a batch may have started meanwhile without the others.
        self._hand.leases.note_waiting(self._hand.ready.in_incomplete_batches(work.marked))

    def _start_ready(self, marked: frozenset[int] = frozenset()) -> None:
        """Start every call that has a slot. The store knows already that the items in `marked` start now."""
        self._starting = False
        if self._hand.drop_ended():
            self._wake.set()  # for `release_dropped`
        loop = asyncio.get_running_loop()
        while not self._stopping and (started := self._hand.start_next(marked)):
            call, read = started
            task = loop.create_task(self._run(call, read))
            self._running[task] = call
            task.add_done_callback(self._ended)
        self._hand.ready.note_moves()

    async def _run(self, call: HandlerCall, read: HandlerCall) -> None:
        """Run a call. Its events, in `read`, are not kept until its results are recorded."""
        try:
            ended = await self._attempts(read)
        except asyncio.CancelledError:
            if self._cancelling:
                raise
            now = self._clock.now()
            ended = [broken(one, "the handler cancelled its own task", now) for one in call]
        for alike, end in by_end(call, ended):
            self._settling.submit(alike, end)
            self._hand.attempted(alike[0], end)  # nothing follows the items of a batch

    async def _attempts(self, call: HandlerCall) -> Sequence[Ended]:
        if call[0].refusal is not None:  # it is alone in its call
            return [refused(call[0], self._clock.now())]
        if call[0].handler.batch is not None:
            await self._hand.leases.mark_batch_started([one.item.id for one in call])
        if self._options.started is not None:
            self._options.started(call[0].item.handler)
        emit_started(call, self._clock)
        return await self._runner.run_batch(self._reader.read_batch(call))

    def _ended(self, task: "asyncio.Task[None]") -> None:
        call = self._running.pop(task)
        self._hand.ready.ended(call)
        if self._routing_waits:
            self._wake.set()
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("attempt_crashed", extra={"handler": call[0].item.handler}, exc_info=error)
            now = self._clock.now()
            for one in call:
                self._settling.submit([one], broken(one, "the attempt crashed; the worker's log says why", now))
                if one.run is not None:
                    self._hand.lanes.stop(one.run)
        if not self._starting:  # once for all the calls that end in one turn of the event loop
            self._starting = True
            asyncio.get_running_loop().call_soon(self._start_ready)

    def _settled(self, counts: Mapping[HandlerName, int], more: bool) -> None:
        self._hand.ready.settled(counts)
        if self._next_check.may_find_after(counts, more=more):
            self._wake.set()

    # --- stopping

    async def _finish(self, grace: timedelta) -> int:
        self._stopping = True
        await self._hand.leases.clear_started()
        self._hand.lanes.stop_all(off=[handler.name for handler in self._router])
        await self._hand.give_back(lambda _: True)
        await self._hand.release_dropped()
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
        await self._hand.leases.release_all()
        return sum(
            call[0].handler.runs_in is RunsIn.THREAD or not task.done() for task, call in interrupted.items()
        )

    async def _all_ended(self) -> None:
        while self._running:
            await asyncio.wait(self._running)
