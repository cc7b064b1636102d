"""The worker's loop: claim due work, route new deliveries, run, settle, and stop without losing anything."""

import asyncio
import random
from collections import deque
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import chain
from typing import Any, NamedTuple

from receiver.core.claims import ClaimLimits, HandlerClaim, Lease, WorkItem
from receiver.core.clock import Clock
from receiver.core.ports.queue import WorkQueue
from receiver.core.rules import MAX_FOLLOWERS, refusal
from receiver.core.types import HandlerName, WorkerId
from receiver.core.work import NewWork
from receiver.errors import StoreError
from receiver.routing import Handler, Router
from receiver.routing.policies import RunsIn
from receiver.runtime.log_lines import event_log
from receiver.worker.attempts import AttemptRunner, Claimed, Ended, broken, by_end, refused
from receiver.worker.claiming import (
    PAUSE,
    EventReader,
    Found,
    Isolation,
    Looks,
    WorkerLimits,
    by_start,
    claims_for,
    limits_of,
    looks_at_checks,
    queues_of,
    wait_for_due,
)
from receiver.worker.events import DriftLogger, Unhandled
from receiver.worker.followers import DoubtfulWork, LaneRuns
from receiver.worker.leases import Leases
from receiver.worker.memory_budget import MemoryBudget
from receiver.worker.ready import HandlerCall, ReadyQueues
from receiver.worker.routing.planning import HandlerMatch, Holds, PlannedBatch, RoutingPlanner
from receiver.worker.routing.trial import RoutingTrial, RoutingWatch
from receiver.worker.settling import ResultSettler, emit_started
from receiver.worker.upkeep.background import first_of
from receiver.worker.upkeep.schedules import ScheduledRuns

# FOLDED: What a worker checks once a second.
log = event_log(__name__)

CHECK_EVERY = timedelta(seconds=1)


class Checks:
    """Checks for what no claim finds: dead workers, suspects, held items, handlers that are off, and slow queues.

    A queue is stuck when all its slots have been taken for a time `lease`.
    """

    def __init__(
        self,
        queue: WorkQueue,
        clock: Clock,
        leases: Leases,
        lanes: LaneRuns,
        ready: ReadyQueues,
        holds: Holds,
        isolation: Isolation,
        lease: timedelta,
    ) -> None:
        self._queue = queue
        self._clock = clock
        self._leases = leases
        self._lanes = lanes
        self._ready = ready
        self._holds = holds
        self._isolation = isolation
        self._lease = lease
        self._checked_at = clock.steady() - CHECK_EVERY
        self.waits = False
        """The last call came before it was time."""

    @property
    def until_next(self) -> timedelta:
        """The time until the next check."""
        return self._checked_at + CHECK_EVERY - self._clock.steady()

    async def check(self, claims: Sequence[HandlerClaim]) -> None:
        """Check, if it is time. Suspects are checked for those handlers that more can be claimed for."""
        steady = self._clock.steady()
        self.waits = not self._isolation.active and steady - self._checked_at < CHECK_EVERY
        if self.waits:
            return
        self._checked_at = steady
        if dead := await self._queue.expire_dead(self._leases.worker, steady=steady):
            log.warning("workers_died", extra={"workers": list(dead)})
            self._lanes.note_death()
        off = await self._queue.switches()
        self._lanes.stop_all(off=off)
        unwanted = self._ready.withdraw(lambda one: one.item.handler in off)
        # Other workers may have free slots.
        unwanted += self._ready.withdraw_stuck(self._lease) + self._ready.withdraw_excess()
        self._lanes.withdrawn(unwanted)
        await self._leases.release([one.item.id for one in unwanted])
        await self._holds.check()
        if claims:
            suspects_due = await self._queue.suspects_due(claims, now=self._clock.now())
            self._isolation.check(steady, due=suspects_due)
            if suspects_due:
                self._lanes.note_death()


# FOLDED: What a worker has claimed: items that may run at once, and their followers.
class ClaimedWork(NamedTuple):
    """Claimed items, their followers by the ids of those, and the ids of those that the store knows to start."""

    items: Sequence[Claimed]
    followers: Mapping[int, Sequence[Claimed]]
    marked: frozenset[int]

    def together(self) -> Sequence[Claimed]:
        """Return the items, and then all followers."""
        return [*self.items, *chain.from_iterable(self.followers.values())]


def from_claim(items: Sequence[WorkItem], router: Router, limits: ClaimLimits) -> ClaimedWork:
    """Return what a claim with these limits brought."""
    claimed: list[Claimed] = []
    followers: dict[int, list[Claimed]] = {}
    for item in items:
        handler = router[item.handler]
        claimed.append(Claimed(item, handler, refusal=refusal(item, handler.schedule, suspect=limits.suspects)))
        if item.followers:
            followers[item.id] = [Claimed(one, handler) for one in item.followers]
    return ClaimedWork(claimed, followers, frozenset([item.id for item in items[: limits.starting]]))


