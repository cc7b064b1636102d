"""`Store`, which opens the faces of a store, and the faces that decide, prune and index."""

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

    `action` is the number of a recorded action. The same transaction then counts the call for that action, and
    `WorkFilter.action` finds the items that it changed or made until another decision about them.
    """

    async def retry(self, work_ids: Sequence[int], *, now: datetime, action: int | None = None) -> int:
        """Make items in a state of RETRYABLE due at once, with a new schedule; return how many.

        An item whose lane is busy is queued in it, in the order of arrival.
        """

    async def bury(self, work_ids: Sequence[int], reason: str, *, now: datetime, action: int | None = None) -> int:
        """Make items in a state of BURIABLE dead, and free the lanes that dead ones stop; return how many.

        `WorkFilter.action` does not find items that were dead before: a retry of them would not undo the action.
        """

    async def take_back(
        self, work_ids: Sequence[int], reason: str, *, now: datetime, action: int | None = None
    ) -> int:
        """Make items in a state of RETRACTABLE dead that were not attempted since they were made or retried.

        An item keeps its last error; one without an error gets `reason`. The head of a lane is left alone, because
        others wait for it. Returns how many were changed.
        """

    async def switch(self, handler: HandlerName, to: HandlerSwitch) -> None:
        """Set a handler's switch. If it is DISABLED, the next claim of a worker skips its items."""

    async def import_deliveries(self, deliveries: Sequence[Imported]) -> Sequence[AppendOutcome]:
        """Store deliveries from outside whose keys are not stored; return the outcome of each, in their order.

        A stored delivery is not changed. A DUPLICATE has the same body, and is not counted: importing twice has the
        same result as importing once. A CONFLICT has another body, and is not kept. If the stored body was pruned,
        the sizes are compared; if they are equal, the delivery gets its body and headers back.

        It takes several transactions, to keep acks from waiting long. Everything is durable when the call returns.
        If it fails, the first deliveries may be stored; the same call again stores the rest.
        """

    async def enqueue(
        self, work: Sequence[NewWork], *, now: datetime, action: int | None = None, seen: int = 0
    ) -> int:
        """Make new work items for deliveries that have a body, and return how many.

        Lanes, holds and switches apply to them as to routed ones, and any worker may claim them. Their trigger is
        REPLAY in place of DELIVERY. Other work items of the deliveries are not changed. `action` counts how many
        were made, and adds `seen` to what it has examined.
        """

    async def record(
        self, results: Sequence[RecordedRun], *, now: datetime, action: int | None = None, seen: int = 0
    ) -> None:
        """Keep work items that have run outside the workers, for deliveries that have a body.

        `action` counts as in `enqueue`.
        """

    async def release_request(self, request_id: int, delivery: Delivery) -> Receipt:
        """Append the delivery that was read from a request in quarantine, and remove the request.

        If the key is stored with another body, the outcome is CONFLICT and nothing changes. Raises UnknownRequest.
        """


class Maintenance(Protocol):
    """Keep a store small, in steps of one short transaction: acks never wait long for one."""

    async def prunable(self, rule: PruneRule) -> DeliveryPlan:
        """Return what pruning by this rule would remove now."""

    async def prune(self, rule: PruneRule, *, after: int, limit: int, now: datetime) -> Step:
        """Remove at most `limit` deliveries by this rule, or their bodies, after the seq `after`.

        A delivery is removed with its work items and their attempts. One that loses only its body keeps everything
        else: the sender's retry of it is still a duplicate. A step that removes nothing need not be the last.
        """

    async def forget(self, before: datetime, *, limit: int) -> int:
        """Forget once keys used before a moment; return how many, fewer than `limit` at the end."""

    async def forget_workers(self, before: datetime) -> None:
        """Forget workers that were seen last before a moment."""

    async def forget_activity(self, before: datetime) -> int:
        """Forget at most an hour of the activity before a moment; return how many counts, 0 at the end."""

    async def forget_actions(self, before: datetime, *, keep: int, limit: int) -> int:
        """Forget actions that began before a moment, and all but the newest `keep`; return how many.

        It forgets at most `limit`; fewer mean the end.
        """

    async def compress(self, *, limit: int) -> Step:
        """Compress the bodies of at most `limit` routed deliveries; `size` is how many bytes that saved."""

    async def reclaim(self, limit: int) -> int:
        """Return at most about `limit` unused bytes to the file system; return how many, 0 at the end."""


class SearchIndex(Protocol):
    """Fill the index of words.

    Pruning a body also removes its words, and importing it again restores them, in the same transaction.
    """

    async def index(self, *, limit: int, max_bytes: int) -> int:
        """Index the next deliveries, in the order of arrival, in one short transaction; return how many.

        It takes at most `limit`; the bodies may exceed `max_bytes` by one body. If two workers index at the same
        time, each delivery still enters the index once.
        """


class Store(Protocol):
    """Opens the faces of a store. The database is not touched before one of them is entered.

    Entering raises StoreError or StoreRefused if the database cannot be used. `log`, `queue` and `search` create a
    missing database, or migrate one with an older schema unless another process has it open. The others refuse such
    a database and leave it unchanged. Leaving finishes what was submitted.
    """

    def exists(self) -> bool:
        """Return whether there is a database. Raises StoreRefused if there is none and none can be created."""

    def schema(self) -> Schema | None:
        """Return the versions of the schema, None where it has none. The database must exist; it is not changed.

        Raises StoreError or StoreRefused if it cannot be read.
        """

    async def health_notes(self) -> Sequence[str]:
        """Return what could harm the store in this environment, each with the remedy."""

    async def require_search(self) -> None:
        """Raise ConfigurationError if the database cannot have an index of words."""

    def clock(self, clock: Clock) -> AbstractAsyncContextManager[Clock]:
        """Open the clock that all processes with this store share, given this machine's clock.

        It is this machine's clock if no other machine can share the store.
        """

    def log(self) -> AbstractAsyncContextManager[DeliveryLog]:
        """Open for appending."""

    def queue(self) -> AbstractAsyncContextManager[WorkQueue]:
        """Open for a worker."""

    def search(self) -> AbstractAsyncContextManager[SearchIndex]:
        """Open for indexing; makes the index. Raises ConfigurationError if the database cannot have one."""

    def controls(self) -> AbstractAsyncContextManager[Controls]:
        """Open for the decisions of operators. The database must exist."""

    def reports(self) -> AbstractAsyncContextManager[Reports]:
        """Open for reading."""

    def maintenance(self, *, tell: Tell | None = None) -> AbstractAsyncContextManager[Maintenance]:
        """Open for pruning and shrinking. The database must exist.

        Messages about the room on the disk go to `tell`, or to the log without it.
        """
