"""Requests in quarantine: kept, and listed."""

from dataclasses import dataclass
from datetime import datetime

from receiver.core.deliveries import Delivery
from receiver.core.types import AppendOutcome, DeliveryKey, Headers
from receiver.errors import Malformed

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
