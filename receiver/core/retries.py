"""Retry delays: when a failed work item runs again."""

import random
from dataclasses import dataclass
from datetime import datetime, timedelta

MAX_PAUSE = timedelta(days=3650)
"""The longest wait of a work item, whatever a handler asks for: later moments may not exist in the calendar."""


@dataclass(frozen=True, slots=True)
class RetrySchedule:
    """Retry delays of a work item: n pauses allow n + 1 attempts.

    Each pause is made longer or shorter at random, by up to the share `jitter` of it, to keep items that failed
    together from all running again together.
    """

    pauses: tuple[timedelta, ...]
    jitter: float = 0.2

    def __post_init__(self) -> None:
        if any(not timedelta(0) <= pause <= MAX_PAUSE for pause in self.pauses):
            raise ValueError(f"a pause must be from 0 to {MAX_PAUSE.days} days long")
        if not 0 <= self.jitter <= 1:
            raise ValueError("jitter is a share of the pause: it must be from 0 to 1")

    @property
    def attempts(self) -> int:
        """The number of attempts, the first one included."""
        return len(self.pauses) + 1

    def due_after(self, failed: int, *, now: datetime, rng: random.Random) -> datetime | None:
        """Return when to run again after attempt `failed`, counted from 1; None if no attempt is left."""
        if failed > len(self.pauses):
            return None
        return now + self.pauses[failed - 1] * rng.uniform(1 - self.jitter, 1 + self.jitter)

    def limited_to(self, attempts: int) -> "RetrySchedule":
        """Return this schedule for another number of attempts. Its last pause repeats if there are too few."""
        if attempts < 1:
            raise ValueError("a handler runs at least once: attempts must be 1 or more")
        last = self.pauses[-1:] or (timedelta(0),)
        pauses = self.pauses + last * max(0, attempts - self.attempts)
        return RetrySchedule(pauses[: attempts - 1], self.jitter)


DEFAULT_SCHEDULE = RetrySchedule(
    (
        timedelta(seconds=1),
        timedelta(seconds=10),
        timedelta(minutes=1),
        timedelta(minutes=5),
        timedelta(minutes=15),
        timedelta(hours=1),
        timedelta(hours=6),
    )
)
"""Eight attempts over about seven and a half hours."""
