"""Types and fields that this version does not know, in the newest deliveries."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from receiver.core.batching import BatchSize
from receiver.core.deliveries import DeliveryFilter, StoredDelivery
from receiver.core.ports.reports import Reports
from receiver.errors import Malformed
from receiver.events import parse_event
from receiver.events.drift import DriftCount, DriftCounter
from receiver.web.console.slow_work import SlowWork

EXAMINED = 500
"""Deliveries that are read, the newest; `receiver drift` reads all."""
MAX_EXAMINED_BODY = 1024 * 1024
"""Bytes of a body that is read. A longer one is counted as left out."""
_READ_AT_ONCE, _BYTES_AT_ONCE = 20, 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class CountedDrift:
    """What was found."""

    rows: Sequence[DriftCount]
    """Each unknown type or field, and where it came."""
    seen: int
    """Deliveries that were read."""
    left_out: int
    """Deliveries that are too long."""


async def count_drift(reports: Reports, slow: SlowWork) -> CountedDrift:
    """Read the newest deliveries."""
    counter = DriftCounter()
    part: list[StoredDelivery] = []
    size = BatchSize(_READ_AT_ONCE, _BYTES_AT_ONCE)
    seen = left_out = 0
    async for stored in reports.iter_deliveries(DeliveryFilter(limit=EXAMINED)):
        if len(stored.delivery.body) > MAX_EXAMINED_BODY:
            left_out += 1
            continue
        seen += 1
        part.append(stored)
        size.add(len(stored.delivery.body))
        if size.is_full:
            await slow.run(_count, counter, part)
            part, size = [], BatchSize(_READ_AT_ONCE, _BYTES_AT_ONCE)
    await slow.run(_count, counter, part)
    return CountedDrift(counter.counts(), seen, left_out)


def _count(counter: DriftCounter, part: Sequence[StoredDelivery]) -> None:
    for stored in part:
        with suppress(Malformed, ValueError, RecursionError):  # quarantine and the delivery's own page tell it
            counter.add(parse_event(stored.delivery.body), stored.delivery)
