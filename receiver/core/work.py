"""Work items: made, attempted, listed, and grouped when dead; and how handlers are doing."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

from receiver.core.text import literal, shortened
from receiver.core.types import AttemptOutcome, DeliveryKey, Globs, HandlerName, HandlerSwitch, Trigger, WorkState


@dataclass(frozen=True, slots=True)
class Hold:
    """When to check first whether a held work item may run, and when it runs in any case."""

    check_at: datetime
    until: datetime
    note: str | None = None
    """What it waits for, until the first check says more."""


class NewWork(NamedTuple):
    """A work item to make: the `seq` of its delivery, and its handler.

    With `claim` the worker that makes it also runs it; otherwise any worker may claim it. With `starts` it is
    recorded as started at once. `trigger` is the reason for its first attempt. An item that begins as WAITING is
    due at `due_at`, or at once without it.
    """

    seq: int
    handler: HandlerName
    claim: bool = True
    starts: bool = False
    lane: str | None = None
    hold: Hold | None = None
    trigger: Trigger = Trigger.DELIVERY
    due_at: datetime | None = None


NO_REASON = "no reason"
"""Stands for the error of an item without one."""

LATENCY_ITEMS = 100
"""The latency of a handler is that of this many of its newest ended work items."""

LOST = "the worker died or lost its lease during the attempt"
"""The error of an attempt whose end was not recorded."""


class Attempt(NamedTuple):
    """One run of a work item, recorded at its end."""

    number: int
    trigger: Trigger
    started_at: datetime | None
    """None for a lost attempt: the store does not know."""
    ended_at: datetime
    outcome: AttemptOutcome
    error: str | None = None
    traceback: str | None = None
    overdue: bool = False
    """It ran longer than its handler's time-out and could not be cancelled."""

    @property
    def took(self) -> timedelta:
        """How long it ran, negative if the clock was set back meanwhile; zero if its start is unknown."""
        return self.ended_at - (self.started_at or self.ended_at)


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """A work item that ran outside the workers: its one attempt, and its state, DONE or DEAD."""

    seq: int
    handler: HandlerName
    attempt: Attempt
    state: WorkState


@dataclass(frozen=True, slots=True)
class LaneHead:
    """The item at the head of a lane, for which the others of the lane wait.

    `ended_at` is when its last attempt ended; None if none has ended.
    """

    id: int
    state: WorkState
    ended_at: datetime | None


@dataclass(frozen=True, slots=True)
class WorkSummary:
    """One work item as a listing shows it.

    `due_at` is when a WAITING item may run, and when a HELD item is checked next. `note` says what a held item
    waits for, or waited for. `holds_lane` is true for a DEAD item that stops its lane until an operator decides.
    `behind` is the item for which a QUEUED item waits in its lane.
    """

    id: int
    key: DeliveryKey
    type: str
    job_id: str | None
    received_at: datetime
    handler: HandlerName
    state: WorkState
    attempts: int
    lane: str | None
    due_at: datetime | None
    last_error: str | None
    note: str | None
    holds_lane: bool = False
    behind: LaneHead | None = None


@dataclass(frozen=True, slots=True)
class WorkDetail:
    """A work item and its ended attempts."""

    summary: WorkSummary
    attempts: tuple[Attempt, ...]


@dataclass(frozen=True, slots=True)
class WorkFilter:
    """Which work items a report or an action is about. `type` and `handler` are globs, several handlers a tuple.

    Moments are those of arrival. `among` selects any of several states. With `stuck`, dead items are selected only
    if they stop their lane.
    """

    type: str | None = None
    job_id: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    handler: Globs | None = None
    state: WorkState | None = None
    limit: int | None = None
    among: tuple[WorkState, ...] = ()
    stuck: bool = False
    error: str | None = None
    """A glob for the last error, or else the note, or else `NO_REASON`."""
    action: int | None = None
    """The recorded action that last decided about the item."""
    untried: bool = False
    """Only items that were not attempted since they were made or retried, without heads of lanes."""


