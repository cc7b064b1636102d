"""Tools for tests of metrics."""

from datetime import timedelta

from prometheus_client.parser import text_string_to_metric_families

from tests.doubles import LONG

PATIENCE = timedelta(seconds=LONG)
SECOND = timedelta(seconds=1)
Samples = dict[tuple[str, ...], float]


def samples(exposition: bytes) -> Samples:
    """Read the text format back: values by name and sorted labels, as `name, label=value, ...`."""
    return {
        (sample.name, *sorted(f"{name}={value}" for name, value in sample.labels.items())): sample.value
        for family in text_string_to_metric_families(exposition.decode())
        for sample in family.samples
    }
