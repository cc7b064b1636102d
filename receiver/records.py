"""What the store keeps, as plain frozen rows."""

from dataclasses import dataclass
from datetime import datetime

from receiver.types import (
    AttemptOutcome,
    DeliveryKey,
    DeliveryState,
    HandlerName,
    Headers,
    Outcome,
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


@dataclass(frozen=True, slots=True)
class Receipt:
    """What became of an appended delivery. It exists only once that is durable."""

    key: DeliveryKey
    outcome: Outcome


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
class Unrouted:
    """Deliveries that no worker has routed, and the `seq` up to which all had been routed when they were read."""

    after: int
    deliveries: tuple[StoredDelivery, ...]


@dataclass(frozen=True, slots=True)
class Lease:
    """A worker's timed claim. `until` is when any other worker may take the work over."""

    worker: WorkerId
    until: datetime


@dataclass(frozen=True, slots=True)
class WorkItem:
    """One delivery bound for one handler, claimed by a worker.

    `attempt` counts from 1 and includes this one. `lost` of the attempts before it ended with their worker, which
    says nothing of the handler: it may only have been there when another one killed the process.
    """

    id: int
    handler: HandlerName
    attempt: int
    lost: int
    trigger: Trigger
    source: StoredDelivery


@dataclass(frozen=True, slots=True)
class Wanted:
    """How much to claim: items, bytes of their bodies (one item always fits), and how often they were lost."""

    limit: int
    max_bytes: int
    lost: range = range(2**31)


@dataclass(frozen=True, slots=True)
class NewWork:
    """A work item to be made: the `seq` of its delivery and the handler it is bound for."""

    seq: int
    handler: HandlerName


LOST = "the worker died or lost its lease during the attempt"
"""The error of an attempt that nobody saw end."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One run of a work item, as recorded when it ended."""

    number: int
    trigger: Trigger
    started_at: datetime
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


@dataclass(frozen=True, slots=True)
class DeliverySummary:
    """One line of a listing."""

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


@dataclass(frozen=True, slots=True)
class WorkSummary:
    """One work item as a report shows it. `due_at` is set while it is WAITING."""

    handler: HandlerName
    state: WorkState
    attempts: int
    last_error: str | None
    due_at: datetime | None


@dataclass(frozen=True, slots=True)
class DeliveryDetail:
    """Everything that is known of one delivery."""

    summary: DeliverySummary
    headers: Headers
    body: bytes
    work: tuple[WorkSummary, ...]


@dataclass(frozen=True, slots=True)
class DeliveryFilter:
    """Which deliveries a report is about. What is None does not narrow; `type` is a glob."""

    type: str | None = None
    job_id: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    state: DeliveryState | None = None
    limit: int | None = None
