"""Where the faces of a store are opened."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Protocol

from receiver.core.activity import PruneRule, Step
from receiver.core.bulk import DeliveryPlan, Imported
from receiver.core.clock import Clock
from receiver.core.deliveries import Delivery, Receipt
from receiver.core.ports.log import DeliveryLog
from receiver.core.ports.queue import WorkQueue
from receiver.core.ports.reports import Reports
from receiver.core.recorded_actions import NewAction
from receiver.core.types import AppendOutcome, HandlerName, HandlerSwitch, Schema, Tell
from receiver.core.work import NewWork, RecordedRun


# FOLDED: What operators need of a store.
class ActionLog(Protocol):
    """Record what people do."""

    async def begin_action(self, action: NewAction, *, now: datetime) -> int:
        """Record that an action begins; return its number."""

    async def advance_action(self, action: int, *, seen: int, changed: int, now: datetime) -> None:
        """Add to what an action has looked at and changed."""

    async def end_action(self, action: int, *, now: datetime, error: str | None = None) -> None:
        """Record that an action has ended; `error` says why it ended early."""


class Controls(ActionLog, Protocol):
    """Decisions of operators. Each call is one transaction unless it says otherwise.

    `action` is the number of a recorded action. The call then counts for it in the same transaction, and the items
    that it changes or makes are found by `WorkFilter.action` until somebody decides about them again.
    """

    async def retry(self, work_ids: Sequence[int], *, now: datetime, action: int | None = None) -> int:
        """Make items in a state of RETRYABLE due at once, with a new schedule; return how many.

        An item whose lane is busy is queued there, in the order of arrival.
        """

    async def bury(self, work_ids: Sequence[int], reason: str, *, now: datetime, action: int | None = None) -> int:
        """Make items in a state of BURIABLE dead, and free the lanes that dead ones stop; return how many.

        Those that were dead before are not found by `action`: a retry of them would not undo it.
        """

    async def take_back(
        self, work_ids: Sequence[int], reason: str, *, now: datetime, action: int | None = None
    ) -> int:
        """Make items in a state of RETRACTABLE dead that nobody has attempted since they were made or retried.

        They keep the error that they have; one without any gets `reason`. The head of a lane stays as it is: others
        wait for it. Returns how many were changed.
        """

    async def switch(self, handler: HandlerName, to: HandlerSwitch) -> None:
        """Set a handler's switch. If it is DISABLED, the next claim of a worker skips its items."""

    async def import_deliveries(self, deliveries: Sequence[Imported]) -> Sequence[AppendOutcome]:
        """Store deliveries from outside whose keys are not stored; return what became of each, in their order.

        A stored delivery stays as it is. One with the same body is a DUPLICATE, and is not counted: importing twice
        has the same result as importing once. One with another body is a CONFLICT, and is not kept. If the stored
        body was pruned, only the sizes are compared: if they agree, the delivery gets its body and headers back.

        The deliveries are written in several transactions, so that acks never wait long. All are durable when the
        call returns. When it fails, the first ones may be stored; the same call again stores the rest.
        """

    async def enqueue(
        self, work: Sequence[NewWork], *, now: datetime, action: int | None = None, seen: int = 0
    ) -> int:
        """Make new work items for deliveries that have a body, and return how many.

        Lanes, holds and switches apply to them as to routed ones, and any worker may claim them. Their trigger is
        REPLAY in place of DELIVERY. Other work items of the deliveries stay as they are. `action` counts how many
        were made, and that it has `seen` so many more.
        """

    async def record(
        self, results: Sequence[RecordedRun], *, now: datetime, action: int | None = None, seen: int = 0
    ) -> None:
        """Keep work items that have run outside the workers, for deliveries that have a body.

        `action` counts as in `enqueue`.
        """

    async def release_request(self, request_id: int, delivery: Delivery) -> Receipt:
        """Append the delivery that a request in quarantine is read as now, and remove the request.

        If the key is stored with another body, the outcome is CONFLICT, and nothing changes. Raises UnknownRequest.
        """


# FOLDED: What keeps a store small.
class Maintenance(Protocol):
    """What keeps a store small. Each step is one short transaction, so that acks never wait long for it."""

    async def prunable(self, rule: PruneRule) -> DeliveryPlan:
        """Return what pruning by this rule would remove now."""

    async def prune(self, rule: PruneRule, *, after: int, limit: int, now: datetime) -> Step:
        """Remove at most `limit` deliveries by this rule, or their bodies, behind the seq `after`.

        With a delivery go its work items and their attempts; of one that loses only its body everything else stays,
        so that the sender's retry of it is still a duplicate. A step can remove nothing and yet not be the last.
        """

    async def forget(self, before: datetime, *, limit: int) -> int:
        """Forget what handlers asked for once before a moment; return how much, less than `limit` at the end."""

    async def forget_workers(self, before: datetime) -> None:
        """Forget workers that were seen last before a moment."""

    async def forget_activity(self, before: datetime) -> int:
        """Forget what handlers did before a moment, an hour of it at most; return how many counts, 0 at the end."""

    async def forget_actions(self, before: datetime, *, keep: int, limit: int) -> int:
        """Forget actions that began before a moment, and all but the newest `keep`; return how many.

        Those are at most `limit`, and fewer at the end.
        """

    async def compress(self, *, limit: int) -> Step:
        """Write bodies smaller of deliveries that have been routed, at most `limit`; `size` is what that saved."""

    async def reclaim(self, limit: int) -> int:
        """Give about so many unused bytes back to the file system at most; return how many, 0 at the end."""


# FOLDED: What a worker needs to fill the index of words.
class SearchIndex(Protocol):
    """Fill the index of words.

    Pruning a body also removes its words, and importing it again restores them, each in the same transaction.
    """

    async def index(self, *, limit: int, max_bytes: int) -> int:
        """Take the next deliveries in, in one short transaction, and return how many there were.

        They come in the order of arrival, at most `limit`. The bodies may exceed `max_bytes` by one body. If two
        workers index at the same time, each delivery still comes into the index once.
        """


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
