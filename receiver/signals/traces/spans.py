"""The spans of deliveries and attempts.

Names and attributes are those of OpenTelemetry's conventions for messaging (semantic conventions 1.44):
https://opentelemetry.io/docs/specs/semconv/messaging/messaging-spans/
The type of the event is the destination, and each handler is a consumer group: it gets every event of its own. What
the conventions lack begins with `receiver.`. No body, no header and no secret is an attribute.
"""

import asyncio
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode, Tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from receiver.core.claims import WorkItem
from receiver.core.deliveries import Delivery, Receipt
from receiver.core.signing import trace_of, with_trace
from receiver.core.text import storable
from receiver.core.types import AttemptOutcome
from receiver.core.work import Attempt
from receiver.runtime.log_lines import event_log
from receiver.runtime.tracebacks import error_line, frames
from receiver.signals.subscribers import Quiet
from receiver.signals.traces.contracts import Stored

log = event_log(__name__)

SYSTEM = "crawl_receiver"
_failures = Quiet()
_PROPAGATOR = TraceContextTextMapPropagator()

AttributeValues = dict[str, str | int | float | bool]


def tracer() -> Tracer:
    """Return the tracer of this package."""
    return trace.get_tracer("receiver")


def fields_of(span: Span) -> Mapping[str, str]:
    """Return the fields by which another process continues a trace."""
    fields: dict[str, str] = {}
    _PROPAGATOR.inject(fields, trace.set_span_in_context(span, Context()))
    return fields


def context_of(fields: Mapping[str, str]) -> Context:
    """Return the context that these fields describe; an empty one if they are missing or wrong."""
    return _PROPAGATOR.extract(fields, Context())


def running_fields() -> Mapping[str, str]:
    """Return the fields that continue the trace of what runs now; an empty list outside of a span."""
    return fields_of(trace.get_current_span())


def log_failure(error: Exception) -> None:
    """Log that a span could not be made, once a minute for each kind: traces observe, and never steer."""
    if count := _failures.count(type(error).__qualname__, time.monotonic()):
        log.error("trace_failed", extra={"count": count}, exc_info=error)


def end(span: Span) -> None:
    """End a span, whatever the span processors of the program do."""
    try:
        span.end()
    except Exception as exc:
        log_failure(exc)


def note_error(span: Span, error: BaseException) -> None:
    """Note in a span that it ended with an exception, with its text and frames as far as the log has them.

    Not by `record_exception`, which keeps all of the text: it may quote a whole page, and thousands of spans wait
    for their export. And a text that is not UTF-8 makes OTLP exporters drop all spans that they send together.
    The event is that of https://opentelemetry.io/docs/specs/semconv/exceptions/exceptions-spans/
    """
    kind, line = type(error), error_line(error)
    span.set_attribute("error.type", kind.__qualname__)
    noted: AttributeValues = {
        "exception.type": f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins."),
        "exception.message": storable(line.removeprefix(kind.__qualname__).removeprefix(": ")),
        "exception.stacktrace": storable("\n".join([*frames(error), line])),
    }
    span.add_event("exception", noted)
    span.set_status(Status(StatusCode.ERROR, kind.__qualname__))


class DeliverySpans:
    """Makes a span for each delivery, from its acceptance until it is durable.

    It belongs to the trace that the request names in `traceparent`, or to the span of a framework around it.
    """

    def __init__(self) -> None:
        self._tracer = tracer()

    def follow(self, delivery: Delivery, then: Stored) -> tuple[Delivery, Stored]:
        """Begin a span. Return the delivery with its trace, and what ends the span and then calls `then`."""
        try:
            return self._begin(delivery, then)
        except Exception as exc:
            log_failure(exc)
            return delivery, then

    def _begin(self, delivery: Delivery, then: Stored) -> tuple[Delivery, Stored]:
        framework = trace.get_current_span()
        parent = None if framework.get_span_context().is_valid else context_of(trace_of(delivery.headers))
        span = self._tracer.start_span(
            f"receive {delivery.type}",
            context=parent,
            kind=SpanKind.CONSUMER,
            attributes=_message("receive", delivery),
        )
        began = time.perf_counter()

        def stored(receipt: Receipt | BaseException) -> None:
            try:
                _end_delivery(span, receipt, time.perf_counter() - began)
            except Exception as exc:
                log_failure(exc)
            then(receipt)

        return delivery._replace(headers=with_trace(delivery.headers, fields_of(span))), stored


