"""What intake and workers ask of traces."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

from receiver.core.batches import Then
from receiver.core.deliveries import Delivery, Receipt
from receiver.core.work import Attempt

if TYPE_CHECKING:  # intake knows no work items, and need not load them
    from receiver.core.claims import WorkItem

ADVICE = "pip install opentelemetry-distro opentelemetry-exporter-otlp"
"""What to install beside the extra `otel`."""
Stored = Then[Receipt]
"""Takes the receipt of a delivery that is durable, or the error with which it has failed."""


class DeliveryTraces(Protocol):
    """Makes a span for each delivery that is written."""

    def follow(self, delivery: Delivery, then: Stored) -> tuple[Delivery, Stored]:
        """Begin a span. Return the delivery with its trace, and what ends the span and then calls `then`."""


class AttemptSpan(Protocol):
    """The span of a call."""

    def note_end(self, attempt: Attempt, error: BaseException | None) -> None:
        """Note how the call ended, before the span ends."""


class AttemptTraces(Protocol):
    """Makes a span for each call of a handler."""

    def span(self, items: "Sequence[WorkItem]") -> AbstractContextManager[AttemptSpan]:
        """Return a span for the block. Spans that begin in the block are its children."""


class CallSpan(Protocol):
    """The span of an HTTP request."""

    def note_status(self, status: int) -> None:
        """Note the status of the answer."""

    def note_route(self, route: str) -> None:
        """Note the path of the operation, with placeholders for ids."""
