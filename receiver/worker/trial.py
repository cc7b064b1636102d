"""Handlers whose `where` or `lane` ends their process, or does not return: a trial in another process, and a
watch."""

import faulthandler
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Protocol

from receiver.core.clock import Clock
from receiver.core.deliveries import Delivery, StoredDelivery
from receiver.core.types import HandlerName
from receiver.routing import Handler, Router
from receiver.routing.policies import job_of
from receiver.runtime.log_lines import event_log
from receiver.worker.attempts import Deadline, NoProcess, ProcessDied, RaisedElsewhere, TimedOut, within
from receiver.worker.calls.pools import Call, RoutingCall

log = event_log(__name__)

LIMIT = timedelta(seconds=10)
"""How long `where` and `lane` may take for one delivery."""

Culprits = Mapping[tuple[int, HandlerName], str]
"""Why a handler must not be asked about a delivery, by the delivery's seq and the handler's name."""


class CallProcesses(Protocol):
    """Runs calls in processes, as `Processes` does."""

    async def run(self, call: Call, started: Callable[[], None]) -> None:
        """Make a call, and report its start."""

    async def aclose(self) -> None:
        """End every process."""


class RoutingTrial:
    """Finds deliveries for which a handler's `where` or `lane` ends its process or does not return.

    A worker that dies while it routes cannot note which delivery was the cause without a write for each batch,
    which would also blame the innocent when someone kills the worker. Instead, the next worker tries the deliveries
    that the dead one may have been routing.
    """

    def __init__(
        self, processes: CallProcesses, clock: Clock, router: Router, *, handlers: str, folder: Path
    ) -> None:
        """`handlers` names the router, which is in `folder`."""
        self._processes = processes
        self._clock = clock
        self._call = RoutingCall(handlers, str(folder), tuple(one.name for one in router if runs_code(one)), ())
        self._left = 0

    def begin(self, deliveries: int) -> None:
        """Try this many deliveries, as many as a worker may route together."""
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
        """Return how the process that ran the `where` and `lane` of these handlers ended; None if it lives."""
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
    """Return whether routing calls a function of the handler's author."""
    return handler.where is not None or (handler.lane is not None and handler.lane.key is not job_of)


MAX_CHECKS = 60
"""A question seen by so many checks, one a second, counts as blocked."""
MAX_CPU_SECONDS = 60.0
"""Processor time of all threads that one question may take."""


class RoutingWatch:
    """Ends a worker in which a handler's `where` or `lane` does not return. It does nothing before `start`.

    A worker that was suspended, or that got no processor, is not blocked: it did not check meanwhile, and used no
    processor time. Code that lets no other thread run, such as a regular expression, stops the checks too. It is
    limited by processor time: then faulthandler writes the traceback to stderr, and SIGVTALRM ends the process.
    """

    def __init__(self, end: Callable[[], None]) -> None:
        """`end` ends this process, and is called outside the thread of the event loop."""
        self._end = end
        self._asked: tuple[HandlerName, Delivery] | None = None
        self._seen: tuple[HandlerName, Delivery] | None = None
        self._checks = 0
        self._has_timer = False

    def start(self) -> None:
        """Watch from now on, until the process ends."""
        # The previous handler is called too, and it ends the process.
        faulthandler.register(signal.SIGVTALRM, file=sys.__stderr__ or 2, all_threads=True, chain=True)
        self._has_timer = True
        threading.Thread(target=self._check_for_ever, name="routing watch", daemon=True).start()

    @contextmanager
    def asking(self, handler: HandlerName, delivery: Delivery) -> Iterator[None]:
        """Watch one question: whether a handler wants a delivery, or for its lane."""
        self._asked = (handler, delivery)
        self._set_timer(MAX_CPU_SECONDS)
        try:
            yield
        finally:
            self._set_timer(0)
            self._asked = None

    def check(self) -> None:
        """End the process if the same question has been seen too often."""
        asked = self._asked
        self._checks = self._checks + 1 if asked is not None and asked is self._seen else 1
        self._seen = asked
        if asked is None or self._checks < MAX_CHECKS:
            return
        handler, delivery = asked
        advice = "`where` or `lane` does not return; the next worker tries this event in another process"
        fields = {"handler": handler, "id": delivery.key, "type": delivery.type, "advice": advice}
        log.error("routing_blocked", extra=fields)
        self._set_timer(0)  # it would outlive an execve(2)
        self._end()

    def _set_timer(self, seconds: float) -> None:
        if self._has_timer:
            signal.setitimer(signal.ITIMER_VIRTUAL, seconds)

    def _check_for_ever(self) -> None:
        while True:
            time.sleep(1)
            self.check()
