"""An attempt at a work item: how it is claimed, how it ended, and its line in the log."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from receiver.core.claims import WorkItem
from receiver.core.rules import Failed, Refused, Result
from receiver.core.types import AttemptOutcome, WorkState
from receiver.core.work import Attempt
from receiver.events import Event
from receiver.routing import Handler

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Claimed:
    """A claimed work item and its handler. `event` is None until the body has been read.

    `refusal` says why the handler must not be called.
    """

    item: WorkItem
    handler: Handler
    event: Event | None = None
    refusal: str | None = None


@dataclass(frozen=True, slots=True)
class Ended:
    """How an attempt ended: the record for the store, and the result that decides what comes next.

    `value` is what the handler returned, `error` what it raised. All items of a batch have the same two.
    """

    attempt: Attempt
    result: Result
    value: object = None
    error: BaseException | None = None


class AttemptRunner(Protocol):
    """Makes attempts."""

    async def run_batch(self, batch: Sequence[Claimed]) -> Sequence[Ended]:
        """Call a handler once with all these work items; return the end of each, in order."""


def refused(claimed: Claimed, now: datetime) -> Ended:
    """Return the end of an attempt that is not made: it is refused, or too many workers died in those before."""
    item = claimed.item
    error = claimed.refusal or f"not run again: {item.deaths} workers died or lost their leases while it ran"
    return Ended(
        Attempt(item.attempt, item.trigger, now, now, AttemptOutcome.FAILED, error),
        Refused(),
    )


def broken(claimed: Claimed, error: str, now: datetime) -> Ended:
    """Return the end of an attempt that the worker itself could not finish."""
    item = claimed.item
    return Ended(Attempt(item.attempt, item.trigger, now, now, AttemptOutcome.FAILED, error), Failed())


def log_attempt(claimed: Claimed, ended: Ended, state: WorkState, due_at: datetime) -> None:
    """Log how an attempt ended and what comes next."""
    if state is WorkState.DONE and not log.isEnabledFor(logging.INFO):
        return  # a busy worker comes here thousands of times in a second
    attempt = ended.attempt
    fields = {**log_fields((claimed,)), "seconds": _seconds(attempt)}
    match state:
        case WorkState.DONE:
            log.info("attempt_succeeded", extra=fields)
        case WorkState.WAITING:
            log.warning("attempt_failed", extra={**fields, "error": attempt.error, "due_at": due_at.isoformat()})
        case _:
            log.error("work_dead", extra={**fields, "error": attempt.error, "traceback": attempt.traceback})


def log_fields(claimed: Sequence[Claimed]) -> dict[str, object]:
    """Return the fields that name one attempt in the log, or one call for a batch."""
    first = claimed[0].item
    if len(claimed) > 1:
        return {"handler": first.handler, "events": len(claimed)}
    delivery = first.source.delivery
    return {
        "handler": first.handler,
        "id": delivery.key,
        "type": delivery.type,
        "job_id": delivery.job_id,
        "attempt": first.attempt,
    }


def _seconds(attempt: Attempt) -> float:
    return (attempt.ended_at - (attempt.started_at or attempt.ended_at)).total_seconds()
