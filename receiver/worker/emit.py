"""The signals of the worker: attempts that start, and ends of attempts that the store has recorded."""

from collections.abc import Iterable
from datetime import datetime
from typing import TypedDict

from receiver.core.claims import Settlement, WorkItem
from receiver.core.clock import Clock
from receiver.core.types import AttemptOutcome, DeliveryKey, HandlerName, Trigger, WorkState
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
from receiver.worker.attempts import Claimed
from receiver.worker.failures import Raised, RaisedElsewhere
from receiver.worker.memory_budget import claim_on_memory

Failure = tuple[BaseException, Raised]
"""What a handler raised, and its description."""

MAX_EXCEPTIONS = 100
"""Records that wait with their exceptions: the frames of each keep an event in memory."""


class _Common(TypedDict):
    work_id: int
    handler: HandlerName
    id: DeliveryKey
    type: str
    job_id: str | None
    attempt: int
    trigger: Trigger
    at: datetime


def emit_started(call: Iterable[Claimed], clock: Clock) -> None:
    """Emit that attempts are about to call their handler."""
    if attempt_started.receivers:
        now = clock.now()
        for one in call:
            attempt_started.emit(AttemptStarted(**_common(one.item, now)))


def emit_ended(item: WorkItem, settlement: Settlement, failure: Failure | None = None, *, recorded: bool) -> None:
    """Emit how an attempt ended, and whether its work item is done or dead.

    `failure` is what the handler raised. `recorded` is False when this worker had lost its lease on the item.
    """
    if not (attempt_succeeded.receivers or attempt_failed.receivers or work_done.receivers or work_dead.receivers):
        return  # nobody watches, and asking for an enum's member costs more than this
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
    """Return the exception, or one that stands for it if its frames would keep too much in memory."""
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


def _common(item: WorkItem, at: datetime) -> _Common:
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
