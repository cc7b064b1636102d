"""Async handlers that nothing could end in time."""

from collections.abc import Sequence
from datetime import timedelta

from receiver.core.clock import Clock
from receiver.core.line_rate import Seldom
from receiver.core.log_lines import event_log
from receiver.worker.attempts import Claimed, log_fields
from receiver.worker.deadline import Deadline

log = event_log(__name__)

TOLD_EVERY = timedelta(minutes=10)
"""Between two lines about the same handler. A slow one may run thousands of times in an hour."""
MAKE_IT_PLAIN = "make it a plain function (def without async): then it runs in a thread, and nothing waits for it"


class LateHandlers:
    """Logs that an async handler ended with a result after its time-out, each handler once in ten minutes."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._told = Seldom(TOLD_EVERY)

    def check(self, claimed: Sequence[Claimed], deadline: Deadline) -> None:
        """Note in the deadline of a call that has just ended whether it was late, and log it."""
        took = deadline.overrun()
        if took is None and not deadline.refused:
            return
        deadline.ended_late = True
        if not self._told.allows(claimed[0].item.handler, self._clock.steady()):
            return
        reason, advice = _explained(deadline)
        seconds = (took or deadline.timeout).total_seconds()
        fields = {"seconds": seconds, "timeout_s": deadline.timeout.total_seconds(), "reason": reason}
        log.warning("attempt_late", extra={**log_fields(claimed), **fields, "advice": advice})


def _explained(deadline: Deadline) -> tuple[str, str]:
    """Return why the time-out could not end a call, and what to do."""
    if deadline.refused:
        advice = "raise asyncio.CancelledError again where the handler catches it"
        return "it was cancelled at its time-out and went on", advice
    if not deadline.waited:
        return "it blocked the event loop, so that nothing could cancel it", MAKE_IT_PLAIN
    advice = "event_loop_blocked in this log names the handler and the line"
    return "it or another handler blocked the event loop, so that nothing could cancel it", advice
