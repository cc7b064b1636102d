"""The metrics of a worker: what it counts, and what it reads from the store on request."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime, timedelta
from typing import Self

from prometheus_client import Counter, Histogram
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from receiver.core.clock import Clock, SystemClock
from receiver.core.ports.reports import HealthReader
from receiver.core.text import table
from receiver.core.types import AttemptOutcome, HandlerName
from receiver.core.work import Backlog, StoreFacts
from receiver.errors import ReceiverError
from receiver.runtime.log_lines import event_log
from receiver.signals.contracts import (
    AttemptFailed,
    AttemptSucceeded,
    JobAsked,
    WorkDead,
    attempt_failed,
    attempt_succeeded,
    job_asked,
    work_dead,
)
from receiver.signals.metrics import intake
from receiver.signals.metrics.registry import MetricSeries, Registry

_OUTCOMES = ("brought_in", "nothing_missing", "not_over", "impossible", "failed")


class BackfillMetrics:
    """Adds metrics to a registry, and counts from `begin` to `end`."""

    def __init__(self, registry: Registry) -> None:
        self._jobs = MetricSeries(
            Counter(
                "receiver_backfill_jobs_total",
                "Questions to the service about what a job produced, by outcome.",
                ["outcome"],
                registry=registry,
            )
        )
        self._deliveries = MetricSeries(
            Counter(
                "receiver_backfilled_total",
                "Deliveries that had not arrived and were imported, by type.",
                ["type"],
                registry=registry,
            )
        )
        for outcome in _OUTCOMES:
            self._jobs[(outcome,)].inc(0)  # so that a rate includes the first one

    def begin(self) -> None:
        """Start counting."""
        job_asked.observe(self._asked)

    def end(self) -> None:
        """Stop counting."""
        job_asked.disconnect(self._asked)

    def _asked(self, job: JobAsked) -> None:
        self._jobs[(job.outcome,)].inc()
        for kind, count in job.imported.items():
            self._deliveries[(kind,)].inc(count)


log = event_log(__name__)

_BUCKETS = (0.001, 0.005, 0.025, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 900)
_FRESH = timedelta(seconds=5)
_PATIENCE = timedelta(seconds=2)


class BacklogReader:
    """Reads the store's backlog, at most once in a few seconds for all who ask."""

    def __init__(
        self,
        reports: Callable[[], AbstractAsyncContextManager[HealthReader]],
        clock: Clock,
        *,
        patience: timedelta = _PATIENCE,
    ) -> None:
        """`reports` opens the store. It is opened for each reading: a store may go away and come back."""
        self._reports = reports
        self._clock = clock
        self._patience_seconds = patience.total_seconds()
        self._read_at: datetime | None = None
        self._reading: asyncio.Task[Backlog | None] | None = None
        self.facts: StoreFacts | None = None
        """What was read together with the last backlog."""

    async def read(self) -> Backlog | None:
        """Return the backlog, at most five seconds old; None if the store does not answer in time."""
        now = self._clock.now()
        fresh = self._read_at is not None and timedelta(0) <= now - self._read_at < _FRESH
        if self._reading is None or (self._reading.done() and not fresh):
            self._read_at = now
            self._reading = asyncio.create_task(self._read(now))
        done, _ = await asyncio.wait([self._reading], timeout=self._patience_seconds)
        return self._reading.result() if done else None

    async def _read(self, now: datetime) -> Backlog | None:
        try:
            async with self._reports() as reports:
                self.facts = await reports.facts()
                return await reports.backlog(now)
        except ReceiverError as exc:
            log.warning("backlog_not_read", extra={"reason": str(exc)})
        except Exception:
            log.exception("backlog_not_read")
        return None


class WorkMetrics:
    """The metrics of one worker. They count inside the `with` block."""

    # They observe the signals inside `emit`, for the reason given in intake.py.

    def __init__(self, handlers: Sequence[HandlerName], backlog: BacklogReader) -> None:
        self._reader = backlog
        self._registry = Registry()
        self._attempts = MetricSeries(
            Counter(
                "receiver_attempts_total",
                "Attempts that ended, by handler and outcome.",
                ["handler", "outcome"],
                registry=self._registry,
            )
        )
        self._seconds = MetricSeries(
            Histogram(
                "receiver_handler_seconds",
                "How long attempts took, by handler.",
                ["handler"],
                buckets=_BUCKETS,
                registry=self._registry,
            )
        )
        self._dead = MetricSeries(
            Counter(
                "receiver_work_dead_total",
                "Work items that are not tried again by themselves, by handler.",
                ["handler"],
                registry=self._registry,
            )
        )
        self._leases_lost = Counter(
            "receiver_leases_lost_total",
            "Attempts whose lease ended before their result could be recorded; they run again.",
            registry=self._registry,
        )
        self._backfill = BackfillMetrics(self._registry)
        self._store = _StoreFigures(handlers)
        self._registry.register(self._store)
        self._begin_at_zero(handlers)

    def __enter__(self) -> Self:
        attempt_succeeded.observe(self._succeeded)
        attempt_failed.observe(self._failed)
        work_dead.observe(self._died)
        self._backfill.begin()
        return self

    def __exit__(self, *_: object) -> None:
        attempt_succeeded.disconnect(self._succeeded)
        attempt_failed.disconnect(self._failed)
        work_dead.disconnect(self._died)
        self._backfill.end()

    def _begin_at_zero(self, handlers: Sequence[HandlerName]) -> None:
        """Make the counters of every handler: a rate then includes the first event."""
        for name in handlers:
            self._dead[(name,)].inc(0)
            for outcome in AttemptOutcome:
                self._attempts[name, outcome].inc(0)

    async def exposition(self) -> bytes:
        """Return all metrics in Prometheus' text format, with the store's backlog of this moment."""
        self._store.backlog = await self._reader.read()
        self._store.facts = self._reader.facts
        return self._registry.exposition()

    def _succeeded(self, attempt: AttemptSucceeded) -> None:
        self._count(attempt, AttemptOutcome.SUCCEEDED)

    def _failed(self, attempt: AttemptFailed) -> None:
        self._count(attempt, attempt.outcome)
        if attempt.outcome is AttemptOutcome.LOST:
            self._leases_lost.inc()

    def _died(self, work: WorkDead) -> None:
        self._dead[(work.handler,)].inc()

    def _count(self, attempt: AttemptSucceeded | AttemptFailed, outcome: AttemptOutcome) -> None:
        self._attempts[attempt.handler, outcome].inc()
        # The clock may have been set back in between, and a sum must not become smaller.
        self._seconds[(attempt.handler,)].observe(max(0.0, attempt.took.total_seconds()))


