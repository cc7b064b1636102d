"""What a worker counts of its own backfilling."""

from prometheus_client import Counter

from receiver.signals.contracts import JobAsked, job_asked
from receiver.signals.metrics.registry import MetricSeries, Registry

_OUTCOMES = ("brought_in", "nothing_missing", "not_over", "impossible", "failed")


class BackfillMetrics:
    """Counts into a registry, from `begin` to `end`."""

    def __init__(self, registry: Registry) -> None:
        self._jobs = MetricSeries(
            Counter(
                "receiver_backfill_jobs_total",
                "Times that the service was asked what a job produced, by outcome.",
                ["outcome"],
                registry=registry,
            )
        )
        self._deliveries = MetricSeries(
            Counter(
                "receiver_backfilled_total",
                "Deliveries that had not arrived and were brought in, by type.",
                ["type"],
                registry=registry,
            )
        )
        for outcome in _OUTCOMES:
            self._jobs[(outcome,)].inc(0)  # so that a rate sees the first one too

    def begin(self) -> None:
        """Count from now on."""
        job_asked.observe(self._asked)

    def end(self) -> None:
        """Count no more."""
        job_asked.disconnect(self._asked)

    def _asked(self, job: JobAsked) -> None:
        self._jobs[(job.outcome,)].inc()
        for kind, count in job.brought_in.items():
            self._deliveries[(kind,)].inc(count)
