"""What handlers and workers do: attempts counted minute by minute, signs of life, and pruning."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from receiver.core.clock import from_micros, to_micros
from receiver.core.deliveries import DeliveryFilter
from receiver.core.rules import Pace
from receiver.core.types import AttemptOutcome, DeliveryState, HandlerName, WorkerId

ACTIVITY_KEPT = timedelta(days=2)
"""How long the counts are kept."""
MINUTE = timedelta(minutes=1)
MINUTE_MICROS = MINUTE // timedelta(microseconds=1)

MinuteRow = tuple[int, HandlerName, AttemptOutcome, int]
"""What is counted together: minutes since 1970, handler, outcome, and `duration_bucket`."""


def duration_bucket(took: timedelta) -> int:
    """Return the bucket of a duration: bucket n begins at 2**(n - 1) microseconds and ends before 2**n.

    A clock that is set during an attempt may make its duration negative; the sign is ignored.
    """
    return (took // timedelta(microseconds=1)).bit_length()


def to_minute(moment: datetime) -> int:
    """Return the minute of a moment, counted from 1970."""
    return to_micros(moment) // MINUTE_MICROS


def from_minute(minute: int) -> datetime:
    """Return the beginning of a minute."""
    return from_micros(minute * MINUTE_MICROS)


def whole_minutes(span: timedelta) -> int:
    """Return the number of whole minutes in a span of time."""
    return span // MINUTE


@dataclass(frozen=True, slots=True)
class ActivityCount:
    """How many attempts of a handler, in one step of time, had the same outcome and about the same duration.

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
        """All attempts that ended."""
        return self.succeeded + self.failed

    @property
    def failure_share(self) -> float | None:
        """The share of attempts that failed or timed out; None without any attempt."""
        return self.failed / self.attempts if self.attempts else None


def performance(counts: Iterable[ActivityCount]) -> Performance:
    """Return how the counted attempts went."""
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
    """Return an estimate, as if the durations were spread evenly within each bucket."""
    wanted = share * buckets.total()
    for bucket in sorted(buckets):
        if wanted <= buckets[bucket]:
            low, high = (1 << bucket) >> 1, 1 << bucket
            return timedelta(microseconds=low + (high - low) * wanted / buckets[bucket])
        wanted -= buckets[bucket]
    return None


_SECOND = timedelta(seconds=1)
LATE = timedelta(minutes=2)
"""A worker that was not seen for this long hangs, or was killed."""
WORKERS_KEPT = timedelta(days=1)
"""How long a worker that is no longer seen is remembered."""


@dataclass(frozen=True, slots=True)
class HandlerLimits:
    """A handler's own limits over all workers; None for no limit."""

    concurrency: int | None = None
    """How many attempts run at one time."""
    interval: timedelta | None = None
    """How far apart attempts begin."""


@dataclass(frozen=True, slots=True)
class WorkerSign:
    """What a worker shows of itself: one run of a process, on a machine, of a version of this program."""

    name: WorkerId
    machine: str
    pid: int
    version: str
    started_at: datetime
    slots: int = 0
    """How many attempts it runs at one time; 0 if its version does not report that."""
    limits: Mapping[HandlerName, HandlerLimits] = field(default_factory=dict)
    """Its handlers that have limits of their own."""


@dataclass(frozen=True, slots=True)
class WorkerReport:
    """A worker that has not signed off."""

    sign: WorkerSign
    seen_at: datetime
    """When it last showed that it is alive."""
    running: Mapping[HandlerName, int]
    """How many work items it has leased, by handler."""
    is_dead: bool = False
    """Its process has certainly ended. It may be dead without this: a store cannot always know."""

    def is_late(self, now: datetime) -> bool:
        """Return whether it is dead, or was not seen for a while."""
        return self.is_dead or now - self.seen_at > LATE

    @property
    def suspicion(self) -> str:
        """What probably happened to it if it is late, for people."""
        return "it was killed" if self.is_dead else "it hangs, or was killed"

    def unseen(self, now: datetime) -> timedelta:
        """Return how long it has not been seen, in whole seconds."""
        return max(now - self.seen_at, timedelta(0)) // _SECOND * _SECOND


@dataclass(frozen=True, slots=True)
class HandlerUse:
    """How much of a handler's limits is in use now."""

    running: int
    """How many of its attempts run, in all workers."""
    most: int
    """How many may run: its own limit, or without one the slots of all workers."""
    has_own_limit: bool
    interval: timedelta | None
    """How far apart attempts begin; None without a rate."""
    next_from: datetime | None
    """When the next attempt may begin by the rate; None if it may begin now."""

    @property
    def per_minute(self) -> float | None:
        """How many attempts may begin in a minute; None without a rate."""
        return None if self.interval is None else MINUTE / self.interval


def use_of(
    handler: HandlerName, workers: Sequence[WorkerReport], paced_until: datetime | None, now: datetime
) -> HandlerUse:
    """Return what a handler uses, as its living workers report it. Of two versions the lower limit counts."""
    alive = [one for one in workers if not one.is_late(now)]
    limits = [one.sign.limits[handler] for one in alive if handler in one.sign.limits]
    own = min((one.concurrency for one in limits if one.concurrency is not None), default=None)
    interval = max((one.interval for one in limits if one.interval is not None), default=None)
    begin = None
    if interval is not None and paced_until is not None:
        begin = Pace(interval, paced_until).begin_from(now)
    return HandlerUse(
        running=sum(one.running.get(handler, 0) for one in workers),
        most=sum(one.sign.slots for one in alive) if own is None else own,
        has_own_limit=own is not None,
        interval=interval,
        next_from=begin if begin is not None and begin > now else None,
    )


@dataclass(frozen=True, slots=True)
class PruneRule:
    """What to remove: deliveries that arrived before a moment, or with `bodies` only their bodies.

    `type` is a glob. DEAD deliveries are removed only if `state` names them, and not while one of their work items
    stops its lane: the items queued there wait for a decision about it. Raises ValueError for a state with work
    left to do.
    """

    before: datetime
    bodies: bool = False
    type: str | None = None
    state: DeliveryState | None = None

    def __post_init__(self) -> None:
        if self.state not in (None, DeliveryState.DONE, DeliveryState.DEAD):
            raise ValueError(f"deliveries in the state {self.state} are never pruned")

    def chosen(self) -> DeliveryFilter:
        """Return the filter for the deliveries to remove."""
        return DeliveryFilter(
            type=self.type, until=self.before, state=self.state or DeliveryState.DONE, with_runs=True
        )


@dataclass(frozen=True, slots=True)
class Step:
    """What one step of a long action has done: how many deliveries, how many bytes, and where to continue.

    `after` is None at the end.
    """

    count: int
    size: int
    after: int | None
