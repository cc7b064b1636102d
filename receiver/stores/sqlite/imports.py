"""Import deliveries into a SQLite store."""

import sqlite3
from collections.abc import Sequence

from receiver.core.batching import first_batch
from receiver.core.bulk import Imported
from receiver.core.clock import to_micros
from receiver.core.deliveries import Delivery
from receiver.core.types import AppendOutcome, DeliveryKey, Origin
from receiver.stores.sql.compression import PLAIN
from receiver.stores.sql.headers import headers_text
from receiver.stores.sql.inserting import insert
from receiver.stores.sqlite import search
from receiver.stores.sqlite.delivery_keys import DeliveryKeys
from receiver.stores.sqlite.log import same_body
from receiver.stores.sqlite.statements import log as statements
from receiver.stores.sqlite.statements.body_files import TAKE_IN

MAX_ITEMS = 500
MAX_BYTES = 1024 * 1024
"""Deliveries in one transaction and bytes of their bodies. 100 deliveries take 7 % more time for each."""
_MAX_ITEMS_BESIDE_OTHERS = 25
_MAX_BYTES_BESIDE_OTHERS = 256 * 1024
"""The same if other processes write. Acks wait for its end: a millisecond."""


def next_part(deliveries: Sequence[Imported], *, beside_others: bool) -> Sequence[Imported]:
    """Return the first of these deliveries, those that one transaction takes."""
    items, size = (_MAX_ITEMS_BESIDE_OTHERS, _MAX_BYTES_BESIDE_OTHERS) if beside_others else (MAX_ITEMS, MAX_BYTES)
    return first_batch(deliveries, items, size, lambda one: len(one.delivery.body))


def import_deliveries(
    connection: sqlite3.Connection, keys: DeliveryKeys, deliveries: Sequence[Imported]
) -> list[AppendOutcome]:
    """Store the new ones of these deliveries, inside a transaction of the caller."""
    if any(one.origin is Origin.BACKFILL for one in deliveries):
        connection.execute(statements.MARK_BACKFILLED)
    stored = keys.find(connection, (one.delivery.key for one in deliveries))
    new: dict[DeliveryKey, tuple[int, Imported]] = {}
    again: list[bool] = []
    for one in deliveries:
        key = one.delivery.key
        again.append(key in stored)
        if not again[-1]:
            stored[key] = keys.last_seq + len(new) + 1
            new[key] = stored[key], one
    insert(connection, statements.import_deliveries, [_row(seq, one) for seq, one in new.values()])
    insert(connection, statements.insert_bodies, [_body(seq, one.delivery) for seq, one in new.values()])
    keys.add(connection, ((key, seq) for key, (seq, _) in new.items()))
    return [
        _known(connection, stored[one.delivery.key], one.delivery) if is_stored else AppendOutcome.ACCEPTED
        for one, is_stored in zip(deliveries, again, strict=True)
    ]


def _known(connection: sqlite3.Connection, seq: int, delivery: Delivery) -> AppendOutcome:
    """Compare with the stored delivery of this key. If its body was pruned or cannot be read, restore it."""
    is_same = same_body(connection, seq, delivery)
    if is_same is None:
        connection.execute(TAKE_IN, (delivery.body, seq))
        search.restore(connection, seq, delivery.body)
        return AppendOutcome.DUPLICATE
    if not is_same:
        return AppendOutcome.CONFLICT
    _, body, _ = connection.execute(statements.KEPT, (seq,)).fetchone()
    if body is None:
        insert(connection, statements.insert_bodies, [_body(seq, delivery)])
        connection.execute(statements.RESTORED, (seq,))
        search.restore(connection, seq, delivery.body)
    return AppendOutcome.DUPLICATE


def _row(seq: int, one: Imported) -> tuple[object, ...]:
    delivery = one.delivery
    return (
        *(seq, delivery.key, delivery.type, delivery.job_id, delivery.webhook_id, delivery.success),
        *(to_micros(delivery.received_at), len(delivery.body), one.duplicates, one.origin),
    )


def _body(seq: int, delivery: Delivery) -> tuple[object, ...]:
    return seq, headers_text(delivery.headers), delivery.body, PLAIN
