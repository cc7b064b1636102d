"""Where traces are switched on or off. OpenTelemetry is loaded only where they are on."""

import importlib.util
import sys
from collections.abc import Mapping, MutableMapping
from contextlib import AbstractContextManager, nullcontext

from receiver.errors import ConfigurationError
from receiver.signals.traces.contracts import AttemptTraces, CallSpan, DeliveryTraces

_API = "opentelemetry.trace"


def switch_on() -> bool:
    """Start traces in this process, and return whether they go anywhere. Raises ConfigurationError."""
    if importlib.util.find_spec("opentelemetry") is None:
        advice = "pip install 'crawl-receiver[otel]'"
        raise ConfigurationError(f"RECEIVER_TRACES needs a package that is not installed: {advice}")
    from receiver.signals.traces.starting import start_traces

    start_traces()
    return is_on()


def delivery_traces(*, on: bool) -> DeliveryTraces | None:
    """Return what makes the spans of deliveries, if they go anywhere; raises ConfigurationError."""
    if not on or not switch_on():
        return None
    from receiver.signals.traces.spans import DeliverySpans

    return DeliverySpans()


def attempt_traces(*, on: bool) -> AttemptTraces | None:
    """Return what makes the spans of attempts, if they go anywhere; raises ConfigurationError."""
    if not on or not switch_on():
        return None
    from receiver.signals.traces.spans import AttemptSpans

    return AttemptSpans()


def flush_traces() -> None:
    """Export the spans so far, as far as that takes no longer than two seconds."""
    if is_on():
        from receiver.signals.traces.starting import flush_spans

        flush_spans()


def is_on() -> bool:
    """Return whether the spans of this process go anywhere: to `switch_on`, or to the program."""
    if _API not in sys.modules:
        return False
    from receiver.signals.traces.starting import is_configured

    return is_configured()


def call_span(method: str, url: str, headers: MutableMapping[str, str]) -> AbstractContextManager[CallSpan | None]:
    """Return the span of a request that is sent in the block, None without traces; adds it to `headers`."""
    if not is_on():
        return nullcontext()
    from receiver.signals.traces.http import sent

    return sent(method, url, headers)


def answer_span(method: str, headers: Mapping[str, str]) -> AbstractContextManager[CallSpan | None]:
    """Return the span of a request that is answered in the block, None without traces."""
    if not is_on():
        return nullcontext()
    from receiver.signals.traces.http import answered

    return answered(method, headers)


def running_trace() -> Mapping[str, str]:
    """Return the fields that continue the trace of what runs now; empty without traces, or outside of a span."""
    if not is_on():
        return {}
    from receiver.signals.traces.spans import running_fields

    return running_fields()
