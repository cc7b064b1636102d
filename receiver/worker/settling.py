"""From the end of an attempt to its record in the store, and the signals about both."""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from receiver.core.claims import FollowerClaim, LaterWork, Settlement, WorkItem
from receiver.core.clock import Clock, time_limit
from receiver.core.ports.queue import ClaimQueue
from receiver.core.rules import Died, after_attempt
from receiver.core.types import AttemptOutcome, HandlerName, WorkState
from receiver.errors import StoreError, StoreRefused
from receiver.runtime.log_lines import LineRate, event_log
from receiver.signals.contracts import (
    AttemptFailed,
    AttemptStarted,
    AttemptSucceeded,
    WorkDead,
    WorkDone,
    attempt_failed,
    attempt_started,
    attempt_succeeded,
    work_dead,
    work_done,
)
from receiver.worker.attempts import MAX_ITEMS, Claimed, Ended, Raised, RaisedElsewhere, log_attempt
from receiver.worker.events import claim_on_memory
from receiver.worker.work_in_hand import WorkInHand

Failure = tuple[BaseException, Raised]
"""What a handler raised, and its description."""

MAX_EXCEPTIONS = 100
"""Signals that wait with their exceptions. The frames of each keep an event in memory."""


def emit_started(call: Iterable[Claimed], clock: Clock) -> None:
    """Emit that attempts are about to call their handler."""
    if attempt_started.receivers:
        now = clock.now()
        for one in call:
            attempt_started.emit(AttemptStarted(**_common(one.item, now)))


def emit_ended(item: WorkItem, settlement: Settlement, failure: Failure | None = None, *, recorded: bool) -> None:
    """Emit how an attempt ended, and that its work item is done or dead if it is.

    `failure` is what the handler raised. `recorded` is False when this worker had lost its lease on the item.
    """
    if not (attempt_succeeded.receivers or attempt_failed.receivers or work_done.receivers or work_dead.receivers):
        return  # reading a member of an enum would cost more than this
    exception = None if failure is None else _kept_exception(item, failure)
    succeeded = settlement.attempt.outcome is AttemptOutcome.SUCCEEDED
    if not (recorded and succeeded):
        _emit_failed(item, settlement, exception, recorded=recorded)
    elif attempt_succeeded.receivers:
        attempt = settlement.attempt
        common = _common(item, attempt.ended_at)
        attempt_succeeded.emit(AttemptSucceeded(**common, took=attempt.took, overdue=attempt.overdue))
    if recorded:
        _emit_final(item, settlement, exception)


def _kept_exception(item: WorkItem, failure: Failure) -> BaseException:
    """Return the exception, or a stand-in if its frames would keep too much in memory."""
    # Their local variables cannot be cleared: before Python 3.13 that ends a coroutine that is suspended in one of
    # them, such as the task of a connection pool that has handed the exception over.
    error, raised = failure
    waiting = max(attempt_failed.waiting, work_dead.waiting)
    if waiting >= MAX_EXCEPTIONS or claim_on_memory(item.source.delivery.body) > 0:
        return RaisedElsewhere(raised)
    return error


def _emit_failed(
    item: WorkItem, settlement: Settlement, exception: BaseException | None, *, recorded: bool
) -> None:
    if not attempt_failed.receivers:
        return
    attempt = settlement.attempt
    waits = recorded and settlement.state is WorkState.WAITING
    lost = "its lease ended before its result could be recorded"
    attempt_failed.emit(
        AttemptFailed(
            **_common(item, attempt.ended_at),
            outcome=attempt.outcome if recorded else AttemptOutcome.LOST,
            error=(attempt.error or "") if recorded else lost,
            exception=exception,
            retry_at=settlement.due_at if waits else None,
            took=attempt.took,
            overdue=attempt.overdue,
        )
    )


