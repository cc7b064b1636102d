"""Ends a worker in which a handler's `where` or `lane` does not return."""

import faulthandler
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from receiver.core.deliveries import Delivery
from receiver.core.log_lines import event_log
from receiver.core.types import HandlerName

log = event_log(__name__)

MAX_LOOKS = 60
"""So often the same question is seen before it counts as blocked. A thread looks once a second."""
MAX_CPU_SECONDS = 60.0
"""Processor time that one question may take, of all threads together."""


class RoutingWatch:
    """Watches the questions that routing asks the code of handlers. It does nothing before `start`.

    A worker that was suspended, or that got no processor, is not blocked: it did not look meanwhile, and used no
    processor time. Code that lets no other thread run, such as a regular expression, stops the looks too. Its limit
    is the processor time: then faulthandler writes the traceback to stderr, and SIGVTALRM ends the process.
    """

    def __init__(self, end: Callable[[], None]) -> None:
        """`end` ends this process. It is called in another thread than that of the event loop."""
        self._end = end
        self._asked: tuple[HandlerName, Delivery] | None = None
        self._seen: tuple[HandlerName, Delivery] | None = None
        self._looks = 0
        self._has_timer = False

    def start(self) -> None:
        """Watch from now on, until the process ends."""
        # The previous handler is called too, and it ends the process.
        faulthandler.register(signal.SIGVTALRM, file=sys.__stderr__ or 2, all_threads=True, chain=True)
        self._has_timer = True
        threading.Thread(target=self._look_for_ever, name="routing watch", daemon=True).start()

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

    def look(self) -> None:
        """Look once, and end the process if the same question has been seen too often."""
        asked = self._asked
        self._looks = self._looks + 1 if asked is not None and asked is self._seen else 1
        self._seen = asked
        if asked is None or self._looks < MAX_LOOKS:
            return
        handler, delivery = asked
        advice = "`where` or `lane` does not return; the next worker tries this event in another process"
        fields = {"handler": handler, "id": delivery.key, "type": delivery.type, "advice": advice}
        log.error("routing_blocked", extra=fields)
        self._set_timer(0)  # it would go on in a program that replaces this one (execve(2))
        self._end()

    def _set_timer(self, seconds: float) -> None:
        if self._has_timer:
            signal.setitimer(signal.ITIMER_VIRTUAL, seconds)

    def _look_for_ever(self) -> None:
        while True:
            time.sleep(1)
            self.look()
