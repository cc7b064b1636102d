"""What operators need of a store."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from receiver.core.bulk import Imported
from receiver.core.deliveries import Delivery, Receipt
from receiver.core.recorded_actions import NewAction
from receiver.core.types import AppendOutcome, HandlerName, HandlerSwitch
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