def _emit_final(item: WorkItem, settlement: Settlement, exception: BaseException | None) -> None:
    if settlement.state is WorkState.DONE and work_done.receivers:
        common = _common(item, settlement.attempt.ended_at)
        work_done.emit(WorkDone(**common, received_at=item.source.delivery.received_at))
    elif settlement.state is WorkState.DEAD and work_dead.receivers:
        common, error = _common(item, settlement.attempt.ended_at), settlement.attempt.error or ""
        received_at = item.source.delivery.received_at
        work_dead.emit(WorkDead(**common, received_at=received_at, error=error, exception=exception))


def _common(item: WorkItem, at: datetime) -> dict[str, Any]:
    delivery = item.source.delivery
    return {
        "work_id": item.id,
        "handler": item.handler,
        "id": delivery.key,
        "type": delivery.type,
        "job_id": delivery.job_id,
        "attempt": item.attempt,
        "trigger": item.trigger,
        "at": at,
    }


log = event_log(__name__)

_QUIET_TURNS = 4
"""A batch is written after so many turns of the event loop without a new result. Quick calls end meanwhile: without
these turns a busy worker's batch held a quarter of the results, and settling took twice the time."""
_ENOUGH = 128
_MANY = MAX_ITEMS // 2
"""A batch waits for no more results than these. Claimed calls go on while it is written."""
_GATHERING_SECONDS = 0.005
"""While calls wait for slots, a batch gathers `_ENOUGH` results, or for this long. Results of threads come a few at
a time, and settling each few took three times as long."""
_STORE_PAUSE = timedelta(seconds=1)


class _Result(NamedTuple):
    settlement: Settlement
    claimed: Sequence[Claimed]
    failure: Failure | None


