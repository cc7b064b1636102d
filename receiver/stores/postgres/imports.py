"""Import deliveries into a PostgreSQL store."""

from collections.abc import Iterator, Sequence

from receiver.core.batching import batches
from receiver.core.bulk import Imported
from receiver.core.deliveries import Delivery
from receiver.core.types import AppendOutcome, Origin
from receiver.stores.postgres.arrivals import Kept, insert_new, kept_all
from receiver.stores.postgres.connection import PostgresConnection
from receiver.stores.postgres.search import restore
from receiver.stores.postgres.statements import log as statements
from receiver.stores.sql.headers import headers_text

MAX_ITEMS = 100
MAX_BYTES = 1024 * 1024
"""Deliveries in one transaction and bytes of their bodies. Acks wait for its end."""


def parts(deliveries: Sequence[Imported]) -> Iterator[Sequence[Imported]]:
    """Split deliveries into the parts that one transaction each takes."""
    return batches(deliveries, MAX_ITEMS, MAX_BYTES, lambda one: len(one.delivery.body))


def import_deliveries(connection: PostgresConnection, deliveries: Sequence[Imported]) -> list[AppendOutcome]:
    """Store the new ones of these deliveries, inside a transaction of the caller."""
    connection.execute(statements.APPEND_TURN)
    if any(one.origin is Origin.BACKFILL for one in deliveries):
        connection.execute(statements.MARK_BACKFILLED)
    new = insert_new(connection, deliveries)
    outcomes: list[AppendOutcome | None] = []
    for one in deliveries:
        outcomes.append(AppendOutcome.ACCEPTED if one.delivery.key in new else None)
        new.discard(one.delivery.key)
    known = [one.delivery for one, outcome in zip(deliveries, outcomes, strict=True) if outcome is None]
    stored = dict(kept_all(connection, {one.key for one in known})) if known else {}
    compared = []
    for delivery in known:
        compared.append(_known(connection, stored[delivery.key], delivery))
        if compared[-1] is AppendOutcome.DUPLICATE:
            stored[delivery.key] = Kept(stored[delivery.key].seq, len(delivery.body), delivery.body)
    rest = iter(compared)
    return [next(rest) if outcome is None else outcome for outcome in outcomes]


def _known(connection: PostgresConnection, stored: Kept, delivery: Delivery) -> AppendOutcome:
    """Compare with the stored delivery of this key. If its body was pruned, restore it."""
    if not stored.is_like(delivery):
        return AppendOutcome.CONFLICT
    if stored.body is None:
        connection.execute(statements.RESTORE_BODY, (stored.seq, headers_text(delivery.headers), delivery.body))
        connection.execute(statements.RESTORED, (stored.seq,))
        restore(connection, stored.seq, delivery.body)
    return AppendOutcome.DUPLICATE
