"""The end of a program: what it has emitted still reaches whoever takes it."""

from receiver.signals.subscribers import flush
from receiver.signals.traces.switch import flush_traces


def flush_all() -> None:
    """Wait a short time until subscribers have handled all records, and all spans are exported."""
    flush()
    flush_traces()