def _end_delivery(span: Span, receipt: Receipt | BaseException, seconds: float) -> None:
    span.set_attribute("receiver.commit.seconds", seconds)
    if isinstance(receipt, asyncio.CancelledError):
        span.set_status(Status(StatusCode.ERROR, "the store was closed"))
    elif isinstance(receipt, BaseException):
        note_error(span, receipt)
    else:
        span.set_attribute("receiver.outcome", receipt.outcome.value)
    end(span)


class AttemptSpans:
    """Makes a span for each call of a handler.

    The span of one event belongs to the trace of its delivery, as do those of its retries and replays. The span of
    a batch begins a trace, and has a link to the trace of each delivery.
    """

    def __init__(self) -> None:
        self._tracer = tracer()

    @contextmanager
    def span(self, items: Sequence[WorkItem]) -> "Iterator[_AttemptSpan]":
        """Return a span for the block. Spans that begin in the block are its children."""
        span = self._begin(items)
        call = _AttemptSpan(span)
        try:
            with trace.use_span(span, record_exception=False, set_status_on_exception=False):
                yield call
        finally:
            call.end()

    def _begin(self, items: Sequence[WorkItem]) -> Span:
        try:
            return self._start(items)
        except Exception as exc:
            log_failure(exc)
            return trace.INVALID_SPAN

    def _start(self, items: Sequence[WorkItem]) -> Span:
        contexts = [context_of(trace_of(one.source.delivery.headers)) for one in items]
        alone = len(items) == 1
        return self._tracer.start_span(
            f"process {items[0].source.delivery.type}",
            context=contexts[0] if alone else Context(),
            kind=SpanKind.CONSUMER,
            attributes=_attempt(items),
            links=() if alone else _links(contexts),
        )


class _AttemptSpan:
    def __init__(self, span: Span) -> None:
        self._span = span
        self._outcome = "interrupted"

    def note_end(self, attempt: Attempt, error: BaseException | None) -> None:
        """Note how the call ended, before the span ends."""
        self._outcome = attempt.outcome.value
        try:
            if error is not None:
                note_error(self._span, error)
            elif attempt.outcome is not AttemptOutcome.SUCCEEDED:
                self._span.set_status(Status(StatusCode.ERROR, attempt.error))
        except Exception as exc:  # the error's own text may raise
            log_failure(exc)

    def end(self) -> None:
        """End the span. A call that the worker has stopped is `interrupted`: it will run again."""
        self._span.set_attribute("receiver.outcome", self._outcome)
        end(self._span)


def _message(operation: str, delivery: Delivery) -> AttributeValues:
    attributes: AttributeValues = {
        **_operation(operation, delivery.type),
        "messaging.message.id": delivery.key,
        "messaging.message.body.size": len(delivery.body),
    }
    if delivery.job_id is not None:
        attributes["messaging.message.conversation_id"] = delivery.job_id
    return attributes


def _operation(operation: str, kind: str) -> AttributeValues:
    return {
        "messaging.system": SYSTEM,
        "messaging.operation.name": operation,
        "messaging.operation.type": operation,
        "messaging.destination.name": kind,
    }


def _attempt(items: Sequence[WorkItem]) -> AttributeValues:
    first = items[0]
    delivery = first.source.delivery
    attributes = _message("process", delivery) if len(items) == 1 else _operation("process", delivery.type)
    if len(items) > 1:
        attributes["messaging.batch.message_count"] = len(items)
    else:
        attributes["receiver.attempt"] = first.attempt
        attributes["receiver.trigger"] = first.trigger.value
    attributes["messaging.consumer.group.name"] = first.handler
    return attributes


def _links(contexts: Sequence[Context]) -> Sequence[Link]:
    spans = [trace.get_current_span(one).get_span_context() for one in contexts]
    distinct = {(one.trace_id, one.span_id): one for one in spans if one.is_valid}
    return [Link(one) for one in distinct.values()]
