"""The face of a PostgreSQL store for the web process: many appends share one statement and one sync."""

import os
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from receiver.core.bulk import Imported
from receiver.core.clock import to_micros
from receiver.core.deliveries import Delivery, Quarantined, Receipt, conflict
from receiver.core.ports.log import LogItem, Probe
from receiver.core.types import AppendOutcome, DeliveryKey, Origin
from receiver.errors import StoreError, StoreRefused
from receiver.stores.grouped_log import GroupedLog
from receiver.stores.postgres import statements
from receiver.stores.postgres.connection import PostgresConnection
from receiver.stores.postgres.database import PostgresDatabase, is_poisonous, translated
from receiver.stores.sql.columns_of_bodies import decoded, headers_text
from receiver.stores.sql.connection import SqlConnection, Values, number
from receiver.stores.sql.statements import log as shared
from receiver.stores.sql.statements.columns import SUMMED


@dataclass(frozen=True, slots=True)
class Kept:
    """What of a stored delivery is compared with another one. Its body is None if it was pruned."""

    seq: int
    size: int
    body: bytes | None

    def is_like(self, delivery: Delivery) -> bool:
        """Return whether a delivery has this body; if it was pruned, compare the sizes only."""
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


MAX_ITEMS = 512
MAX_BYTES = 8 * 1024 * 1024
"""Deliveries in one statement and their bytes, so that small deliveries do not wait for many large ones."""


_Result = Receipt | StoreError | None


class PostgresLog(GroupedLog):
    """A DeliveryLog. A resolved future means that the server has synced its log."""

    def __init__(self, database: PostgresDatabase) -> None:
        self.database = database
        super().__init__(self._write, max_items=MAX_ITEMS, max_bytes=MAX_BYTES)

    async def _write(self, batch: list[LogItem]) -> Sequence[_Result]:
        try:
            return await self.database.call(lambda connection: self._commit(connection, batch))
        except StoreRefused as exc:  # a right that was taken away: senders have to try again until it is back
            raise StoreError(str(exc)) from exc

    def _commit(self, connection: PostgresConnection, batch: list[LogItem]) -> Sequence[_Result]:
        """Write a batch; one by one if a value of one of them is refused, which would fail all."""
        try:
            return self._commit_together(connection, batch)
        except Exception as exc:
            if len(batch) == 1 or not is_poisonous(exc):
                raise
        return [self._commit_alone(connection, one) for one in batch]

    def _commit_alone(self, connection: PostgresConnection, one: LogItem) -> _Result:
        try:
            with translated(self.database.name):
                return self._commit_together(connection, [one])[0]
        except StoreError as exc:
            if exc.__cause__ is None or not is_poisonous(exc.__cause__):
                raise
            return exc

    def _commit_together(self, connection: PostgresConnection, batch: Sequence[LogItem]) -> Sequence[_Result]:
        deliveries = [one for one in batch if isinstance(one, Delivery)]
        if len(deliveries) == len(batch):
            return append_all(connection, deliveries, self.database.transaction(connection))
        with self.database.transaction(connection):
            receipts = iter(append_all(connection, deliveries, nullcontext()))
            for one in batch:
                if isinstance(one, Quarantined):
                    quarantine(connection, one)
                elif isinstance(one, Probe):
                    _probe(connection, one)
        return [next(receipts) if isinstance(one, Delivery) else None for one in batch]


def append_all(
    connection: PostgresConnection, deliveries: Sequence[Delivery], counting: AbstractContextManager[None]
) -> list[Receipt]:
    """Store deliveries, and count those whose keys are stored within `counting`, which is entered for that only."""
    new = insert_new(connection, [Imported(one, duplicates=0, origin=Origin.SENDER) for one in deliveries])
    outcomes: list[Receipt | None] = []
    for one in deliveries:
        outcomes.append(Receipt(one.key, AppendOutcome.ACCEPTED) if one.key in new else None)
        new.discard(one.key)
    again = [one for one, receipt in zip(deliveries, outcomes, strict=True) if receipt is None]
    if not again:
        return [one for one in outcomes if one is not None]
    with counting:
        counted = iter(_count(connection, again))
    return [next(counted) if one is None else one for one in outcomes]


def _count(connection: PostgresConnection, again: Sequence[Delivery]) -> list[Receipt]:
    return count_again(connection, kept_all(connection, {one.key for one in again}), again)


def _probe(connection: PostgresConnection, test: Probe) -> None:
    connection.execute(shared.PROBE, (to_micros(test.now),))
    if test.size:
        connection.execute(statements.PROBE_SIZE, (os.urandom(test.size),))  # the server makes zeros smaller
        connection.execute(statements.END_PROBE)


BEHIND = 4_096
"""Deliveries that gather before the rows of their jobs change, and that one transaction takes. A worker handles 3 %
more than with a quarter of them. To read so many takes 6 ms longer in a list of jobs."""


class PostgresJobRows:
    """Keeps one row for each job, so that listings need not read deliveries, and one for each minute of arrivals.

    A worker keeps them when it has routed, four thousand deliveries at a time: the row of a job with many pages
    then changes once for many of them. What comes after the mark `summed` is read from the deliveries.
    """

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database
        self._summed = 0

    def follow(self, connection: PostgresConnection, last_seq: int) -> None:
        """Bring the rows up to a delivery that is stored, or nearer to it, when it is time."""
        if last_seq - self._summed < BEHIND:
            return
        self._summed = number(connection, SUMMED, {})  # another worker may have moved it
        if last_seq - self._summed < BEHIND:
            return
        through = min(last_seq, self._summed + BEHIND)
        bounds = {"after": self._summed, "through": through}
        with self._database.transaction(connection):
            if not connection.execute(statements.ADVANCE_SUMMED, bounds).rowcount:
                self._summed = last_seq  # another worker moves it now, so this one asks later
                return
            connection.execute(statements.JOB_ROWS.remove_of_next, bounds)
            connection.execute(statements.JOB_ROWS.add_next, bounds)
            connection.execute(shared.COUNT_NEXT, bounds)
        self._summed = through
