"""How much one worker does at one time."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from receiver.routing.policies import RunsIn

MAX_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerLimits:
    """How much one worker does at one time.

    At most `concurrency` calls run at one time, of all kinds together. A work item is leased for `lease` and
    renewed while it runs. The worker claims until it has bodies of `max_bytes`, so it may have one body more. It
    waits no longer than `longest_wait`, or a lease without it: somebody may move the wall clock, and a machine may
    sleep.
    """

    concurrency: int
    threads: int
    processes: int
    lease: timedelta
    max_bytes: int = MAX_BYTES
    longest_wait: timedelta | None = None

    @property
    def slots(self) -> Mapping[RunsIn, int]:
        """How many calls of each kind run at one time."""
        return {RunsIn.LOOP: self.concurrency, RunsIn.THREAD: self.threads, RunsIn.PROCESS: self.processes}
