"""What operators decide, brought into a PostgreSQL store: decisions, imports, copies, pruning."""

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any

from receiver.core.activity import Step
from receiver.core.batches import batches
from receiver.core.bulk import Imported
from receiver.core.deliveries import Delivery, Receipt
from receiver.core.types import AppendOutcome, Origin
from receiver.errors import UnknownRequest
from receiver.stores.postgres import statements as log_statements
from receiver.stores.postgres import statements as upkeep_statements
from receiver.stores.postgres.connection import PostgresConnection
from receiver.stores.postgres.database import PostgresDatabase
from receiver.stores.postgres.dialect import DIALECT, READS, WRITES
from receiver.stores.postgres.log import Kept, append_all, insert_new, kept, kept_all
from receiver.stores.postgres.reports import restore
from receiver.stores.postgres.statements import APPEND_TURN, JOB_ROWS
from receiver.stores.sql.columns_of_bodies import headers_text
from receiver.stores.sql.connection import number
from receiver.stores.sql.controls import SqlControls
from receiver.stores.sql.maintenance import SqlMaintenance
from receiver.stores.sql.statements import log as shared
from receiver.stores.sql.statements.deliveries import LAST_DELIVERY
from receiver.stores.sql.statements.log import COUNT_NEXT, FREE_REQUEST

MAX_ITEMS = 100
MAX_BYTES = 1024 * 1024
"""Deliveries in one transaction and bytes of their bodies. Acks wait for its end."""


def parts(deliveries: Sequence[Imported]) -> Iterator[Sequence[Imported]]:
    """Split deliveries into the parts that one transaction each takes."""
    return batches(deliveries, MAX_ITEMS, MAX_BYTES, lambda one: len(one.delivery.body))


def import_deliveries(connection: PostgresConnection, deliveries: Sequence[Imported]) -> list[AppendOutcome]:
    """Store the new ones of these deliveries, inside a transaction of the caller."""
    connection.execute(log_statements.APPEND_TURN)
    if any(one.origin is Origin.BACKFILL for one in deliveries):
        connection.execute(shared.MARK_BACKFILLED)
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
        connection.execute(log_statements.RESTORE_BODY, (stored.seq, headers_text(delivery.headers), delivery.body))
        connection.execute(shared.RESTORED, (stored.seq,))
        restore(connection, stored.seq, delivery.body)
    return AppendOutcome.DUPLICATE


class PostgresControls(SqlControls):
    """Controls. Each commit stirs the workers."""

    def __init__(self, database: PostgresDatabase) -> None:
        super().__init__(database, WRITES)

    async def import_deliveries(self, deliveries: Sequence[Imported]) -> Sequence[AppendOutcome]:
        """Store deliveries from outside whose keys are not stored."""
        outcomes: list[AppendOutcome] = []
        for part in parts(deliveries):
            outcomes += await self.database.call(partial(self._import_part, part))
        return outcomes

    def _import_part(self, deliveries: Sequence[Imported], connection: PostgresConnection) -> list[AppendOutcome]:
        with self.database.transaction(connection):
            return import_deliveries(connection, deliveries)

    async def release_request(self, request_id: int, delivery: Delivery) -> Receipt:
        """Make a request in quarantine a delivery."""

        def write(connection: PostgresConnection) -> Receipt:
            with self.database.transaction(connection):
                connection.execute(APPEND_TURN)
                stored = kept(connection, [delivery.key]).get(delivery.key)
                if stored is not None and not stored.is_like(delivery):
                    return Receipt(delivery.key, AppendOutcome.CONFLICT)
                if connection.execute(FREE_REQUEST, {"id": request_id}).rowcount == 0:
                    raise UnknownRequest(request_id)
                (receipt,) = append_all(connection, [delivery], nullcontext())
            return receipt

        return await self.database.call(write)


class PostgresCopySide:
    """A CopySide."""

    dialect = DIALECT
    identity_mark = "identity"

    def __init__(self, database: PostgresDatabase) -> None:
        self.database = database

    def continue_behind(self, connection: Any, table: str, last: int) -> None:
        """Let the numbers of new rows begin after this one."""
        values = {
            "table": f'"{self.database.translate.schema}".{table}',
            "column": "seq" if table == "deliveries" else "id",
            "last": last,
        }
        connection.execute(upkeep_statements.CONTINUE_BEHIND, values).fetchall()

    def finish(self, connection: Any) -> None:
        """Make the rows of jobs and the counts of arrivals from the deliveries."""
        bounds = {"after": 0, "through": number(connection, LAST_DELIVERY, {})}
        connection.execute(upkeep_statements.NO_JOBS)
        connection.execute(JOB_ROWS.add_next, bounds)
        connection.execute(upkeep_statements.NO_MINUTES)
        connection.execute(COUNT_NEXT, bounds)
        connection.execute(upkeep_statements.SET_SUMMED, bounds)


class PostgresMaintenance(SqlMaintenance):
    """A Maintenance. Its commits are not synced: after a crash something may have to be removed again."""

    def __init__(self, database: PostgresDatabase) -> None:
        super().__init__(database, READS, WRITES)

    async def compress(self, *, limit: int) -> Step:
        """Do nothing: the server compresses by itself what it stores (PostgreSQL manual, TOAST)."""
        return Step(0, 0, None)

    async def reclaim(self, limit: int) -> int:
        """Do nothing: the server uses space again by itself. Only VACUUM FULL returns it, which stops everybody."""
        return 0
