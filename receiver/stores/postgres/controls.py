"""What operators decide, written into a PostgreSQL store."""

from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial

from receiver.core.bulk import Imported
from receiver.core.deliveries import Delivery, Receipt
from receiver.core.types import AppendOutcome
from receiver.errors import UnknownRequest
from receiver.stores.postgres import imports
from receiver.stores.postgres.arrivals import kept
from receiver.stores.postgres.connection import PostgresConnection
from receiver.stores.postgres.database import PostgresDatabase
from receiver.stores.postgres.dialect import WRITES
from receiver.stores.postgres.log import append_all
from receiver.stores.postgres.statements.controls import FREE_REQUEST
from receiver.stores.postgres.statements.log import APPEND_TURN
from receiver.stores.sql.controls import SqlControls


class PostgresControls(SqlControls):
    """Controls. Each commit stirs the workers."""

    def __init__(self, database: PostgresDatabase) -> None:
        super().__init__(database, WRITES)

    async def import_deliveries(self, deliveries: Sequence[Imported]) -> Sequence[AppendOutcome]:
        """Store deliveries from outside whose keys are not stored."""
        outcomes: list[AppendOutcome] = []
        for part in imports.parts(deliveries):
            outcomes += await self.database.call(partial(self._import_part, part))
        return outcomes

    def _import_part(self, deliveries: Sequence[Imported], connection: PostgresConnection) -> list[AppendOutcome]:
        with self.database.transaction(connection):
            return imports.import_deliveries(connection, deliveries)

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
