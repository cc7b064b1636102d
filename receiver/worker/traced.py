"""Attempts with a span around each call."""

from collections.abc import Sequence

from receiver.signals.traces.contracts import AttemptTraces
from receiver.worker.attempts import AttemptRunner, Claimed, Ended


class TracedRunner:
    """An AttemptRunner that makes a span for each call of another one."""

    def __init__(self, runner: AttemptRunner, traces: AttemptTraces) -> None:
        self._runner = runner
        self._traces = traces

    async def run_batch(self, batch: Sequence[Claimed]) -> Sequence[Ended]:
        """Run one attempt at work items of one handler, in one call; return their ends in order."""
        with self._traces.span([one.item for one in batch]) as span:
            ends = await self._runner.run_batch(batch)
            worst = next((one for one in ends if one.raised is not None), ends[0])
            span.note_end(worst.attempt, worst.error)
            return ends
