"""What handlers did, minute by minute. Stores count it when they record attempts, so that no reader has to."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from receiver.core.clock import from_micros, to_micros
from receiver.core.types import AttemptOutcome, HandlerName

KEPT = timedelta(days=2)
"""How long the counts are kept."""

MINUTE = timedelta(minutes=1)

MINUTE_MICROS = MINUTE // timedelta(microseconds=1)

MinuteRow = tuple[int, HandlerName, AttemptOutcome, int]
"""What is counted together: minutes since 1970, handler, outcome, and `duration_bucket`."""


def duration_bucket(took: timedelta) -> int:
    """Return the bucket of a duration: n has those of less than 2**n microseconds that n - 1 does not have.

    A clock that is set during an attempt may make its duration negative; then the sign is ignored.
    """
    return (took // timedelta(microseconds=1)).bit_length()


def to_minute(moment: datetime) -> int:
    """Return the number of a moment's minute."""
    return to_micros(moment) // MINUTE_MICROS


def from_minute(minute: int) -> datetime:
    """Return the beginning of a minute."""
    return from_micros(minute * MINUTE_MICROS)


def whole_minutes(span: timedelta) -> int:
    """Return how many whole minutes are in a span of time."""
    return span // MINUTE


@dataclass(frozen=True, slots=True)
class ActivityCount:
    """How many attempts of a handler ended alike, in one step of time, after about the same time.

    `bucket` is the `duration_bucket`. Attempts that were lost with their worker are not counted.
    """

    begins_at: datetime
    handler: HandlerName
    outcome: AttemptOutcome
    bucket: int
    count: int


@dataclass(frozen=True, slots=True)
class Performance:
    """How the attempts of a span of time went. The durations are estimates, within a factor of two."""

    succeeded: int
    failed: int
    median: timedelta | None
    """None without any attempt."""
    p95: timedelta | None
    """95 of 100 attempts took less. None without any attempt."""

    @property
    def attempts(self) -> int:
        """How many attempts ended."""
        return self.succeeded + self.failed

    @property
    def failure_share(self) -> float | None:
        """Which share of the attempts failed or timed out. None without any attempt."""
        return self.failed / self.attempts if self.attempts else None


def performance(counts: Iterable[ActivityCount]) -> Performance:
    """Return how the attempts went that were counted."""
    buckets: Counter[int] = Counter()
    succeeded = 0
    for one in counts:
        buckets[one.bucket] += one.count
        if one.outcome is AttemptOutcome.SUCCEEDED:
            succeeded += one.count
    total = buckets.total()
    return Performance(succeeded, total - succeeded, _quantile(buckets, 0.5), _quantile(buckets, 0.95))


def by_step(counts: Iterable[ActivityCount], steps: Sequence[datetime]) -> Sequence[tuple[datetime, int, int]]:
    """Return for each step how many attempts succeeded and how many did not."""
    good: Counter[datetime] = Counter()
    bad: Counter[datetime] = Counter()
    for one in counts:
        (good if one.outcome is AttemptOutcome.SUCCEEDED else bad)[one.begins_at] += one.count
    return [(step, good[step], bad[step]) for step in steps]


def _quantile(buckets: Counter[int], share: float) -> timedelta | None:
    """Return an estimate: within a bucket the durations are taken to lie evenly."""
    wanted = share * buckets.total()
    for bucket in sorted(buckets):
        if wanted <= buckets[bucket]:
            low, high = (1 << bucket) >> 1, 1 << bucket
            return timedelta(microseconds=low + (high - low) * wanted / buckets[bucket])
        wanted -= buckets[bucket]
    return None
