"""From rows of the database to records."""

import json
from typing import Any

from receiver.clock import from_micros
from receiver.records import Delivery, DeliverySummary, StoredDelivery, WorkSummary
from receiver.types import DeliveryState, Headers, WorkState


def headers_of(text: str) -> Headers:
    """Return headers as they were before they became JSON."""
    return tuple((name, value) for name, value in json.loads(text))


def stored_delivery(row: tuple[Any, ...]) -> StoredDelivery:
    """Read the columns that `statements` selects for a delivery with its body."""
    seq, key, kind, job_id, webhook_id, success, received_at, duplicates, headers, body = row
    return StoredDelivery(
        seq=seq,
        duplicates=duplicates,
        delivery=Delivery(
            key=key,
            type=kind,
            job_id=job_id,
            webhook_id=webhook_id,
            success=_flag(success),
            received_at=from_micros(received_at),
            headers=headers_of(headers),
            body=body,
        ),
    )


def delivery_summary(row: tuple[Any, ...]) -> DeliverySummary:
    """Read the columns that `statements` selects for a listing."""
    seq, key, kind, job_id, webhook_id, success, received_at, size, duplicates, state = row
    return DeliverySummary(
        seq=seq,
        key=key,
        type=kind,
        job_id=job_id,
        webhook_id=webhook_id,
        success=_flag(success),
        received_at=from_micros(received_at),
        size=size,
        duplicates=duplicates,
        state=DeliveryState(state),
    )


def work_summary(row: tuple[Any, ...]) -> WorkSummary:
    """Read the columns that `statements` selects for a work item."""
    handler, state, attempts, last_error, due_at = row
    waiting = state == WorkState.WAITING
    return WorkSummary(handler, WorkState(state), attempts, last_error, from_micros(due_at) if waiting else None)


def _flag(value: int | None) -> bool | None:
    return None if value is None else bool(value)
