"""Deliveries: received, quarantined, stored and listed."""

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from receiver.core.schedules import RUN_FAMILY
from receiver.core.types import AppendOutcome, DeliveryKey, DeliveryState, Globs, Headers, Origin
from receiver.errors import Malformed

if TYPE_CHECKING:  # a process that only stores deliveries knows no work
    from receiver.core.work import WorkSummary


class Delivery(NamedTuple):
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


class Receipt(NamedTuple):
    """The outcome of an appended delivery. It exists only once the write is durable."""

    key: DeliveryKey
    outcome: AppendOutcome


class StoredDelivery(NamedTuple):
    """A delivery in the store. `seq` grows in the order of arrival. `duplicates` counts later arrivals of it.

    `unreadable` says why the store could not read the body, which is then empty.
    """

    seq: int
    duplicates: int
    delivery: Delivery
    unreadable: str = ""


@dataclass(frozen=True, slots=True)
class FeedPage:
    """The next deliveries that match a filter, the oldest first. All up to the seq `through` were examined."""

    deliveries: "tuple[DeliverySummary, ...]"
    through: int


@dataclass(frozen=True, slots=True)
class DeliverySummary:
    """One line of a listing. `size` is the size of the body as it arrived, even if it was pruned."""

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
    """Everything known about one delivery. If its body was pruned, it has no headers either.

    `unreadable` says why the store could not read the body, which is then None.
    """

    summary: DeliverySummary
    headers: Headers
    body: bytes | None
    work: "tuple[WorkSummary, ...]"
    unreadable: str = ""


@dataclass(frozen=True, slots=True)
class DeliveryFilter:
    """Which deliveries a report is about. None does not narrow; `type` and `handler` are globs.

    `handler` selects deliveries with a work item of such a handler; several globs are a tuple. `failed` selects
    those with a work item, of that handler if one is given, that is dead or whose last attempt failed. `limit`
    takes the newest. `text` is a query for `subjects.parse_query`. It needs the index of words, and raises
    NoSearchIndex without it. Scheduled runs are not events of the service: they are selected only if `type` begins
    with `schedule.`, or with `with_runs`.
    """

    type: str | None = None
    job_id: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    state: DeliveryState | None = None
    limit: int | None = None
    handler: Globs | None = None
    failed: bool = False
    text: str | None = None
    with_runs: bool = False

    @property
    def selects_runs(self) -> bool:
        """Whether scheduled runs are selected too."""
        return self.with_runs or (self.type or "").startswith(RUN_FAMILY)


KINDS = (Malformed.code, AppendOutcome.CONFLICT.value)
"""The reasons for which a request can be in quarantine."""


@dataclass(frozen=True, slots=True)
class Quarantined:
    """An authenticated request that was refused, or that contradicts a stored delivery."""

    received_at: datetime
    reason: str
    detail: str
    key: DeliveryKey | None
    headers: Headers
    body: bytes


def conflict(
    delivery: Delivery, detail: str = "a delivery with this key and another body was stored before"
) -> Quarantined:
    """Return the request to keep for a delivery that contradicts the stored one with its key."""
    reason = AppendOutcome.CONFLICT.value
    return Quarantined(delivery.received_at, reason, detail, delivery.key, delivery.headers, delivery.body)


@dataclass(frozen=True, slots=True)
class QuarantinedSummary:
    """One line of a listing. `key` is the key of the stored delivery that the request contradicts."""

    id: int
    received_at: datetime
    reason: str
    detail: str
    key: DeliveryKey | None
    size: int


@dataclass(frozen=True, slots=True)
class QuarantineFilter:
    """Which requests in quarantine a listing is about. None does not narrow."""

    reason: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    limit: int | None = None


Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class LookEnd:
    """The oldest row that was examined, if older rows are left."""

    place: int
    """Its seq or its id, after which the next page continues."""
    received_at: datetime
    """When its delivery arrived."""


@dataclass(frozen=True, slots=True)
class ListingPage(Generic[Row]):
    """The newest rows that match a filter, found in bounded work."""

    rows: tuple[Row, ...]
    """The newest first, no more than the limit of the filter."""
    end: LookEnd | None = None
    """Where the search ended before the page was full. None if it is full, or if all older rows were examined."""
