"""Start and end traces in a process."""

import os
import threading
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import cache
from importlib.metadata import entry_points
from typing import Any

from opentelemetry import trace

from receiver.errors import ConfigurationError
from receiver.runtime.log_lines import event_log
from receiver.signals.traces.contracts import ADVICE
from receiver.signals.traces.spans import context_of

log = event_log(__name__)

_FLUSH_WITHIN = timedelta(seconds=2)
_GROUPS = (
    ("opentelemetry_distro", "OTEL_PYTHON_DISTRO"),
    ("opentelemetry_configurator", "OTEL_PYTHON_CONFIGURATOR"),
)
"""What the command `opentelemetry-instrument` calls, and the variables that choose among several. That command
itself would not reach the workers: it hides from the processes that a program starts.
https://opentelemetry-python-contrib.readthedocs.io/en/latest/instrumentation/base/instrumentor.html"""


@cache  # once in a process
def start_traces() -> None:
    """Let spans go where the environment says (`OTEL_…`), unless the program has set a tracer provider.

    Raises ConfigurationError if that cannot be set up.
    """
    if not is_configured():
        try:
            for group, choice in _GROUPS:
                _configure(group, os.environ.get(choice))
        except Exception as exc:
            raise ConfigurationError(
                f"RECEIVER_TRACES: OpenTelemetry could not be set up ({exc}): {ADVICE}"
            ) from exc
    if not is_configured():
        log.warning("traces_not_exported", extra={"advice": ADVICE})


def _configure(group: str, name: str | None) -> None:
    """Call the first configurator that is installed, or the one with this name."""
    for found in entry_points(group=group):
        if name in (None, found.name):
            found.load()().configure()
            return


def is_configured() -> bool:
    """Return whether the spans of this process go anywhere."""
    return not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)


def flush_spans() -> None:
    """Export the spans so far, as far as that takes no longer than two seconds."""
    flush = getattr(trace.get_tracer_provider(), "force_flush", None)
    if flush is not None:
        # The provider's own time limit does not end a request to a collector that does not answer.
        exporting = threading.Thread(target=flush, daemon=True)
        exporting.start()
        exporting.join(_FLUSH_WITHIN.total_seconds())


def traced(function: Callable[[Any], object], fields: Mapping[str, str]) -> Callable[[Any], object]:
    """Return the function as a part of the trace that another process has begun.

    Traces never steer: if they cannot start here, the function is returned as it is.
    """
    try:
        start_traces()
    except ConfigurationError as exc:
        log.warning("trace_failed", extra={"count": 1, "reason": str(exc)})
        return function

    def run(argument: Any) -> object:
        parent = trace.get_current_span(context_of(fields))
        with trace.use_span(parent, record_exception=False, set_status_on_exception=False):
            return function(argument)

    return run
