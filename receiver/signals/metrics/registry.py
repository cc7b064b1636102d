"""Tools of all metrics: a registry of their own, and labels with a limited number of values."""

from collections.abc import Iterable
from typing import TypeVar

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest, values
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.metrics_core import CounterMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from receiver.signals.subscribers import dropped

M = TypeVar("M", bound=MetricWrapperBase)

OTHER = "other"
MAX_LABEL_LENGTH = 100


def count_as(number: int) -> None:
    """Keep the counters of this process in the shared folder, under a number that no other process has now.

    A process that gets the number of a dead one continues its counters: no sum becomes smaller. Without a
    number, prometheus_client uses the process id, and the folder grows with each restart.
    """
    values.ValueClass = values.MultiProcessValue(lambda: number)  # type: ignore[no-untyped-call]


class Registry(CollectorRegistry):
    """A registry of our own: a program that mounts the receiver may use prometheus_client's global one."""

    def __init__(self, *, shared: bool = False) -> None:
        """With `shared` it shows the sums of all processes that keep their counters in the shared folder.

        Then it shows nothing that is asked of one process, such as its memory.
        """
        super().__init__()
        self._shared = shared
        if not shared:
            ProcessCollector(registry=self)
            self.register(_Dropped())

    def collect(self) -> Iterable[Metric]:
        """Yield every metric without its time of creation, which would double the number of series."""
        for metric in super().collect():
            metric.samples = [sample for sample in metric.samples if not sample.name.endswith("_created")]
            yield metric

    def exposition(self) -> bytes:
        """Return all metrics in the text format, version 0.0.4."""
        if not self._shared:
            return generate_latest(self)
        sums = CollectorRegistry()
        MultiProcessCollector(sums)  # type: ignore[no-untyped-call]
        return generate_latest(sums)


class MetricSeries(dict[tuple[str, ...], M]):
    """The children of a metric by their labels, made at first use. That is ten times as fast as `labels()`."""

    def __init__(self, metric: M) -> None:
        super().__init__()
        self._metric = metric

    def __missing__(self, labels: tuple[str, ...]) -> M:
        child = self[labels] = self._metric.labels(*labels)
        return child


class Capped:
    """Labels from outside: the first `most` values stay, and all others become "other"."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: set[str] = set()

    def __call__(self, value: str) -> str:
        """Return the label for a value."""
        if value in self._known:
            return value
        if len(self._known) >= self._most or len(value) > MAX_LABEL_LENGTH:
            return OTHER
        self._known.add(value)
        return value


class _Dropped(Collector):
    def collect(self) -> Iterable[Metric]:
        explanation = "Records that a subscriber of a signal was too slow for."
        family = CounterMetricFamily("receiver_signal_records_dropped", explanation, labels=["subscriber"])
        for subscriber, count in dropped().items():
            family.add_metric([subscriber], count)
        yield family
