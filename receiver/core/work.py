"""Work items: as they are made, their attempts, and how listings and health show them."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from receiver.core.types import AttemptOutcome, DeliveryKey, HandlerName, HandlerSwitch, Trigger, WorkState


@dataclass(frozen=True, slots=True)
class Hold:
    """When to look for the first time whether a held work item may run, and when it runs whatever is missing."""

    look_at: datetime
    until: datetime
    note: str | None = None
    """What it waits for, until the first look tells more."""


@dataclass(frozen=True, slots=True)
class NewWork:
    """A work item to be made: the `seq` of its delivery and the handler it is bound for.

    With `claim` the worker that makes it runs it, with `starts` at once; else it waits for any worker. `trigger`
    is why its first attempt runs.
    """

    seq: int
    handler: HandlerName
    claim: bool = True
    starts: bool = False
    lane: str | None = None
    hold: Hold | None = None
    trigger: Trigger = Trigger.DELIVERY


LOST = "the worker died or lost its lease during the attempt"
"""The error of an attempt that nobody saw end."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One run of a work item, as recorded when it ended."""

    number: int
    trigger: Trigger
    started_at: datetime | None
    """None for a lost one: nobody knows."""
    ended_at: datetime
    outcome: AttemptOutcome
    error: str | None = None
    traceback: str | None = None
    overdue: bool = False
    """It ran longer than its handler's time-out and could not be cancelled."""


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """A work item that ran without being in the store: its one attempt, and whether it is DONE or DEAD."""

    seq: int
    handler: HandlerName
    attempt: Attempt
    state: WorkState


@dataclass(frozen=True, slots=True)
class WorkSummary:
    """One work item as a listing shows it.

    `due_at` is when it runs again while it is WAITING, and when it is looked at again while it is HELD. `note`
    says what a held item waits for, or waited for. `holds_lane` is true of a DEAD one whose lane stands still
    until somebody decides.
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


@dataclass(frozen=True, slots=True)
class WorkDetail:
    """A work item and every attempt of it that has ended."""

    summary: WorkSummary
    attempts: tuple[Attempt, ...]


@dataclass(frozen=True, slots=True)
class WorkFilter:
    """Which work items a report or an action is about. `type` and `handler` are globs; moments are of arrival.

    `among` asks for any of several states, and `stuck`, of dead ones, for those only that hold their lane.
    """

    type: str | None = None
    job_id: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    handler: str | None = None
    state: WorkState | None = None
    limit: int | None = None
    among: tuple[WorkState, ...] = ()
    stuck: bool = False


@dataclass(frozen=True, slots=True)
class HandlerReport:
    """How one handler is doing. `latency` is the median of its latest attempts, None before the first."""

    name: HandlerName
    switch: HandlerSwitch
    counts: Mapping[WorkState, int]
    last_error: str | None
    latency: timedelta | None


@dataclass(frozen=True, slots=True)
class Backlog:
    """What is still to be done: deliveries nobody looked at, work items, and how long the oldest has been due.

    A delivery that nobody looked at is due since it arrived. `lost` is how many of the attempts that are kept ended
    with their worker or its lease, whoever's they were.
    """

    new: int
    waiting: int
    running: int
    oldest_waiting: timedelta | None
    paused: tuple[HandlerName, ...]
    lost: int
