"""From the end of an attempt to its record in the store."""

import random
from collections.abc import Callable, Sequence
from datetime import timedelta

from receiver.core.claims import Settlement, WorkItem
from receiver.core.clock import Clock, time_limit
from receiver.core.group_commit import GroupCommit
from receiver.core.line_rate import LineRate
from receiver.core.log_lines import event_log
from receiver.core.ports.queue import ClaimQueue
from receiver.core.rules import Died, RetryAt, decide, state_after
from receiver.core.types import HandlerName, WorkState
from receiver.errors import StoreError, StoreRefused
from receiver.worker.attempts import Claimed, Ended, log_attempt
from receiver.worker.emit import Failure, emit_ended
from receiver.worker.leases import Leases

log = event_log(__name__)

MAX_ITEMS = 1_000
_STORE_PAUSE = timedelta(seconds=1)

_Result = tuple[Settlement, WorkItem, Failure | None]


class ResultSettler:
    """Decides the next state of each work item and records it, many items in one transaction.

    `settled` is called with the handlers of the items that this worker has finished with: their results are
    recorded, or their leases were lost. `store` is the address of the store for the commands in the log.
    """

    def __init__(
        self,
        queue: ClaimQueue,
        clock: Clock,
        leases: Leases,
        rng: random.Random,
        settled: Callable[[Sequence[HandlerName]], None],
        store: str | None = None,
    ) -> None:
        self._queue = queue
        self._clock = clock
        self._leases = leases
        self._rng = rng
        self._settled = settled
        self._store = store
        self._line_rate = LineRate(log, "attempts_succeeded")
        self._results: GroupCommit[_Result, bool] = GroupCommit(self._record, max_items=MAX_ITEMS)

    def submit(self, claimed: Claimed, ended: Ended) -> None:
        """Record the end of an attempt soon."""
        item, attempt = claimed.item, ended.attempt
        decision = decide(
            ended.result,
            attempt=attempt.number - item.uncounted,
            schedule=claimed.handler.schedule,
            now=attempt.ended_at,
            rng=self._rng,
            deaths=item.deaths,
        )
        state = state_after(decision)
        due_at = decision.due_at if isinstance(decision, RetryAt) else attempt.ended_at
        if state is not WorkState.DONE or self._line_rate.allows(item.handler):
            log_attempt(claimed, ended, state, due_at, store=self._store)
        lane = claimed.handler.lane
        holds_lane = state is WorkState.DEAD and lane is not None and lane.holds_when_dead
        died = isinstance(ended.result, Died)
        settlement = Settlement(item.id, self._leases.worker, attempt, state, due_at, holds_lane, died)
        failure = (ended.error, ended.raised) if ended.error and ended.raised else None
        self._results.submit((settlement, item, failure))

    async def aclose(self) -> None:
        """Wait a short time until everything submitted is recorded."""
        try:
            async with time_limit(self._clock, _STORE_PAUSE):
                await self._results.aclose()
        except TimeoutError:
            log.error("results_lost", extra={"count": len(self._leases)})
        self._line_rate.flush()

    async def _record(self, results: list[_Result]) -> Sequence[bool]:
        """Record results. While the store is away they wait here: without them the handlers would run again."""
        settlements = [settlement for settlement, _, _ in results]
        while True:
            try:
                settled = await self._queue.settle(settlements)
                break
            except StoreError as exc:
                log.error("settle_retrying", extra={"count": len(settlements), "reason": str(exc)})
                await self._clock.sleep(_STORE_PAUSE)
            except StoreRefused as exc:  # the worker ends for that too
                log.error("results_not_recorded", extra={"count": len(settlements), "reason": str(exc)})
                settled = [False] * len(settlements)
                break
            except Exception:
                # A bug of ours. When the leases end, the items run again, and the log says why.
                log.exception("results_not_recorded", extra={"count": len(settlements)})
                settled = [False] * len(settlements)
                break
        for (settlement, item, failure), done in zip(results, settled, strict=True):
            self._leases.drop_attempt(item.id, settlement.attempt.number)
            emit_ended(item, settlement, failure, recorded=done)
            if not done:
                log.warning("lease_lost", extra={"work_id": item.id})
        self._settled([item.handler for _, item, _ in results])
        return settled
