"""What the store keeps, as plain frozen rows."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from receiver.core.types import (
    AppendOutcome,
    AttemptOutcome,
    DeliveryKey,
    DeliveryState,
    HandlerName,
    HandlerSwitch,
    Headers,
    Origin,
    Trigger,
    WorkerId,
    WorkState,
)


@dataclass(frozen=True, slots=True)
class Delivery:
    """One accepted request: its exact body, its headers with secrets masked, and what its envelope says."""

    key: DeliveryKey
    type: str
    job_id: str | None
    webhook_id: str | None
    success: bool | None
    received_at: datetime
    headers: Headers
    body: bytes
    origin: Origin = Origin.SENDER


@dataclass(frozen=True, slots=True)
class Receipt:
    """What became of an appended delivery. It exists only once that is durable."""

    key: DeliveryKey
    outcome: AppendOutcome


@dataclass(frozen=True, slots=True)
class Quarantined:
    """An authenticated request that was refused, or that contradicts a stored delivery."""

    received_at: datetime
    reason: str
    detail: str
    key: DeliveryKey | None
    headers: Headers
    body: bytes


@dataclass(frozen=True, slots=True)
class StoredDelivery:
    """A delivery as read back. `seq` grows in the order of arrival; `duplicates` counts later arrivals."""

    seq: int
    duplicates: int
    delivery: Delivery


@dataclass(frozen=True, slots=True)
class RoutingBatch:
    """Deliveries that no worker has routed, and the `seq` up to which all had been routed when they were read.

    `any_backfilled` tells whether there has ever been a delivery by a backfill in this store.
    """

    after: int
    deliveries: tuple[StoredDelivery, ...]
    any_backfilled: bool = False


@dataclass(frozen=True, slots=True)
class FeedPage:
    """The wanted ones of some deliveries, the oldest first, and the `seq` up to which all have been looked at."""

    deliveries: "tuple[DeliverySummary, ...]"
    through: int


@dataclass(frozen=True, slots=True)
class Lease:
    """A worker's timed claim. `until` is when any other worker may take the work over."""

    worker: WorkerId
    until: datetime


@dataclass(frozen=True, slots=True)
class WorkItem:
    """One delivery bound for one handler, claimed by a worker.

    `attempt` counts from 1 and includes this one; `uncounted` of the attempts before it do not count against the
    handler's schedule: they ended with their worker, or came before somebody asked for a retry. `deaths` is how
    many processes are known to have died while they ran it, workers and those of handlers alike.
    """

    id: int
    handler: HandlerName
    attempt: int
    uncounted: int
    deaths: int
    trigger: Trigger
    source: StoredDelivery


@dataclass(frozen=True, slots=True)
class HandlerClaim:
    """A handler whose work a worker claims, with the limits that hold for it over all workers.

    At most `concurrency` of its items run at one time; attempts begin `interval` apart. `most` is how many this
    claim may take.
    """

    handler: HandlerName
    concurrency: int | None = None
    interval: timedelta | None = None
    most: int = 2**31


@dataclass(frozen=True, slots=True)
class ClaimLimits:
    """How much to claim: items, and bytes of their bodies (one item always fits).

    The first `starting` of them begin at once, so that a worker that dies at once is known to have run them.
    `suspects` claims what may have killed its worker, and nothing else; without it only those are left out.
    """

    limit: int
    max_bytes: int
    starting: int = 0
    suspects: bool = False


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


@dataclass(frozen=True, slots=True)
class HeldItem:
    """A work item that waits for the pages of its job, `until` then at most."""

    id: int
    handler: HandlerName
    event_type: str
    job_id: str
    received_at: datetime
    until: datetime


@dataclass(frozen=True, slots=True)
class JobPages:
    """What is known of a job's pages: when the last one arrived, and one that is not handled yet."""

    last_at: datetime | None
    open_key: DeliveryKey | None


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
class Settlement:
    """The end of an attempt: the state its work item goes to, and when it is due again if that is WAITING."""

    work_id: int
    worker: WorkerId
    attempt: Attempt
    state: WorkState
    due_at: datetime
    holds_lane: bool = False
    """If it is dead now, its lane stands still until somebody decides."""
    died: bool = False
    """The process of its own in which it ran died of it."""


@dataclass(frozen=True, slots=True)
class DeliverySummary:
    """One line of a listing. `size` is that of the body, whether the store still has it or not."""

    seq: int
    key: DeliveryKey
    type: str
    job_id: str | None
    webhook_id: str | None
    success: bool | None
    received_at: datetime
    size: int
    duplicates: int
    state: DeliveryState
    origin: Origin = Origin.SENDER
    has_body: bool = True


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


@dataclass(frozen=True, slots=True)
class DeliveryDetail:
    """Everything that is known of one delivery. One whose body was pruned has no headers either."""

    summary: DeliverySummary
    headers: Headers
    body: bytes | None
    work: tuple[WorkSummary, ...]


@dataclass(frozen=True, slots=True)
class DeliveryFilter:
    """Which deliveries a report is about. What is None does not narrow; `type` and `handler` are globs.

    `handler` asks for a work item of such a handler, and `failed` for one, of that handler if it is given, that is
    dead or whose last attempt failed. `limit` takes the newest.
    `text` is read by `search.parse_query`; it needs the index of words (NoSearchIndex), and finds what is in there.
    """

    type: str | None = None
    job_id: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    state: DeliveryState | None = None
    limit: int | None = None
    handler: str | None = None
    failed: bool = False
    text: str | None = None


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
