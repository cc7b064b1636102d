"""Asks `where` and `lane` of handlers in a process of their own first, after a worker may have died of them."""

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Protocol

from receiver.core.clock import Clock
from receiver.core.deliveries import StoredDelivery
from receiver.core.log_lines import event_log
from receiver.core.types import HandlerName
from receiver.routing import Handler, Router
from receiver.routing.policies import job_of
from receiver.worker.deadline import Deadline
from receiver.worker.failures import NoProcess, ProcessDied, RaisedElsewhere, TimedOut
from receiver.worker.process_messages import Call, RoutingCall
from receiver.worker.runner import within

log = event_log(__name__)

LIMIT = timedelta(seconds=10)
"""How long `where` and `lane` may take for one delivery."""

Culprits = Mapping[tuple[int, HandlerName], str]
"""Why a handler must not be asked about a delivery, by the seq of the delivery and the handler's name."""


class CallProcesses(Protocol):
    """Runs calls in processes, as `Processes` does."""

    async def run(self, call: Call, started: Callable[[], None]) -> None:
        """Make a call, and report when it starts."""

    async def aclose(self) -> None:
        """End every process."""


class RoutingTrial:
    """Finds deliveries for which a handler's `where` or `lane` ends its process or does not return.

    A worker that dies while it routes cannot note of which delivery it died without a write for each batch, and a
    write would blame the innocent when somebody kills the worker. So the next worker tries the deliveries that the
    dead one may have had in hand, and learns for certain.
    """

    def __init__(
        self, processes: CallProcesses, clock: Clock, router: Router, *, handlers: str, folder: Path
    ) -> None:
        """`handlers` names the router, to be found in `folder`."""
        self._processes = processes
        self._clock = clock
        self._call = RoutingCall(handlers, str(folder), tuple(one.name for one in router if runs_code(one)), ())
        self._left = 0

    def begin(self, deliveries: int) -> None:
        """Try so many deliveries: as many as a worker may route together."""
        self._left = deliveries if self._call.names else 0

    async def culprits(self, deliveries: Sequence[StoredDelivery]) -> Culprits:
        """Return the handlers that must not be asked about some of these deliveries."""
        if not self._left or not deliveries:
            return {}
        found: dict[tuple[int, HandlerName], str] = {}
        try:
            if await self._ending(self._call.names, deliveries) is not None:
                for stored in deliveries:
                    found |= await self._culprits_of(stored)
        except (NoProcess, RaisedElsewhere) as exc:
            log.warning("routing_not_tried", extra={"reason": str(exc)})
        self._left = max(0, self._left - len(deliveries))
        if not self._left:
            await self._processes.aclose()
        return found

    async def _culprits_of(self, stored: StoredDelivery) -> Culprits:
        if await self._ending(self._call.names, (stored,)) is None:
            return {}
        endings = {name: await self._ending((name,), (stored,)) for name in self._call.names}
        return {
            (stored.seq, name): f"not run: the handler's `where` or `lane` was asked, and {ending}"
            for name, ending in endings.items()
            if ending is not None
        }

    async def _ending(self, names: tuple[HandlerName, ...], sources: Sequence[StoredDelivery]) -> str | None:
        """Return how asking these handlers ended their process; None if it did not."""
        call = RoutingCall(self._call.handlers, self._call.folder, names, tuple(sources))
        deadline = Deadline(self._clock, LIMIT)
        try:
            await within(deadline, self._processes.run(call, deadline.start), "", started=False)
        except ProcessDied as exc:
            return str(exc)
        except TimedOut:
            return f"it took longer than {LIMIT.total_seconds():g} s"
        return None


def runs_code(handler: Handler) -> bool:
    """Tell whether routing calls a function of the handler's author."""
    return handler.where is not None or (handler.lane is not None and handler.lane.key is not job_of)
