"""What operators decide."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from receiver.core.bulk import Imported
from receiver.core.deliveries import Delivery, Receipt
from receiver.core.types import AppendOutcome, HandlerName, HandlerSwitch
from receiver.core.work import NewWork, RecordedRun


class Controls(Protocol):
    """What an operator decides. Each call is one transaction unless it says otherwise."""

    async def retry(self, work_ids: Sequence[int], *, now: datetime) -> int:
        """Make dead, skipped, waiting and held items due at once, with a fresh schedule; return how many.

        One whose lane is busy is queued there, in the order of arrival.
        """

    async def bury(self, work_ids: Sequence[int], reason: str, *, now: datetime) -> int:
        """Make items dead that wait, are queued or held, and release the lanes of dead ones; return how many."""

    async def switch(self, handler: HandlerName, to: HandlerSwitch) -> None:
        """Set a handler's switch. Disabling it skips what waits for it when a worker next looks."""

    async def import_deliveries(self, deliveries: Sequence[Imported]) -> Sequence[AppendOutcome]:
        """Store deliveries from outside whose keys are not stored; return what became of each, in their order.

        What is stored already is not changed. With the same body it is a DUPLICATE and not counted, so that
        bringing in twice is like once; with another body a CONFLICT, which is not kept. Of one whose body was
        pruned only the sizes are compared: if they agree it is a DUPLICATE, and gets its body and headers back.

        They are written some at a time, so that acks never wait long, and all durable when the call returns. When
        it fails, the first ones may be stored; the same call again goes on with the rest.
        """

    async def enqueue(self, work: Sequence[NewWork], *, now: datetime) -> int:
        """Make new work items beside those that there are, and return how many.

        They obey lanes, holding back and switches as routed ones do, and wait for any worker; their trigger is
        REPLAY unless another than DELIVERY is given. Those whose deliveries have no body any more are left out.
        """

    async def record(self, results: Sequence[RecordedRun], *, now: datetime) -> None:
        """Keep work items that have run elsewhere; those whose deliveries are gone are left out."""

    async def release_request(self, request_id: int, delivery: Delivery) -> Receipt:
        """Make a request in quarantine the delivery that it is read as now, deduplicated as when it is appended.

        It leaves quarantine, unless there is a delivery of its key with another body: then it is a CONFLICT, and
        nothing changes. Raises UnknownRequest.
        """