class ResultSettler:
    """Records the results of attempts and the states that follow, many items in one transaction.

    `settled` is called with the number of items of each handler that are recorded, or whose leases were lost, and
    with whether the results may have made more work. Commands in the log name `store`.
    """

    def __init__(
        self,
        queue: ClaimQueue,
        clock: Clock,
        hand: WorkInHand,
        rng: random.Random,
        settled: Callable[[Mapping[HandlerName, int], bool], None],
        store: str | None = None,
    ) -> None:
        self._queue = queue
        self._clock = clock
        self._hand = hand
        self._rng = rng
        self._enough = asyncio.Event()
        self._gathers = False
        self._settled = settled
        self._store = store
        self._line_rate = LineRate(log, "attempts_succeeded")
        self._results: list[_Result] = []
        self._waiting = 0
        """Work items of the results that wait."""
        self._writer: asyncio.Task[None] | None = None

    @property
    def is_recording(self) -> bool:
        """Return whether results wait or are being written: then `settled` is called soon."""
        return self._writer is not None

    def submit(self, alike: Sequence[Claimed], ended: Ended) -> None:
        """Record soon how attempts of one call ended. Those of several items, at most MAX_ITEMS, all succeeded."""
        claimed = alike[0]
        item, attempt = claimed.item, ended.attempt
        state, due_at = after_attempt(
            ended.result,
            attempt=attempt.number - item.uncounted,
            schedule=claimed.handler.schedule,
            now=attempt.ended_at,
            rng=self._rng,
            deaths=item.deaths,
        )
        self._log(alike, ended, state, due_at)
        lane = claimed.handler.lane
        holds_lane = state is WorkState.DEAD and lane is not None and lane.holds_when_dead
        died = isinstance(ended.result, Died)
        settlement = Settlement(
            item.id,
            item.handler,
            self._hand.leases.worker,
            attempt,
            state,
            due_at,
            any(one.item.in_lane for one in alike),  # an older version of the handler may have had lanes
            holds_lane,
            died,
            tuple([LaterWork(item.source.seq, one.handler, attempt.ended_at + one.after) for one in ended.later])
            if ended.later
            else (),
            also=tuple([one.item.id for one in alike[1:]]) if len(alike) > 1 else (),
        )
        failure = (ended.error, ended.raised) if ended.error and ended.raised else None
        self._results.append(_Result(settlement, alike, failure))
        self._waiting += len(alike)
        if self._writer is None:
            self._writer = asyncio.create_task(self._write_all())
        elif self._gathers and (self._waiting >= _ENOUGH or not self._hand.ready.any_waits):
            self._enough.set()

    def _log(self, alike: Sequence[Claimed], ended: Ended, state: WorkState, due_at: datetime) -> None:
        lines = self._line_rate.allows(alike[0].item.handler, len(alike)) if state is WorkState.DONE else 1
        for one in alike[:lines]:
            log_attempt(one, ended, state, due_at, store=self._store)

    async def aclose(self) -> None:
        """Wait until everything submitted is recorded, but not for long."""
        try:
            async with time_limit(self._clock, _STORE_PAUSE):
                while self._writer is not None:
                    await asyncio.wait([self._writer])
        except TimeoutError:
            log.error("results_lost", extra={"count": len(self._hand.leases)})
        self._line_rate.flush()

    async def _write_all(self) -> None:
        try:
            while self._results:
                await self._gathered()
                await self._record(self._oldest())
        finally:
            self._writer = None

    def _oldest(self) -> list[_Result]:
        """Take the results that one transaction records."""
        if self._waiting <= MAX_ITEMS:
            oldest, self._results, self._waiting = self._results, [], 0
            return oldest
        items = taken = 0
        while items + (count := len(self._results[taken].claimed)) <= MAX_ITEMS:
            items += count
            taken += 1
        oldest, self._results = self._results[:taken], self._results[taken:]
        self._waiting -= items
        return oldest

    async def _gathered(self) -> None:
        """Return when no more results come for a while, or when a batch is full."""
        quiet = 0
        while quiet < _QUIET_TURNS and (count := self._waiting) < _MANY:
            await asyncio.sleep(0)
            quiet = quiet + 1 if self._waiting == count else 0
        if self._waiting < _ENOUGH and self._hand.ready.any_waits:
            self._enough.clear()
            timer = asyncio.get_running_loop().call_later(_GATHERING_SECONDS, self._enough.set)
            self._gathers = True
            try:
                await self._enough.wait()
            finally:
                self._gathers = False
                timer.cancel()

    async def _record(self, results: Sequence[_Result]) -> None:
        """Record results. While the store is away they wait here: otherwise the handlers would run again."""
        in_runs = [(one.settlement, one.claimed[0].run) for one in results]
        settlements, followers = self._hand.lanes.to_record(in_runs)
        recorded = await self._settle(settlements, tuple(followers))
        answers, counts = iter(recorded), Counter[HandlerName]()
        for settlement, claimed, failure in results:
            counts[settlement.handler] += len(claimed)
            for one, is_recorded in zip(claimed, answers, strict=False):
                self._hand.leases.drop_attempt(one.item.id, settlement.attempt.number)
                emit_ended(one.item, settlement, failure, recorded=is_recorded)
                if not is_recorded:
                    log.warning("lease_lost", extra={"work_id": one.item.id})
        done = all(recorded) and all(one.state is WorkState.DONE and not one.later for one in settlements)
        self._settled(counts, not done)
        if followers:
            await self._hand.follow_up(zip(followers, followers.values(), answers, strict=True))

    async def _settle(
        self, settlements: Sequence[Settlement], followers: Sequence[FollowerClaim]
    ) -> Sequence[bool]:
        count = len(settlements) + sum([len(one.also) for one in settlements])
        while True:
            lease = self._hand.leases.new_lease()  # for each try: it may be long after the one before
            try:
                return await self._queue.settle(settlements, [one._replace(lease=lease) for one in followers])
            except StoreError as exc:
                log.error("settle_retrying", extra={"count": count, "reason": str(exc)})
                await self._clock.sleep(_STORE_PAUSE)
            except StoreRefused as exc:  # the worker ends for this reason too
                log.error("results_not_recorded", extra={"count": count, "reason": str(exc)})
                break
            except Exception:
                # A bug of ours: when the leases end, the items run again, and the log says why.
                log.exception("results_not_recorded", extra={"count": count})
                break
        return [False] * (count + len(followers))
