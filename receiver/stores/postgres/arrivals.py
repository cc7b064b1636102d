"""Insert deliveries, and compare those whose keys are stored."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from receiver.core.bulk import Imported
from receiver.core.clock import to_micros
from receiver.core.deliveries import Delivery, Quarantined, Receipt, conflict
from receiver.core.types import AppendOutcome, DeliveryKey
from receiver.errors import StoreError
from receiver.stores.postgres.statements import log as statements
from receiver.stores.sql.columns_of_bodies import decoded, headers_text
from receiver.stores.sql.connection import SqlConnection, Values
from receiver.stores.sql.statements import log as shared


@dataclass(frozen=True, slots=True)
class Kept:
    """A stored delivery, as far as another one is compared with it. Its body is None if it was pruned."""

    seq: int
    size: int
    body: bytes | None

    def is_like(self, delivery: Delivery) -> bool:
        """Tell whether a delivery has this body; if it was pruned, compare the sizes only."""
        return self.size == len(delivery.body) and self.body in (None, delivery.body)


def insert_new(connection: SqlConnection, deliveries: Sequence[Imported]) -> set[DeliveryKey]:
    """Store those whose keys are not stored, of several with one key the first; return the keys of the new ones."""
    if not deliveries:
        return set()
    return {key for (key,) in connection.execute(statements.APPEND, _columns(deliveries))}


def kept(connection: SqlConnection, keys: Collection[DeliveryKey]) -> Mapping[DeliveryKey, Kept]:
    """Return those of the keys that are stored, and keep them so until the transaction ends."""
    rows = connection.execute(statements.KEPT, {"keys": sorted(keys)})
    return {
        key: Kept(seq, size, None if body is None else decoded(body, coding, key=key))
        for key, seq, size, body, coding in rows
    }


def kept_all(connection: SqlConnection, keys: Collection[DeliveryKey]) -> Mapping[DeliveryKey, Kept]:
    """Do the same for keys that were stored a moment ago. Raises StoreError if one was pruned since."""
    stored = kept(connection, keys)
    if pruned := sorted(set(keys) - stored.keys()):
        raise StoreError(f"{pruned[0]} was pruned at the moment when it came again")
    return stored


def count_again(
    connection: SqlConnection, stored: Mapping[DeliveryKey, Kept], deliveries: Sequence[Delivery]
) -> list[Receipt]:
    """Count duplicates on stored deliveries. Those with other bodies also go into quarantine."""
    times = Counter(stored[one.key].seq for one in deliveries)
    seqs = sorted(times)
    values: Values = {"seqs": seqs, "times": [times[seq] for seq in seqs]}
    connection.execute(statements.COUNT_DUPLICATES, values)
    receipts = []
    for one in deliveries:
        outcome = AppendOutcome.DUPLICATE if stored[one.key].is_like(one) else AppendOutcome.CONFLICT
        if outcome is AppendOutcome.CONFLICT:
            quarantine(connection, conflict(one))
        receipts.append(Receipt(one.key, outcome))
    return receipts


def quarantine(connection: SqlConnection, item: Quarantined) -> None:
    """Keep a request in quarantine."""
    row = (to_micros(item.received_at), item.reason, item.detail, item.key, headers_text(item.headers), item.body)
    connection.execute(shared.QUARANTINE, row)


def _columns(deliveries: Sequence[Imported]) -> Values:
    plain = [one.delivery for one in deliveries]
    return {
        "keys": [one.key for one in plain],
        "types": [one.type for one in plain],
        "job_ids": [one.job_id for one in plain],
        "webhook_ids": [one.webhook_id for one in plain],
        "successes": [one.success for one in plain],
        "moments": [to_micros(one.received_at) for one in plain],
        "sizes": [len(one.body) for one in plain],
        "duplicates": [one.duplicates for one in deliveries],
        "origins": [one.origin for one in deliveries],
        "headers": [headers_text(one.headers) for one in plain],
        "bodies": [one.body for one in plain],
    }
