"""Log lines of a kind up to a rate, and above it one line a second with their counts; and rare lines."""

import asyncio
import logging
from collections import Counter
from datetime import datetime, timedelta

from receiver.core.log_lines import EventLog

MAX_LINES = 100
"""Lines that are written in a second. Under load, a line for each delivery took a fifth of the processor's time."""
_MAX_KINDS = 10
"""Kinds that a sum names. A sender chooses the types of its events, so there may be thousands."""


class LineRate:
    """Decides for each line whether it is written, and logs a sum of those that are not.

    The sum is the event `word` with the fields `count` and `kinds`. It is for code that runs in an event loop.
    """

    def __init__(self, log: EventLog, word: str, level: int = logging.INFO) -> None:
        self._log = log
        self._word = word
        self._level = level
        self._until = 0.0
        self._lines = 0
        self._left_out: Counter[str] = Counter()

    def allows(self, kind: str, wanted: int = 1) -> int:
        """Return how many of the next lines, all of this kind, may be written. Count the others."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        if now >= self._until:
            self._until, self._lines = now + 1, 0
        self._lines += wanted
        left_out = self._lines - MAX_LINES
        if left_out <= 0:
            return wanted
        if not self._left_out:
            loop.call_at(self._until, self.flush)
        left_out = min(left_out, wanted)
        self._left_out[kind] += left_out
        return wanted - left_out

    def flush(self) -> None:
        """Log the sum of what was left out since the last time."""
        if self._left_out:
            total, named = self._left_out.total(), self._left_out.most_common(_MAX_KINDS)
            kinds = [f"{kind} {count:,}" for kind, count in named]
            if others := total - sum(count for _, count in named):
                kinds.append(f"others {others:,}")
            self._log.log(self._level, self._word, extra={"count": total, "kinds": ", ".join(kinds)})
            self._left_out.clear()


class Seldom:
    """Decides whether a line of some kind is written: once in a period."""

    def __init__(self, period: timedelta) -> None:
        self._period = period
        self._written: dict[str, datetime] = {}

    def allows(self, kind: str, now: datetime) -> bool:
        """Tell whether the next line of this kind may be written; then count it as written."""
        last = self._written.get(kind)
        if last is not None and now - last < self._period:
            return False
        self._written[kind] = now
        return True
