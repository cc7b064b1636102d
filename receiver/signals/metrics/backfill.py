"""The metrics of a worker's own backfilling."""

from prometheus_client import Counter

from receiver.signals.contracts import JobAsked, job_asked
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
