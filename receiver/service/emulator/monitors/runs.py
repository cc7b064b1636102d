"""The time between the runs of a monitor, and how much later than its minute each comes."""

import hashlib
from datetime import datetime, timedelta

from receiver.core.cron_runs import next_run

LONGEST_JITTER = timedelta(minutes=5)
"""How much later than its minute a run may come, if the emulator imitates the service in this."""


def interval_of(cron: str, timezone: str, after: datetime) -> timedelta | None:
    """Return the time between the next two runs; None if there are no two within a year."""
    first = next_run(cron, timezone, after)
    second = None if first is None else next_run(cron, timezone, first)
    return None if first is None or second is None else second - first


def jitter_of(monitor_id: str, interval: timedelta | None) -> timedelta:
    """Return how much later than its minute each run of a monitor comes, as the service spreads them."""
    number = int.from_bytes(hashlib.sha256(monitor_id.encode()).digest()[:4], "big")
    bound = min(LONGEST_JITTER, LONGEST_JITTER if interval is None else interval / 2)
    milliseconds = max(1, bound // timedelta(milliseconds=1))
    return timedelta(milliseconds=number % milliseconds)
