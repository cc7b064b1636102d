"""An attempt at a work item: how it is claimed, how it ended, and its line in the log."""

import logging
import shlex
from collections import deque
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple, Protocol

from receiver.core.claims import WorkItem
from receiver.core.durations import in_words
from receiver.core.log_lines import event_log
from receiver.core.rules import Failed, Refused, Result
from receiver.core.types import AttemptOutcome, WorkState
from receiver.core.work import Attempt
from receiver.events import Event
from receiver.routing import Handler
from receiver.worker.failures import Raised
from receiver.worker.later import LaterCall

log = event_log(__name__)

MAX_ITEMS = 1_000
"""Ends that are recorded in one transaction. While it writes, no delivery can be stored."""


class Claimed(NamedTuple):
    """A claimed work item and its handler. `event` is None until the body has been read.

    `refusal` says why the handler must not be called. `run` is for items that run one after the other.
    """

    item: WorkItem
    handler: Handler
    event: Event | None = None
    refusal: str | None = None
    run: "LaneRun | None" = None


class LaneRun:
    """A claimed item and its followers, of which each runs once the one before has succeeded.

    `head` is the item that the store has under a lease. `begun` are the ids of those that are ready, or run, or
    wait for their record, in order, and `waiting` are the followers behind them. `started` is the last one that has
    got a slot.
    """

    __slots__ = ("begun", "head", "started", "waiting")

    def __init__(self, head: int, followers: Iterable[Claimed]) -> None:
        self.head = head
        self.begun = deque([head])
        self.waiting = deque([one._replace(run=self) for one in followers])
        self.started: int | None = None

    def begin_next(self) -> Claimed | None:
        """Take the next follower, None if there is none."""
        if not self.waiting:
            return None
        following = self.waiting.popleft()
        self.begun.append(following.item.id)
        return following


class Ended(NamedTuple):
    """How an attempt ended: the record for the store, and the result that decides what comes next.

    `value` is what the handler returned, `error` what it raised. All items of a batch have the same two. `raised`
    describes the error; only the first item of a batch has its frames, so that they are logged once. `later` is
    what the handler asked for with `ctx.later`, if the attempt succeeded.
    """

    attempt: Attempt
    result: Result
    value: object = None
    error: BaseException | None = None
    raised: Raised | None = None
    later: tuple[LaterCall, ...] = ()


class AttemptRunner(Protocol):
    """Makes attempts."""

    async def run_batch(self, batch: Sequence[Claimed]) -> Sequence[Ended]:
        """Call a handler once with all these work items; return the end of each, in order.

        Those that ended in the same success may have the very same end.
        """


def by_end(call: Sequence[Claimed], ends: Sequence[Ended]) -> Iterable[tuple[Sequence[Claimed], Ended]]:
    """Return the items of a call that have the very same end together, at most MAX_ITEMS, and that end."""
    if len(call) == 1:
        return [(call, ends[0])]
    alike: dict[int, tuple[list[Claimed], Ended]] = {}
    for one, end in zip(call, ends, strict=True):
        alike.setdefault(id(end), ([], end))[0].append(one)
    return [
        (items[at : at + MAX_ITEMS], end) for items, end in alike.values() for at in range(0, len(items), MAX_ITEMS)
    ]


def refused(claimed: Claimed, now: datetime) -> Ended:
    """Return the end of an attempt that is refused, and not made."""
    item = claimed.item
    return Ended(
        Attempt(item.attempt, item.trigger, now, now, AttemptOutcome.FAILED, claimed.refusal),
        Refused(),
    )


def broken(claimed: Claimed, error: str, now: datetime) -> Ended:
    """Return the end of an attempt that the worker itself could not finish."""
    item = claimed.item
    return Ended(Attempt(item.attempt, item.trigger, now, now, AttemptOutcome.FAILED, error), Failed())


def log_attempt(
    claimed: Claimed, ended: Ended, state: WorkState, due_at: datetime, *, store: str | None = None
) -> None:
    """Log how an attempt ended and what comes next. A command in the line names `store`, if that is given."""
    if state is WorkState.DONE and not log.isEnabledFor(logging.INFO):
        return  # a busy worker comes here thousands of times in a second
    fields = {**log_fields((claimed,)), "seconds": ended.attempt.took.total_seconds()}
    if claimed.refusal is not None:
        fields["attempt"] = claimed.item.attempt - 1  # the last one that ran: this one was never made
    match state:
        case WorkState.DONE:
            if ended.later:
                fields["later"] = ", ".join(f"{one.handler} in {in_words(one.after)}" for one in ended.later)
            log.info("attempt_succeeded", extra=fields)
        case WorkState.WAITING:
            log.warning(
                "attempt_failed", extra={**fields, **_failure(claimed, ended, store), "due_at": due_at.isoformat()}
            )
        case _:
            lane = claimed.handler.lane
            if claimed.item.in_lane and lane is not None and lane.holds_when_dead:
                fields["stops_lane"] = True
            log.error("work_dead", extra={**fields, **_failure(claimed, ended, store)})


def _failure(claimed: Claimed, ended: Ended, store: str | None) -> dict[str, object]:
    """Return the fields of a failure. One that the handler decided on purpose is told in one line."""
    raised, work_id = ended.raised, claimed.item.id
    fields: dict[str, object] = {"work_id": work_id, "error": ended.attempt.error, "frames": ()}
    if raised is not None:
        fields["traceback"] = raised.traceback
    if raised is None or not raised.deliberate:
        fields["frames"] = () if raised is None else raised.frames
        flag = "" if store is None else f" --store {shlex.quote(store)}"
        fields["advice"] = f"receiver work-items show {work_id}{flag}"
    return fields


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
