"""Locks that stand for something wider than a row, for databases where several transactions write at a time."""

from collections.abc import Collection, Sequence
from typing import Protocol

from receiver.core.types import HandlerName
from receiver.stores.sql.connection import SqlConnection


class Locks(Protocol):
    """Each lock is held until the transaction ends. Taking one that is held already does nothing."""

    def log(self, connection: SqlConnection) -> None:
        """Be alone in storing deliveries. It is the first lock of its transaction."""

    def handlers(self, connection: SqlConnection, names: Collection[HandlerName]) -> None:
        """Be alone with the lanes and the limits of these handlers."""

    def lanes_of(self, connection: SqlConnection, work_ids: Sequence[int]) -> None:
        """Be alone with the lanes of the handlers of those work items that have a lane."""

    def keep_deliveries_of(self, connection: SqlConnection, work_ids: Sequence[int]) -> None:
        """Let nobody prune the deliveries of these work items."""

    def deliveries(self, connection: SqlConnection, seqs: Sequence[int]) -> None:
        """Let nobody make or retry work of these deliveries."""


class NoLocks:
    """The Locks of a database that has one writer at a time."""

    def log(self, connection: SqlConnection) -> None:
        """Do nothing: a transaction is alone."""

    def handlers(self, connection: SqlConnection, names: Collection[HandlerName]) -> None:
        """Do nothing: a transaction is alone."""

    def lanes_of(self, connection: SqlConnection, work_ids: Sequence[int]) -> None:
        """Do nothing: a transaction is alone."""

    def keep_deliveries_of(self, connection: SqlConnection, work_ids: Sequence[int]) -> None:
        """Do nothing: a transaction is alone."""

    def deliveries(self, connection: SqlConnection, seqs: Sequence[int]) -> None:
        """Do nothing: a transaction is alone."""
