"""The face of a SQLite store for the web process: many appends share one transaction and one sync."""

import sqlite3
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from receiver.core.clock import to_micros
from receiver.core.deliveries import Delivery, Quarantined, Receipt, conflict
from receiver.core.ports.log import LogItem, Probe, Write
from receiver.core.types import AppendOutcome, DeliveryKey
from receiver.errors import StoreError, StoreRefused
from receiver.stores.grouped_log import GroupedLog
from receiver.stores.sql.columns_of_bodies import BESIDE, PLAIN, decoded, headers_text
from receiver.stores.sql.connection import number
from receiver.stores.sql.statements import log as shared
from receiver.stores.sql.statements.columns import SUMMED
from receiver.stores.sqlite import statements
from receiver.stores.sqlite.bodies import BodyWriter, is_long
from receiver.stores.sqlite.database import Database, file_at, same_file, translated
from receiver.stores.sqlite.delivery_keys import DeliveryKeys, is_hash
from receiver.stores.sqlite.statements import TAKE_IN
from receiver.stores.sqlite.write_ahead_log import log_path

BEHIND = 256
"""Deliveries that gather before the rows of their jobs change."""
_MOST = 1_024
"""Deliveries that one transaction takes. Acks wait for it."""


class JobRows:
    """Keeps one row for each job, so that listings need not read deliveries, and one for each minute of arrivals.

    The transactions of one connection that store deliveries keep them, some hundred deliveries at a time: the row
    of a job with many pages then changes once for many of them. What comes after the mark `summed` is read from the
    deliveries.
    """

    def __init__(self) -> None:
        self._summed = 0  # too high after an error, so that the rows follow a little later

    def follow(self, connection: sqlite3.Connection, last_seq: int) -> None:
        """Bring the rows up to a delivery that is stored, or nearer to it, when it is time."""
        if last_seq - self._summed < BEHIND:
            return
        self._summed = number(connection, SUMMED, {})  # another process may have moved it
        if last_seq - self._summed < BEHIND:
            return
        bounds = {"after": self._summed, "through": min(last_seq, self._summed + _MOST)}
        for statement in (
            statements.JOB_ROWS.remove_of_next,
            statements.JOB_ROWS.add_next,
            statements.ADVANCE_SUMMED,
        ):
            connection.execute(statement, bounds)
        _count_arrivals(connection, bounds)
        self._summed = bounds["through"]


def _count_arrivals(connection: sqlite3.Connection, bounds: dict[str, int]) -> None:
    first, last, count = connection.execute(statements.SPAN_OF_NEXT, bounds).fetchone()
    if count and first == last:
        connection.execute(statements.ADD_TO_MINUTE, (first, count))
    else:
        connection.execute(shared.COUNT_NEXT, bounds)


MAX_ITEMS = 512
"""Deliveries in one transaction. Their parameters stay far below SQLite's limit of 32,766."""
MAX_BYTES = 8 * 1024 * 1024
"""Bytes in one transaction, so that small deliveries do not wait for many large ones."""


