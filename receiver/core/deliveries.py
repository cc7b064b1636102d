"""Deliveries: as they arrive, as they are stored, and as a listing shows them."""

from dataclasses import dataclass
from datetime import datetime

from receiver.core.types import AppendOutcome, DeliveryKey, DeliveryState, Headers, Origin
from receiver.core.work import WorkSummary


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
class StoredDelivery:
    """A delivery as read back. `seq` grows in the order of arrival; `duplicates` counts later arrivals."""

    seq: int
    duplicates: int
    delivery: Delivery


@dataclass(frozen=True, slots=True)
class FeedPage:
    """The wanted ones of some deliveries, the oldest first, and the `seq` up to which all have been looked at."""

    deliveries: "tuple[DeliverySummary, ...]"
    through: int


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