def from_route(
    ids: Sequence[int | None],
    work: Sequence[NewWork],
    matches: Sequence[HandlerMatch],
    *,
    with_followers: Collection[HandlerName],
) -> ClaimedWork:
    """Return what was claimed as it was routed, for these handlers with followers."""
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


_STORE_PAUSE = timedelta(seconds=1)
MAX_UNHANDLED = 128
"""Deliveries that a worker without handlers routes together."""
_CANCEL_SECONDS = 1
"""How long a cancelled handler may take to end. One that takes longer is left behind with the process."""


class Worker:
    """One worker. It leases everything that it has claimed and not yet settled, in its own name."""

    def __init__(
        self,
        queue: WorkQueue,
        router: Router,
        clock: Clock,
        runner: AttemptRunner,
        *,
        worker: WorkerId,
        limits: WorkerLimits,
        rng: random.Random,
        memory: MemoryBudget | None = None,
        trial: RoutingTrial | None = None,
        watch: RoutingWatch | None = None,
        unhandled: Unhandled | None = None,
        started: Callable[[HandlerName], None] | None = None,
        store: str | None = None,
    ) -> None:
        """`memory` is what routing and the runner share. With `trial` the first deliveries are tried before.

        `watch` ends the process if routing blocks it. `unhandled` logs the events that no handler wants. `started`
        is called with the name of each handler that is about to be called. Commands in the log name `store`, if it
        is given.
        """
        self._started = started
        self._memory = memory or MemoryBudget()
        self._routing_waits = False
        """Routing waits until attempts have given memory back."""
        self._queue = queue
        self._router = router
        self._clock = clock
        self._runner = runner
        self._max_bytes = limits.max_bytes
        self._handlers: deque[Handler] = deque(router)
        self._longest_wait = limits.longest_wait or limits.lease
        self._schedules = ScheduledRuns(queue, router, clock, longest_wait=self._longest_wait)
        self._wake = asyncio.Event()
        self._leases = Leases(queue, clock, worker, limits.lease)
        drift = DriftLogger()
        self._reader = EventReader(drift)
        self._ready = ReadyQueues(
            router,
            limits.slots,
            clock,
            concurrency=limits.concurrency,
            most_claimed=queue.most_claimed,
            read=self._reader.read_singles,
            wake=self._start_ready,
        )
        self._holds = Holds(queue, router, clock)
        self._lanes = LaneRuns(self._ready, self._leases, clock)
        self._planner = RoutingPlanner(
            queue, router, self._ready, self._holds, drift=drift, trial=trial, watch=watch, unhandled=unhandled
        )
        if trial is not None:
            trial.begin(max([MAX_UNHANDLED, *(queue.most for queue in self._ready)]))
        self._settling = ResultSettler(
            queue, clock, self._leases, self._lanes, rng, self._ready, self._settled, store
        )
        self._running: dict[asyncio.Task[None], HandlerCall] = {}
        self._doubtful = DoubtfulWork(self._ready, self._leases, self._lanes)
        self._isolation = Isolation(limits.lease)
        self._enlisted = False
        self._checks = Checks(
            queue, clock, self._leases, self._lanes, self._ready, self._holds, self._isolation, limits.lease
        )
        self._looks = Looks(router)
        self._claimed_at = clock.now()
        self._starting = False
        """Ready calls start in the next turn of the event loop."""
        self._stopping = False
        self._cancelling = False

    def note_death(self) -> None:
        """Let items of lanes run one by one for a while, since this worker replaces one that died."""
        self._lanes.note_death()

    async def run(self, stop: asyncio.Event, *, grace: timedelta) -> int:
        """Work until `stop` is set. Return how many handlers could not be ended and still run.

        After `stop` nothing is claimed. Handlers that run may finish within `grace`. The others are cancelled
        without counting the attempt, and their leases are released.
        """
        renewing = asyncio.create_task(self._leases.run())
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
        self._looks.begin()
        doubtful = self._doubtful.take()
        try:
            await self._enlist()
            await self._leases.release(doubtful)
            await self._schedules.make_due()
            claims = self._claims()
            if not claims and self._handlers:
                await self._checks.check(claims)
                await first_of(stop.wait(), self._wake.wait(), self._clock.sleep(CHECK_EVERY))
                return
            found = await self._fetch(claims)
            if found is Found.SOME:
                await first_of(stop.wait(), self._wake.wait(), self._queue.changed(), self._clock.sleep(PAUSE))
            elif found is Found.NOTHING:
                await self._wait_for_work(claims, stop)
        except StoreError as exc:
            log.error("store_unavailable", extra={"reason": str(exc)})
            await first_of(stop.wait(), self._clock.sleep(_STORE_PAUSE))

    async def _enlist(self) -> None:
        """Show other workers that this one lives. Without that they would take its work."""
        if not self._enlisted:
            await self._queue.enlist(self._leases.worker)
            self._enlisted = True

    def _claims(self) -> Sequence[HandlerClaim]:
        """Return the handlers that more work can be claimed for, starting with another one each time."""
        if self._leases and self._isolation.blocks_others(self._clock.steady()):
            return ()
        if self._leases and self._bytes_left() <= 0:
            self._ready.complete_batches()  # otherwise batches that wait for more items would block all other work
            self._start_ready()
            return ()
        self._handlers.rotate(-1)  # no handler's backlog may keep the others waiting for ever
        return claims_for(self._handlers, self._ready, self._lanes)

    def _bytes_left(self) -> int:
        return self._max_bytes - self._leases.bytes

    async def _fetch(self, claims: Sequence[HandlerClaim]) -> Found:
        """Claim and route as much as the queues take."""
        steady = self._clock.steady()  # by a later moment the claim could take what this worker is still running
        await self._leases.renew_if_late()
        lease = self._leases.new_lease()
        await self._checks.check(claims)
        if self._isolation.may_start(steady, idle=not self._leases):
            suspect = ClaimLimits(1, self._max_bytes, starting=1, suspects=True)
            if not await self._claim(claims, suspect, lease, steady):
                self._isolation.found_none(steady)
        if self._isolation.blocks_others(steady):
            return Found.MORE
        queues = queues_of(claims, self._ready)
        all_may_claim = len(claims) == len(self._handlers) and all(queue.claimable > 0 for queue in queues)
        claimed, at_limit = await self._claim_due(claims, lease, steady)
        limit = max((queue.claimable for queue in queues), default=MAX_UNHANDLED)
        routed = await self._route(limit) if self._bytes_left() > 0 else Found.NOTHING
        # A claim takes all that is due, unless its limit ends it or large bodies do.
        ended_early = at_limit or self._bytes_left() < self._max_bytes // 2
        found = Found.MORE if claimed > 0 and ended_early else routed
        nothing_waits = claimed == 0 and all_may_claim and not (self._routing_waits or self._isolation.active)
        self._looks.left = not nothing_waits or found is Found.MORE or self._bytes_left() <= 0
        return found

    async def _claim_due(self, claims: Sequence[HandlerClaim], lease: Lease, steady: datetime) -> tuple[int, bool]:
        """Claim what is due. Return how many items that were, and whether a limit may have ended it."""
        self._claimed_at = self._clock.now()
        claimed, at_limit = 0, False
        for start, group in by_start(claims, self._router).items():
            if self._bytes_left() > 0:
                limits = limits_of(group, self._ready, self._bytes_left(), start=start)
                count = await self._claim(group, limits, lease, steady)
                claimed, at_limit = claimed + count, at_limit or count >= limits.limit
        return claimed, at_limit

    async def _claim(
        self, claims: Sequence[HandlerClaim], limits: ClaimLimits, lease: Lease, steady: datetime
    ) -> int:
        items = await self._queue.claim(claims, limits, lease=lease, now=self._clock.now(), steady=steady)
        self._add(from_claim(items, self._router, limits), lease)
        return len(items)

    async def _route(self, limit: int) -> Found:
        """Route new deliveries to the handlers that want them."""
        if limit <= 0:
            return Found.NOTHING
        batch = await self._queue.routing_batch(limit=limit, max_bytes=self._bytes_left())
        if not batch.deliveries:
            return Found.NOTHING
        planned = self._planner.costly_apart(batch)
        self._routing_waits = not self._memory.take_now(planned.memory)
        if self._routing_waits:
            return Found.NOTHING
        try:
            none_left = await self._route_planned(planned)
        finally:
            self._memory.give_back(planned.memory)
        is_all = (
            planned.batch is batch and len(batch.deliveries) < limit and self._bytes_left() >= self._max_bytes // 2
        )
        return Found.SOME if is_all and none_left else Found.MORE

    async def _route_planned(self, planned: PlannedBatch) -> bool:
        """Route deliveries, unless another worker was first. Return whether a claim could take no more of them."""
        matches = await self._planner.matches(planned)
        lease = self._leases.new_lease()  # not before: a trial may take longer than a lease
        work = self._planner.new_work(matches)
        ids = await self._queue.route(planned.batch, work, lease=lease, now=self._clock.now())
        if ids is None:
            return False  # another worker was first
        with_followers = {one.name for one in self._handlers if self._lanes.allows(one)}
        self._add(from_route(ids, work, matches, with_followers=with_followers), lease)
        return all(
            work_id is not None or self._ready.takes_whole_limit(self._router[one.handler])
            for work_id, one in zip(ids, work, strict=True)
        )

    async def _wait_for_work(self, claims: Sequence[HandlerClaim], stop: asyncio.Event) -> None:
        if self._settling.is_recording and self._looks.follow_results:
            self._looks.waits_for_results = True
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
        if self._checks.waits or looks_at_checks(claims, due):
            waits.append(self._clock.sleep(check))
        await first_of(*waits)

    # --- running

    def _add(self, work: ClaimedWork, lease: Lease) -> None:
        if not work.items:
            return
        together = work.together()
        # They wait here already if others had them meanwhile. The older claim holds nothing any more.
        if again := {one.item.id for one in together if one.item.id in self._leases}:
            self._lanes.lost(again)
            self._lanes.withdrawn(self._ready.withdraw(lambda one: one.item.id in again))
        self._leases.add(together, lease)
        for one in work.items:
            behind = work.followers.get(one.item.id)
            self._ready.add(self._lanes.begin(one, behind) if behind else one)
        self._start_ready(work.marked)
        # An event that takes much memory runs alone, and a batch may have started meanwhile without the others.
        self._leases.note_waiting(self._ready.in_incomplete_batches(work.marked))

    def _start_ready(self, marked: frozenset[int] = frozenset()) -> None:
        """Start every call that has a slot. The store knows already that the items in `marked` start now."""
        self._starting = False
        if self._doubtful.withdraw():
            self._wake.set()
        loop = asyncio.get_running_loop()
        while not self._stopping and (started := self._ready.start_next()):
            call, read = started
            for one in call:
                if one.run is not None:
                    one.run.started = one.item.id
                if one.item.id not in marked:
                    self._leases.note_start(one.item.id)
            task = loop.create_task(self._run(call, read))
            self._running[task] = call
            task.add_done_callback(self._ended)
        self._ready.note_moves()

    async def _run(self, call: HandlerCall, read: HandlerCall) -> None:
        """Run a call with the events in `read`, which are not kept until its results are recorded."""
        try:
            ended = await self._attempts(read)
        except asyncio.CancelledError:
            if self._cancelling:
                raise
            now = self._clock.now()
            ended = [broken(one, "the handler cancelled its own task", now) for one in call]
        for alike, end in by_end(call, ended):
            self._settling.submit(alike, end)
            self._lanes.ended(alike[0], end)  # nothing follows the items of a batch

    async def _attempts(self, call: HandlerCall) -> Sequence[Ended]:
        if call[0].refusal is not None:  # it is alone in its call
            return [refused(call[0], self._clock.now())]
        if call[0].handler.batch is not None:
            await self._leases.mark_batch_started([one.item.id for one in call])
        if self._started is not None:
            self._started(call[0].item.handler)
        emit_started(call, self._clock)
        return await self._runner.run_batch(self._reader.read_batch(call))

    def _ended(self, task: "asyncio.Task[None]") -> None:
        call = self._running.pop(task)
        self._ready.ended(call)
        if self._routing_waits:
            self._wake.set()
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("attempt_crashed", extra={"handler": call[0].item.handler}, exc_info=error)
            now = self._clock.now()
            for one in call:
                self._settling.submit([one], broken(one, "the attempt crashed; the worker's log says why", now))
            self._lanes.stop(call)
        if not self._starting:  # once for all the calls that end in one turn of the event loop
            self._starting = True
            asyncio.get_running_loop().call_soon(self._start_ready)

    def _settled(self, counts: Mapping[HandlerName, int], more: bool) -> None:
        self._ready.settled(counts)
        if self._looks.may_find_after(counts, more=more):
            self._wake.set()

    # --- stopping

    async def _finish(self, grace: timedelta) -> int:
        self._stopping = True
        await self._leases.clear_started()
        self._lanes.stop_all(off=[handler.name for handler in self._router])
        withdrawn = self._ready.withdraw(lambda _: True)
        self._lanes.withdrawn(withdrawn)
        await self._leases.release([*[one.item.id for one in withdrawn], *self._doubtful.take()])
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
        await self._leases.release_all()
        return sum(
            call[0].handler.runs_in is RunsIn.THREAD or not task.done() for task, call in interrupted.items()
        )

    async def _all_ended(self) -> None:
        while self._running:
            await asyncio.wait(self._running)