class SqliteLog(GroupedLog):
    """A WritableLog. A resolved future means that SQLite has synced the write-ahead log to the disk."""

    def __init__(self, database: Database, path: Path, beside: BodyWriter | None) -> None:
        """Long bodies are written `beside` the database; without that, into it."""
        self.database = database
        self._beside = beside
        self._path = path
        self._keys = DeliveryKeys()
        self._jobs = JobRows()
        self._opened_as = path.stat()
        self._log_path = log_path(path)
        self._log_opened_as = file_at(self._log_path)
        super().__init__(self.write, max_items=MAX_ITEMS, max_bytes=MAX_BYTES)

    async def prepare(self) -> None:
        """Read the newest keys now, so that the first deliveries do not wait for it."""
        await self.database.call(self._keys.catch_up)

    async def write(self, batch: Sequence[LogItem]) -> Sequence[Receipt | None]:
        """Write all of a batch in one transaction."""
        return await self.database.call(lambda connection: self._write(connection, batch))

    async def in_thread(self, work: Callable[[Write], None]) -> None:
        """Run a function that may block in the thread of the store, where it writes batches without a hop."""
        await self.database.call(lambda connection: work(partial(self._write, connection)))

    def _write(self, connection: sqlite3.Connection, batch: Sequence[LogItem]) -> Sequence[Receipt | None]:
        try:
            with translated(self._path):
                return self._commit(connection, batch)
        except StoreRefused as exc:  # damage that shows now: senders have to try again until it is mended
            raise StoreError(str(exc)) from exc

    def _commit(self, connection: sqlite3.Connection, batch: Sequence[LogItem]) -> Sequence[Receipt | None]:
        try:
            receipts = self._commit_all(connection, batch)
        except BaseException as exc:
            if self._beside is not None:
                self._beside.give_up(connection, exc)
            raise
        if self._beside is not None:
            self._beside.keep()
        return receipts

    def _commit_all(self, connection: sqlite3.Connection, batch: Sequence[LogItem]) -> Sequence[Receipt | None]:
        deliveries = [item for item in batch if isinstance(item, Delivery)]
        with self._keys.changes(connection), self.database.transaction(connection):
            self._require_files()
            inserted = insert_deliveries(connection, self._keys, deliveries, self._beside) if deliveries else ()
            receipts = iter(inserted)
            self._jobs.follow(connection, self._keys.last_seq)
            for item in batch:
                if isinstance(item, Quarantined):
                    _quarantine(connection, item)
                elif isinstance(item, Probe):
                    connection.execute(shared.PROBE, (to_micros(item.now),))
            if size := max((item.size for item in batch if isinstance(item, Probe)), default=0):
                connection.execute(statements.END_PROBE)  # of a process that was killed before it did so
                connection.execute(statements.PROBE_SIZE, ((size + 1) // 2,))
        if size:
            with self.database.transaction(connection):
                connection.execute(statements.END_PROBE)
                if self._beside is not None:
                    self._beside.keep()  # what the transaction before has committed
                    self._beside.probe(connection, size)
        return [next(receipts) if isinstance(item, Delivery) else None for item in batch]

    def _require_files(self) -> None:
        """Raise StoreError if the database or its log is not the file that SQLite writes to.

        More writes would succeed, in a file that cannot be found any more. A transaction has to be open: with it
        SQLite has opened the log, and then keeps that file for as long as there is a connection.
        """
        if self._log_opened_as is None:
            self._log_opened_as = file_at(self._log_path)
        for name, path, opened_as in (
            ("database", self._path, self._opened_as),
            ("log of the database,", self._log_path, self._log_opened_as),
        ):
            if not same_file(path, opened_as):
                raise StoreError(f"the {name} {path} was moved or deleted; put it back or restart")


def insert_deliveries(
    connection: sqlite3.Connection,
    keys: DeliveryKeys,
    deliveries: Sequence[Delivery],
    beside: BodyWriter | None = None,
) -> Sequence[Receipt]:
    """Store deliveries inside a transaction, and count those whose keys are stored.

    Long bodies of new ones are written `beside` the database, if that is given.
    """
    stored = keys.find(connection, (one.key for one in deliveries))
    new: dict[DeliveryKey, int] = {}
    rows: list[tuple[object, ...]] = []
    new_ones: list[Delivery] = []
    again: list[bool] = []
    for one in deliveries:
        again.append(one.key in stored)
        if again[-1]:
            continue
        stored[one.key] = new[one.key] = seq = keys.last_seq + len(new) + 1
        fields = (seq, one.key, one.type, one.job_id, one.webhook_id, one.success)
        rows.append((*fields, to_micros(one.received_at), len(one.body)))
        new_ones.append(one)
    statements.insert_by_powers(connection, statements.insert_deliveries, rows)
    statements.insert_by_powers(
        connection, statements.insert_bodies, _body_rows(connection, keys.last_seq + 1, new_ones, beside)
    )
    keys.add(connection, new.items())
    return [
        _count_again(connection, stored[one.key], one) if is_stored else Receipt(one.key, AppendOutcome.ACCEPTED)
        for one, is_stored in zip(deliveries, again, strict=True)
    ]


def _body_rows(
    connection: sqlite3.Connection, seq: int, deliveries: Sequence[Delivery], beside: BodyWriter | None
) -> list[tuple[object, ...]]:
    """Return the rows of the bodies of deliveries that are numbered from `seq` on."""
    places: dict[int, bytes] = {}
    if beside and (long := [at for at, one in enumerate(deliveries) if is_long(one.body)]):
        places = dict(zip(long, beside.write(connection, [deliveries[at].body for at in long]), strict=True))
    return [
        (seq + at, headers_text(one.headers), *((places[at], BESIDE) if at in places else (one.body, PLAIN)))
        for at, one in enumerate(deliveries)
    ]


def same_body(connection: sqlite3.Connection, seq: int, delivery: Delivery) -> bool | None:
    """Return whether the stored delivery with this seq has this body; None if the stored one cannot be read now.

    If its body was pruned, compare the sizes only.
    """
    size, body, coding = connection.execute(statements.KEPT, (seq,)).fetchone()
    if size != len(delivery.body):
        return False
    if isinstance(body, str):
        return None
    return body is None or decoded(body, coding, key=delivery.key) == delivery.body


def _count_again(connection: sqlite3.Connection, seq: int, delivery: Delivery) -> Receipt:
    """Count a duplicate on the stored delivery. If its body differs or cannot be compared, put it in quarantine."""
    connection.execute(statements.COUNT_DUPLICATE, (seq,))
    is_same = same_body(connection, seq, delivery)
    if is_same is None and is_hash(delivery.key):  # the key is that of the body
        connection.execute(TAKE_IN, (delivery.body, seq))
        is_same = True
    if is_same:
        return Receipt(delivery.key, AppendOutcome.DUPLICATE)
    unreadable = "a delivery with this key was stored before, and its body cannot be read now"
    _quarantine(connection, conflict(delivery, unreadable) if is_same is None else conflict(delivery))
    return Receipt(delivery.key, AppendOutcome.CONFLICT)


def _quarantine(connection: sqlite3.Connection, item: Quarantined) -> None:
    headers = headers_text(item.headers)
    connection.execute(
        shared.QUARANTINE,
        (to_micros(item.received_at), item.reason, item.detail, item.key, headers, item.body),
    )
