"""Where the faces of a store are opened."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from receiver.core.clock import Clock
from receiver.core.ports.controls import Controls
from receiver.core.ports.log import DeliveryLog
from receiver.core.ports.maintenance import Maintenance
from receiver.core.ports.queue import WorkQueue
from receiver.core.ports.reports import Reports
from receiver.core.ports.search import SearchIndex
from receiver.core.schema import Schema
from receiver.core.types import Tell


class Store(Protocol):
    """Where its faces are opened. Nothing is touched before one of them is entered.

    Entering raises StoreError or StoreRefused when the database cannot be used. `log`, `queue` and `search` create
    it, or migrate one with an older schema unless somebody has it open. The others refuse such a database and leave
    it unchanged. Leaving finishes what was submitted.
    """

    def exists(self) -> bool:
        """Tell whether there is a database. Raises StoreRefused if there is none and none could be created."""

    def schema(self) -> Schema | None:
        """Return the versions of the schema, None where it has none. There has to be a database; it is not changed.

        Raises StoreError or StoreRefused when it cannot be read.
        """

    async def health_notes(self) -> Sequence[str]:
        """Return what could harm the store where it runs, each with what to do."""

    async def require_search(self) -> None:
        """Raise ConfigurationError where the database cannot have an index of words."""

    def clock(self, clock: Clock) -> AbstractAsyncContextManager[Clock]:
        """Open the clock that all processes which share the store have, by that of this machine.

        It is that of this machine where no other machine can share the store.
        """

    def log(self) -> AbstractAsyncContextManager[DeliveryLog]:
        """Open for appending."""

    def queue(self) -> AbstractAsyncContextManager[WorkQueue]:
        """Open for working."""

    def search(self) -> AbstractAsyncContextManager[SearchIndex]:
        """Open for indexing; makes the index. Raises ConfigurationError where the database cannot have one."""

    def controls(self) -> AbstractAsyncContextManager[Controls]:
        """Open for deciding. There has to be a database."""

    def reports(self) -> AbstractAsyncContextManager[Reports]:
        """Open for reading."""

    def maintenance(self, *, tell: Tell | None = None) -> AbstractAsyncContextManager[Maintenance]:
        """Open for pruning and shrinking. There has to be a database.

        What it has to say about the room on the disk is told to `tell`, or logged if there is none.
        """
