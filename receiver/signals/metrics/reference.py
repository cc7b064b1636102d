"""The table of metrics in the guide."""

from collections.abc import Iterable

from prometheus_client.metrics_core import Metric

from receiver.core.markdown import table
from receiver.signals.metrics import intake, work


def metrics_table() -> str:
    """Return a table of all metrics of our own: name, who serves it, kind, and meaning."""
    endpoint = _rows("endpoint", intake.described_metrics())
    return table(("metric", "of the", "kind", "meaning"), [*endpoint, *_rows("worker", work.described_metrics())])


def _rows(place: str, metrics: Iterable[Metric]) -> list[tuple[str, str, str, str]]:
    return [
        (f"`{one.name}{'_total' * (one.type == 'counter')}`", place, one.type, one.documentation)
        for one in metrics
        if one.name.startswith("receiver_")
    ]