class _StoreFigures(Collector):
    """The backlog of the whole store, the same from every worker."""

    def __init__(self, handlers: Sequence[HandlerName]) -> None:
        self._handlers = handlers
        self.backlog: Backlog | None = None
        self.facts: StoreFacts | None = None

    def collect(self) -> Iterable[Metric]:
        backlog = self.backlog
        yield GaugeMetricFamily(
            "receiver_store_readable", "Whether the store could be read: 1 or 0.", int(backlog is not None)
        )
        if backlog is None:
            return
        yield GaugeMetricFamily("receiver_deliveries_new", "Deliveries that no worker has routed yet.", backlog.new)
        items = GaugeMetricFamily("receiver_work_items", "Work items to do, by state.", labels=["state"])
        items.add_metric(["waiting"], backlog.waiting)
        items.add_metric(["running"], backlog.running)
        yield items
        age = backlog.oldest_waiting or timedelta(0)
        yield GaugeMetricFamily(
            "receiver_oldest_waiting_seconds",
            "How long the oldest due work item has waited, 0 if none is due.",
            age.total_seconds(),
        )
        yield GaugeMetricFamily(
            "receiver_attempts_lost",
            "Attempts that ended with their worker or its lease, in all stored work items.",
            backlog.lost,
        )
        paused = GaugeMetricFamily("receiver_handler_paused", "Whether a handler is paused.", labels=["handler"])
        for name in sorted({*self._handlers, *backlog.paused}):
            paused.add_metric([name], int(name in backlog.paused))
        yield paused
        runs = GaugeMetricFamily(
            "receiver_next_run_timestamp_seconds",
            "When a handler runs by itself the next time, in seconds since 1970. A past moment is a missed run.",
            labels=["handler"],
        )
        for name, moment in sorted(backlog.next_runs.items()):
            runs.add_metric([name], moment.timestamp())
        yield runs
        yield from _of_facts(self.facts)


def _of_facts(facts: StoreFacts | None) -> Iterable[Metric]:
    if facts is None:
        return
    yield GaugeMetricFamily("receiver_store_bytes", "Size of the store with its indexes.", facts.bytes)
    if facts.dead_rows is not None:
        meaning = "Versions of rows in the store that no transaction sees any more, and that are not removed yet."
        yield GaugeMetricFamily("receiver_store_dead_rows", meaning, facts.dead_rows)
    for name, meaning, age in (
        ("oldest_snapshot", "Age of the oldest snapshot on the server of the store.", facts.oldest_snapshot),
        ("standby_lag", "How far the last standby of the server is behind.", facts.standby_lag),
    ):
        if age is not None:
            yield GaugeMetricFamily(f"receiver_store_{name}_seconds", meaning, age.total_seconds())


def described_metrics() -> Iterable[Metric]:
    """Return every metric that a worker can show, for the guide. Their values mean nothing."""
    metrics = WorkMetrics((), BacklogReader(_no_store, SystemClock()))
    metrics._store.backlog = Backlog(new=0, waiting=0, running=0, oldest_waiting=None, paused=(), lost=0)
    metrics._store.facts = StoreFacts(0, 0, timedelta(0), timedelta(0))
    return metrics._registry.collect()


def _no_store() -> AbstractAsyncContextManager[HealthReader]:
    raise LookupError("these metrics are only described")


def metrics_table() -> str:
    """Return a table of all metrics of our own: name, who serves it, kind, and meaning."""
    endpoint = _rows("endpoint", intake.described_metrics())
    return table(("metric", "of the", "kind", "meaning"), [*endpoint, *_rows("worker", described_metrics())])


def _rows(place: str, metrics: Iterable[Metric]) -> list[tuple[str, str, str, str]]:
    return [
        (f"`{one.name}{'_total' * (one.type == 'counter')}`", place, one.type, one.documentation)
        for one in metrics
        if one.name.startswith("receiver_")
    ]
