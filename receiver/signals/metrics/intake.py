"""The metrics of the web process: deliveries, refusals, and the time to answer."""

import time
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Protocol, Self

from prometheus_client import Counter, Gauge, Histogram
from prometheus_client.metrics_core import Metric

from receiver.core.clock import Clock
from receiver.core.types import AppendOutcome
from receiver.signals.contracts import (
    DeliveryAccepted,
    DeliveryDuplicated,
    DeliveryRefused,
    delivery_accepted,
    delivery_duplicated,
    delivery_refused,
)
from receiver.signals.metrics.registry import Capped, MetricSeries, Registry

MAX_TYPES = 50
"""The service has about twenty; those that come beyond this are counted together."""
_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
"""Up to the service's own window of 10 seconds."""
_COPIED_EVERY = timedelta(seconds=1)
_CLASSES = tuple((f"{number}xx",) for number in range(6))
_ACKS = ("2xx",)
_REASONS = (
    "unauthenticated",
    "malformed",
    "timeout",
    "too_large",
    "connections",
    "overloaded",
    "store_error",
    "deadline",
    "fault",
)


class IntakeFigures(Protocol):
    """Numbers that intake counts also without metrics."""

    @property
    def received_bytes(self) -> int:
        """Bytes of all bodies that arrived."""

    @property
    def bytes_in_flight(self) -> int:
        """Bytes that requests hold now."""

    @property
    def quarantined(self) -> int:
        """Number of authentic bodies without an envelope."""


class IntakeMetrics:
    """The metrics of one web process, or the sums of several. They count inside the `with` block."""

    # They observe the signals inside `emit`, without a queue: a counter that drops records under load is wrong when
    # it matters most, and adding to it costs less than a queue. Two things are not in the signals. Latency belongs
    # to answers, some of which are given without a delivery. Bytes and quarantined bodies are counted by intake
    # anyway, and copied when the metrics are read.

    def __init__(
        self,
        figures: IntakeFigures,
        *,
        shared: bool = False,
        monotonic: Callable[[], float] = time.perf_counter,
    ) -> None:
        """With `shared` the metrics are those of all processes that use the shared folder; see `count_as`."""
        self._monotonic = monotonic
        self._registry = Registry(shared=shared)
        self._types = Capped(MAX_TYPES)
        self._deliveries = MetricSeries(
            Counter(
                "receiver_deliveries_total",
                "Durable deliveries, by outcome and type. A few of them were stored too late for an ack.",
                ["outcome", "type"],
                registry=self._registry,
            )
        )
        self._refusals = MetricSeries(
            Counter(
                "receiver_refusals_total",
                "Requests that were not acknowledged, by reason.",
                ["reason"],
                registry=self._registry,
            )
        )
        self._answers = MetricSeries(
            Histogram(
                "receiver_answer_seconds",
                "Time from a request's headers to its answer, by class of status. 2xx are the acks.",
                ["status"],
                buckets=_BUCKETS,
                registry=self._registry,
            )
        )
        self._quarantined = MetricSeries(
            Counter(
                "receiver_quarantined_total",
                "Authentic bodies that were put in quarantine, by reason.",
                ["reason"],
                registry=self._registry,
            )
        )
        for reason in _REASONS:
            self._refusals[(reason,)].inc(0)  # so that a rate includes the first one
        self._quarantined[("conflict",)].inc(0)
        self._answers[_ACKS]  # a rule that waits for none sees a process that has had none
        self._copy = _Copy(figures, self._quarantined[("malformed",)], self._registry)

    def __enter__(self) -> Self:
        delivery_accepted.observe(self._accepted)
        delivery_duplicated.observe(self._duplicated)
        delivery_refused.observe(self._refused)
        return self

    def __exit__(self, *_: object) -> None:
        delivery_accepted.disconnect(self._accepted)
        delivery_duplicated.disconnect(self._duplicated)
        delivery_refused.disconnect(self._refused)

    def stopwatch(self) -> Callable[[int], None]:
        """Start to measure an answer. Call the returned function with the status when the answer is given."""
        started = self._monotonic()

        def answered(status: int) -> None:
            self._answers[_CLASSES[status // 100]].observe(self._monotonic() - started)

        return answered

    async def exposition(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        self._copy.update()
        return self._registry.exposition()

    async def keep_copied(self, clock: Clock) -> None:
        """Show other processes the numbers of intake, at most a second old, until cancelled."""
        while True:
            self._copy.update()
            await clock.sleep(_COPIED_EVERY)

    def _accepted(self, delivery: DeliveryAccepted) -> None:
        self._count(AppendOutcome.ACCEPTED, delivery.type)

    def _duplicated(self, delivery: DeliveryDuplicated) -> None:
        if delivery.conflict:
            self._quarantined[("conflict",)].inc()
        self._count(AppendOutcome.CONFLICT if delivery.conflict else AppendOutcome.DUPLICATE, delivery.type)

    def _refused(self, request: DeliveryRefused) -> None:
        self._refusals[(request.reason,)].inc()

    def _count(self, outcome: AppendOutcome, kind: str) -> None:
        self._deliveries[outcome, self._types(kind)].inc()


class _Copy:
    """The numbers of intake as metrics."""

    def __init__(self, figures: IntakeFigures, malformed: Counter, registry: Registry) -> None:
        self._figures = figures
        self._malformed = malformed
        self._received = Counter(
            "receiver_received_bytes_total",
            "Bytes of bodies that arrived, in whole or in part, whatever was answered.",
            registry=registry,
        )
        self._in_flight = Gauge(
            "receiver_in_flight_bytes",
            "Bytes that requests being received or written hold now.",
            registry=registry,
            multiprocess_mode="livesum",
        )
        self._copied_received = self._copied_quarantined = 0
        self.update()

    def update(self) -> None:
        """Copy the numbers as they are now."""
        figures = self._figures
        self._received.inc(figures.received_bytes - self._copied_received)
        self._malformed.inc(figures.quarantined - self._copied_quarantined)
        self._copied_received, self._copied_quarantined = figures.received_bytes, figures.quarantined
        self._in_flight.set(figures.bytes_in_flight)


class _NoFigures:
    received_bytes = bytes_in_flight = quarantined = 0


def described_metrics() -> Iterable[Metric]:
    """Return every metric that a web process can show, for the guide. Their values mean nothing."""
    return IntakeMetrics(_NoFigures())._registry.collect()
