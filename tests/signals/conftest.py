"""A signal for each test of subscribers, and the spans of each test of traces."""

from collections.abc import Iterator

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from receiver.signals.subscribers import Signal
from tests.signals.watching import delivered


@pytest.fixture
def signal() -> Iterator[Signal[int]]:
    """A signal for one test; all its subscribers are disconnected afterwards."""
    made = Signal[int]("numbers")
    yield made
    for subscriber in made.subscribers:
        made.disconnect(subscriber)
    assert not made.receivers
    delivered()


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    """The spans of this process, which is traced as long as the test runs."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    # A provider can be set only once in a process, and the other tests have none.
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
    return exporter
