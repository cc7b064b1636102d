"""The web process's side of a SQLite store: many appends, one transaction, one sync."""

import asyncio
import sqlite3
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from pydantic_core import to_json

from receiver.core.clock import to_micros
from receiver.core.deliveries import Delivery, Receipt
from receiver.core.group_commit import GroupCommit
from receiver.core.quarantine import Quarantined
from receiver.core.types import AppendOutcome, Headers
from receiver.errors import StoreError
from receiver.stores.sqlite import statements
from receiver.stores.sqlite.checkpoints import Checkpointer
from receiver.stores.sqlite.compression import decoded
from receiver.stores.sqlite.database import Database, same_file

MAX_ITEMS = 512
"""Deliveries in one transaction; their parameters stay far below SQLite's limit of 32,766."""
MAX_BYTES = 8 * 1024 * 1024
"""Bytes in one transaction, so that small deliveries do not wait for a pile of large ones."""

_Item = Delivery | Quarantined | datetime


class SqliteLog:
    """A DeliveryLog. A resolved future means that SQLite has synced the write-ahead log to the disk."""

    def __init__(self, database: Database, path: Path, checkpointer: Checkpointer) -> None:
        self._database = database
        self._path = path
        self._checkpointer = checkpointer
        self._opened_as = path.stat()
        self._commits: GroupCommit[_Item, Receipt | None] = GroupCommit(
            self._write, max_items=MAX_ITEMS, max_bytes=MAX_BYTES, size_of=_size_of
        )

    def append(self, delivery: Delivery) -> asyncio.Future[Receipt]:
        """Store a delivery unless its key is stored."""
        return self._commits.submit(delivery)  # type: ignore[return-value]  # a Delivery results in a Receipt

    def quarantine(self, request: Quarantined) -> asyncio.Future[None]:
        """Keep a refused request."""
        return self._commits.submit(request)  # type: ignore[return-value]

    def probe(self, now: datetime) -> asyncio.Future[None]:
        """Write a mark."""
        return self._commits.submit(now)  # type: ignore[return-value]

    async def aclose(self) -> None:
        """Return when everything submitted was written or has failed."""
        await self._commits.aclose()

    async def _write(self, batch: list[_Item]) -> Sequence[Receipt | None]:
        return await self._database.call(lambda connection: self._commit(connection, batch))

    def _commit(self, connection: sqlite3.Connection, batch: list[_Item]) -> Sequence[Receipt | None]:
        if not same_file(connection, self._path, self._opened_as):
            # Writing on would succeed, into a file that nobody can find any more.
            raise StoreError(f"the database {self._path} was moved or deleted; put it back or restart")
        deliveries = [item for item in batch if isinstance(item, Delivery)]
        with self._database.transaction(connection):
            receipts = iter(insert_deliveries(connection, deliveries) if deliveries else ())
            for item in batch:
                if isinstance(item, Quarantined):
                    _quarantine(connection, item)
                elif isinstance(item, datetime):
                    connection.execute(statements.PROBE, (to_micros(item),))
        self._checkpointer.after_commit(connection)
        return [next(receipts) if isinstance(item, Delivery) else None for item in batch]


def insert_deliveries(connection: sqlite3.Connection, deliveries: Sequence[Delivery]) -> Sequence[Receipt]:
    """Store deliveries inside a transaction, and count those whose keys are stored."""
    (last,) = connection.execute(statements.LAST_SEQ).fetchone()
    rows: list[object] = []
    bodies: list[tuple[int, str, bytes]] = []
    for seq, one in enumerate(deliveries, start=last + 1):
        rows += (seq, one.key, one.type, one.job_id, one.webhook_id, one.success)
        rows += (to_micros(one.received_at), len(one.body))
        bodies.append((seq, _json(one.headers), one.body))
    cursor = connection.execute(statements.insert_deliveries(len(deliveries)), rows)
    if cursor.rowcount == len(deliveries):
        _insert_bodies(connection, bodies)
        return [Receipt(one.key, AppendOutcome.ACCEPTED) for one in deliveries]
    new = {seq for (seq,) in connection.execute(statements.INSERTED_SINCE, (last,))}
    _insert_bodies(connection, [body for body in bodies if body[0] in new])
    return [
        Receipt(one.key, AppendOutcome.ACCEPTED) if seq in new else _count_again(connection, one)
        for seq, one in enumerate(deliveries, start=last + 1)
    ]


def same_body(connection: sqlite3.Connection, delivery: Delivery) -> bool:
    """Tell whether the stored delivery with this key has this body; if its own was pruned, one of that length."""
    _, size, body, coding = connection.execute(statements.KEPT, (delivery.key,)).fetchone()
    if size != len(delivery.body):
        return False
    return body is None or decoded(body, coding, key=delivery.key) == delivery.body


def _insert_bodies(connection: sqlite3.Connection, bodies: Sequence[tuple[int, str, bytes]]) -> None:
    """Insert in powers of two: each length is a statement, and a cached one keeps what was last bound to it."""
    done = 0
    while done < len(bodies):
        length = 1 << ((len(bodies) - done).bit_length() - 1)
        values = [value for body in bodies[done : done + length] for value in body]
        connection.execute(statements.insert_bodies(length), values)
        done += length


def _count_again(connection: sqlite3.Connection, delivery: Delivery) -> Receipt:
    """Count a delivery on the stored one with its key; keep its body too if that is another."""
    connection.execute(statements.COUNT_DUPLICATE, (delivery.key,))
    if same_body(connection, delivery):
        return Receipt(delivery.key, AppendOutcome.DUPLICATE)
    _quarantine(
        connection,
        Quarantined(
            received_at=delivery.received_at,
            reason="conflict",
            detail="a delivery with this key and another body was stored before",
            key=delivery.key,
            headers=delivery.headers,
            body=delivery.body,
        ),
    )
    return Receipt(delivery.key, AppendOutcome.CONFLICT)


def _quarantine(connection: sqlite3.Connection, item: Quarantined) -> None:
    headers = _json(item.headers)
    connection.execute(
        statements.QUARANTINE,
        (to_micros(item.received_at), item.reason, item.detail, item.key, headers, item.body),
    )


def _json(headers: Headers) -> str:
    return to_json(headers).decode()  # in a third of the time that the standard library takes


def _size_of(item: _Item) -> int:
    return 0 if isinstance(item, datetime) else len(item.body)
