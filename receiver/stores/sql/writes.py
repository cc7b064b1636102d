"""What a kind of database writes: its statements, and the shared algorithms over them."""

from collections.abc import Callable

from receiver.core.deliveries import Delivery
from receiver.stores.sql.connection import SqlConnection
from receiver.stores.sql.dialect import Dialect, Insert, Locks
from receiver.stores.sql.settling import SettlingAlgorithm
from receiver.stores.sql.statements.writing import Statements
from receiver.stores.sql.work_items import Claims, InsertNew, InsertWithIds, LatestMoment, WorkRows

InsertDelivery = Callable[[SqlConnection, Delivery], int | None]
"""Stores a delivery inside a transaction and returns its seq, None if its key is stored."""


class Writes:
    """Made once for each kind of database."""

    def __init__(
        self,
        dialect: Dialect,
        sql: Statements,
        *,
        insert: Insert,
        insert_with_ids: InsertWithIds,
        insert_new: InsertNew,
        insert_delivery: InsertDelivery,
        locks: Locks,
    ) -> None:
        self.dialect = dialect
        self.sql = sql
        self.locks = locks
        self.insert_delivery = insert_delivery
        self.latest = LatestMoment(sql)
        self.work_rows = WorkRows(
            sql,
            insert=insert,
            insert_with_ids=insert_with_ids,
            insert_new=insert_new,
            latest=self.latest,
            locks=locks,
            dialect=dialect,
        )
        self.claims = Claims(sql, self.latest, locks, dialect)
        self.settling = SettlingAlgorithm(sql, insert=insert, latest=self.latest, locks=locks, dialect=dialect)