@dataclass(frozen=True, slots=True)
class HandlerReport:
    """How one handler is doing. `latency` is the median of its latest attempts, None before the first.

    `last_error` is that of its newest delivery with an error, None without one. `schedule` is when it runs by
    itself, as written in the code, and `next_run` is the next of these runs.
    """

    name: HandlerName
    switch: HandlerSwitch
    counts: Mapping[WorkState, int]
    last_error: str | None
    latency: timedelta | None
    failed_id: int | None = None
    """The work item that has the last error."""
    schedule: str | None = None
    next_run: datetime | None = None


@dataclass(frozen=True, slots=True)
class Backlog:
    """The work that is left: deliveries that no worker has routed, work items, and how long the oldest is due.

    A delivery that is not routed is due since its arrival. `lost` counts the stored attempts of all handlers that
    were lost with their worker or its lease. `next_runs` are the moments at which handlers run by themselves.
    """

    new: int
    waiting: int
    running: int
    oldest_waiting: timedelta | None
    paused: tuple[HandlerName, ...]
    lost: int
    next_runs: Mapping[HandlerName, datetime] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StoreFacts:
    """How large a store is, and whether its server keeps up. Facts about a server are None in other stores.

    `dead_rows` counts outdated versions of rows that are not vacuumed yet. They stay while an older snapshot is in
    use; `oldest_snapshot` is the age of the oldest. `standby_lag` is how far the slowest standby lags, None without
    one.
    """

    bytes: int
    dead_rows: int | None = None
    oldest_snapshot: timedelta | None = None
    standby_lag: timedelta | None = None
    free: int | None = None
    """Free bytes on the store's disk; None where this program cannot see it."""


_NUMBER = re.compile(r"([0-9]+)")
EXAMINED = 2_000
"""How many dead items are examined, the newest."""
_ERROR_WIDTH = 160


@dataclass(slots=True)
class DeadGroup:
    """Dead items of one handler with the same error."""

    handler: HandlerName
    error: str
    first_at: datetime
    """When the delivery of the oldest one arrived."""
    last_at: datetime
    """When the delivery of the newest one arrived."""
    kind: str
    """The error without its numbers."""
    pattern: str
    """A glob that the errors of the group match: it allows other numbers."""
    ids: list[int] = field(default_factory=list)
    types: set[str] = field(default_factory=set)
    holds_lanes: bool = False
    """Whether one of them holds its lane: burying it changes something."""

    @property
    def count(self) -> int:
        """The number of items."""
        return len(self.ids)


def grouped(items: Iterable[WorkSummary]) -> list[DeadGroup]:
    """Return the groups of dead items, the largest first."""
    groups: dict[tuple[str, str], DeadGroup] = {}
    for one in items:
        whole = one.last_error or one.note or NO_REASON
        error = shortened(whole.partition("\n")[0], _ERROR_WIDTH)
        kind = _NUMBER.sub("#", error)  # `row 17` and `row 18` are one group
        group = groups.get((one.handler, kind))
        if group is None:
            group = DeadGroup(one.handler, error, one.received_at, one.received_at, kind, _pattern(whole))
            groups[one.handler, kind] = group
        group.first_at = min(group.first_at, one.received_at)
        group.last_at = max(group.last_at, one.received_at)
        group.ids.append(one.id)
        group.types.add(one.type)
        group.holds_lanes |= one.holds_lane
    return sorted(groups.values(), key=lambda group: (-group.count, group.handler, group.error))


def _pattern(error: str) -> str:
    """Return a glob for errors that differ only in their numbers, or beyond the width of a group's error."""
    line, end, _ = error.partition("\n")
    is_cut = end or len(line) >= _ERROR_WIDTH
    parts = enumerate(_NUMBER.split(line[: _ERROR_WIDTH - 1]))  # a text and a number in turn
    return "".join("[0-9]*" if at % 2 else literal(part) for at, part in parts) + ("*" if is_cut else "")
